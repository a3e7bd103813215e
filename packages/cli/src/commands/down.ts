import { printableValue } from '@gpg-bridge/core/text/escape';
import { Manager } from '../manager/manager.ts';
import type { StopResult } from '../manager/stop-daemon.ts';
import { likeName, namedBridge, otherUsers } from './bridge-operand.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** What is said of one bridge. */
const RESULTS: Readonly<Record<StopResult, (name: string) => string>> = {
  ended: (name) => `The bridge to ${name} is down.`,
  cleared: (name) => `The daemon of the bridge to ${name} had been killed; what it left is cleared up.`,
  none: (name) => `There was no bridge to ${name}.`,
  busy: (name) => busy(`the bridge to ${name}`),
};

/** Ends one bridge, or all of them; nothing to end is success. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge('down', command);
  const force = command.flags.force === true;
  if (named && command.flags.all) throw usage('down', 'a target and --all exclude each other');
  if (named) {
    const result = await manager.stop(named.spec, { ...named.selector, force });
    const like = result === 'none' ? await likeName(named) : '';
    process.stdout.write(`${`${RESULTS[result](printableValue(named.name))} ${like}`.trim()}\n`);
    process.stdout.write(otherUsers('down', await manager.findAll(named.spec, named.selector)));
    return 0;
  }
  if (!command.flags.all) throw usage('down', 'it needs a target, or --all');
  const { ended, cleared, busy: changing, failures } = await manager.stopEach({ force });
  if (ended > 0) process.stdout.write(`Ended ${bridges(ended)}.\n`);
  if (cleared > 0) {
    process.stdout.write(`Cleared up after ${bridges(cleared)} whose daemon had been killed.\n`);
  }
  if (changing > 0) process.stdout.write(`${busy(bridges(changing))}\n`);
  if (ended + cleared + changing + failures.length === 0) process.stdout.write('No bridge was up.\n');
  const [first, ...others] = failures;
  for (const { message } of others) process.stderr.write(`gpg-bridge: ${message}\n`);
  if (first) throw first;
  return 0;
}

function busy(what: string): string {
  return `Another \`gpg-bridge up\` is starting or changing ${what}: it was told to give up, and has not yet.`;
}

function bridges(count: number): string {
  return count === 1 ? 'one bridge' : `${count} bridges`;
}
