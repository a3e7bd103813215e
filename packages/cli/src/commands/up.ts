import { isDecorated } from '../terminal/style.ts';
import { ensureBridge } from './ensure-bridge.ts';
import { bridgeOptions } from './flags.ts';
import type { ParsedCommand } from './specs.ts';
import { printedBridge, statusOf } from './up-words.ts';

/** Ensures a bridge, and says where its sockets are and what to try next. */
export async function run({ operands: [spec], flags, isAsked }: ParsedCommand): Promise<number> {
  const options = bridgeOptions('up', flags);
  const wanted = { ...options, now: flags.now === true, isAsked };
  const info = await ensureBridge(spec, wanted, flags.verbose === true);
  if (typeof info === 'number') return info;
  const how = { json: flags.json === true, isDecorated: isDecorated(process.stdout) };
  process.stdout.write(printedBridge(info, options, how));
  return statusOf(info);
}
