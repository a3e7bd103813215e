import { Manager } from '../manager/manager.ts';
import { namedBridge, otherUsers } from './bridge-operand.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Ends one bridge, or all of them; nothing to end is success. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge(command);
  if (named && command.flags.all) throw usage('down', 'a target and --all exclude each other');
  if (named) {
    const stopped = await manager.stopBridge(named.spec, named.selector);
    process.stdout.write(
      stopped ? `The bridge to ${named.name} is down.\n` : `There was no bridge to ${named.name}.\n`,
    );
    process.stdout.write(otherUsers('down', await manager.findAll(named.spec, named.selector)));
    return 0;
  }
  if (!command.flags.all) throw usage('down', 'it needs a target, or --all');
  const count = await manager.stopAll();
  process.stdout.write(
    count === 0 ? 'No bridge was up.\n' : `Ended ${count === 1 ? 'one bridge' : `${count} bridges`}.\n`,
  );
  return 0;
}
