import { printableValue } from '@gpg-bridge/core/text/escape';
import { Manager } from '../manager/manager.ts';
import type { StopResult } from '../manager/stop-daemon.ts';
import { operandWords } from '../targets/operand-words.ts';
import { bridgeCount } from '../terminal/format.ts';
import { likeName, type NamedBridge, namedBridge, otherUsers } from './bridge-operand.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** What is said of one bridge. */
const RESULTS: Readonly<Record<StopResult, (name: string) => string>> = {
  ended: (name) => `The bridge to ${name} is down.`,
  cleared: (name) => `The daemon of the bridge to ${name} had been killed; what it left is cleared up.`,
  none: (name) => `There was no bridge to ${name}.`,
  busy: (name) => busy(`the bridge to ${name}`),
};

const ALL_KEPT = 'Restrictions of targets are kept; `gpg-bridge down --forget TARGET` drops them.';

/** Ends one bridge, or all of them; nothing to end is success. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge('down', command);
  const force = command.flags.force === true;
  const forget = command.flags.forget === true;
  if (named && command.flags.all) throw usage('down', 'a target and --all exclude each other');
  if (forget && !named) throw usage('down', '--forget needs a target');
  if (named) {
    const result = await manager.stop(named.spec, { ...named.selector, force });
    const dropped = forget ? await manager.forget(named.spec, named.selector) : undefined;
    const kept = { dropped, left: await manager.isRestricted(named.spec, named.selector) };
    const like = result === 'none' && !dropped && !kept.left ? await likeName(named) : '';
    const words = [RESULTS[result](printableValue(named.name)), ...restrictionsLeft(kept, named), like];
    process.stdout.write(`${words.filter(Boolean).join(' ').trim()}\n`);
    process.stdout.write(otherUsers('down', await manager.findAll(named.spec, named.selector)));
    return 0;
  }
  if (!command.flags.all) throw usage('down', 'it needs a target, or --all');
  const { ended, cleared, busy: changing, failures } = await manager.stopEach({ force });
  const kept = ended > 0 && manager.hasRestrictions() ? ` ${ALL_KEPT}` : '';
  if (ended > 0) process.stdout.write(`Ended ${bridgeCount(ended)}.${kept}\n`);
  if (cleared > 0) {
    process.stdout.write(`Cleared up after ${bridgeCount(cleared)} whose daemon had been killed.\n`);
  }
  if (changing > 0) process.stdout.write(`${busy(bridgeCount(changing))}\n`);
  if (ended + cleared + changing + failures.length === 0) process.stdout.write('No bridge was up.\n');
  const [first, ...others] = failures;
  for (const { message } of others) process.stderr.write(`gpg-bridge: ${message}\n`);
  if (first) throw first;
  return 0;
}

/** What became of what the target may not do. */
function restrictionsLeft(
  { left, dropped }: { left: 'user' | 'everyone' | undefined; dropped: boolean | undefined },
  { spec, selector }: NamedBridge,
): string[] {
  const { user, ...everyone } = selector;
  const words = operandWords(spec, left === 'user' ? selector : everyone);
  const whose =
    user !== undefined && left === 'everyone' ? 'The restrictions of all its users' : 'Its restrictions';
  return [
    ...(dropped
      ? [`Its restrictions are dropped${user === undefined ? ', those of single users too' : ''}.`]
      : []),
    ...(dropped === false && !left ? ['It had no restrictions.'] : []),
    ...(left ? [`${whose} are kept; \`gpg-bridge down --forget ${words}\` drops them.`] : []),
  ];
}

function busy(what: string): string {
  return `Another \`gpg-bridge up\` is starting or changing ${what}: it was told to give up, and has not yet.`;
}
