import { jsonLine } from '@gpg-bridge/core/text/escape';
import { ensureBridge } from './ensure-bridge.ts';
import { bridgeOptions } from './flags.ts';
import type { ParsedCommand } from './specs.ts';
import { describeBridge } from './up-words.ts';

/** Ensures a bridge, and says where its sockets are and what to try next. */
export async function run({ operands: [spec], flags }: ParsedCommand): Promise<number> {
  const options = bridgeOptions('up', flags);
  const info = await ensureBridge(spec, { ...options, now: flags.now === true }, flags.verbose === true);
  if (typeof info === 'number') return info;
  const { shell: _shell, ...document } = info;
  process.stdout.write(`${flags.json ? jsonLine(document) : describeBridge(info, options).join('\n')}\n`);
  // What a new bridge lacks is a warning.
  return info.result !== 'new' && info.problems.length > 0 ? 1 : 0;
}
