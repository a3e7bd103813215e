import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import { Manager } from '../manager/manager.ts';
import { noBridge, requireNamedBridge } from './bridge-operand.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Gives a target the host's public keys and their trust again. */
export async function run(command: ParsedCommand): Promise<number> {
  const [verb, ...operands] = command.operands;
  if (verb !== 'sync') throw usage('keys', verb ? `it knows no '${verb}'` : 'say `keys sync TARGET`');
  const named = requireNamedBridge('keys', { ...command, operands });
  const result = await new Manager().syncKeys(named.spec, named.selector);
  if (!result) throw await noBridge(named);
  const { added, updated, unchanged } = result;
  if (command.flags.json) process.stdout.write(`${jsonLine(result)}\n`);
  else {
    process.stdout.write(
      `Public keys in ${printableValue(named.name)}: ${added} new, ${updated} updated, ${unchanged} unchanged.\n`,
    );
  }
  return 0;
}
