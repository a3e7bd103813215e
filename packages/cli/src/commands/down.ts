import { printableValue } from '@gpg-bridge/core/text/escape';
import { Manager } from '../manager/manager.ts';
import { namedBridge, otherUsers } from './bridge-operand.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Ends one bridge, or all of them; nothing to end is success. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge(command);
  const force = command.flags.force === true;
  if (named && command.flags.all) throw usage('down', 'a target and --all exclude each other');
  if (named) {
    const stopped = await manager.stopBridge(named.spec, { ...named.selector, force });
    const name = printableValue(named.name);
    process.stdout.write(stopped ? `The bridge to ${name} is down.\n` : `There was no bridge to ${name}.\n`);
    process.stdout.write(otherUsers('down', await manager.findAll(named.spec, named.selector)));
    return 0;
  }
  if (!command.flags.all) throw usage('down', 'it needs a target, or --all');
  const { ended, failures } = await manager.stopEach({ force });
  if (ended > 0 || failures.length === 0) {
    process.stdout.write(
      ended === 0 ? 'No bridge was up.\n' : `Ended ${ended === 1 ? 'one bridge' : `${ended} bridges`}.\n`,
    );
  }
  const [first, ...others] = failures;
  for (const { message } of others) process.stderr.write(`gpg-bridge: ${message}\n`);
  if (first) throw first;
  return 0;
}
