import { toBridgeError } from '@gpg-bridge/core/errors';
import { printable } from '@gpg-bridge/core/text/escape';
import type { DaemonStatus } from '../daemon/control.ts';
import { Manager } from '../manager/manager.ts';
import { likeName, type NamedBridge, namedBridge, otherUsers } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';
import { describeBridges, describeStored, documentBridges } from './status-words.ts';

/** How often a watched status is looked at. */
const WATCH_MS = 1_000;
/** Puts a terminal's cursor into the corner, and removes what is below. */
const HOME_AND_CLEAR = '\x1b[H\x1b[J';

/** The status of a bridge that is there and does not work. */
const BROKEN_STATUS = 1;
/** The status when the target has no bridge. */
const NONE_STATUS = 3;

/** Shows every bridge, or the one to a target: then the exit status says whether it works. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge('status', command);
  if (command.flags.watch) return watchStatus(manager, named, command.flags.json === true);
  const bridges = await (named
    ? listOf(manager.findChecked(named.spec, named.selector))
    : manager.listChecked());
  const [found] = bridges;
  const stored =
    named && !found && !command.flags.json
      ? await manager.restrictionsOf(named.spec, named.selector).catch(tellUnreadable)
      : undefined;
  const words = () => (named && stored ? describeStored(stored, named) : describeBridges(bridges, named));
  process.stdout.write(`${command.flags.json ? documentBridges(bridges) : words()}\n`);
  if (!named) return 0;
  if (!command.flags.json) {
    process.stdout.write(otherUsers('status', await manager.findAll(named.spec, named.selector), found));
  }
  if (!found && !stored && !command.flags.json) process.stderr.write(withLineEnd(await likeName(named)));
  if (!found) return NONE_STATUS;
  return found.state === 'ready' ? 0 : BROKEN_STATUS;
}

/** A status is of use also where nothing is known of the target; but not that it has no restrictions. */
function tellUnreadable(error: unknown): undefined {
  const { code, message } = toBridgeError(error, "can't read the restrictions of the target");
  if (code === 'GRANT_UNREADABLE' || code === 'STATE_DIR_UNUSABLE')
    process.stderr.write(`gpg-bridge: ${printable(message)}\n`);
}

/** A bridge that may not be there as a list. */
async function listOf(bridge: Promise<DaemonStatus | undefined>): Promise<DaemonStatus[]> {
  const found = await bridge;
  return found ? [found] : [];
}

function withLineEnd(text: string): string {
  return text && `${text.trim()}\n`;
}

/** Shows the bridges until it is interrupted: on a terminal in place, elsewhere whenever something has changed. */
async function watchStatus(manager: Manager, named: NamedBridge | undefined, json: boolean): Promise<number> {
  const { setTimeout: delay } = await import('node:timers/promises');
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort());
  const isInPlace = process.stdout.isTTY === true && !json;
  let before = '';
  for (;;) {
    const bridges = await (named ? listOf(manager.find(named.spec, named.selector)) : manager.list());
    const now = JSON.stringify(bridges.map(whatChanges));
    if (isInPlace) process.stdout.write(`${HOME_AND_CLEAR}${describeBridges(bridges, named)}\n`);
    else if (now !== before) {
      process.stdout.write(`${json ? documentBridges(bridges) : describeBridges(bridges, named)}\n`);
    }
    before = now;
    await delay(WATCH_MS, undefined, { signal: interruption.signal }).catch(() => {});
    if (interruption.signal.aborted) return 0;
  }
}

/** What of a status is news; times and counters always change. */
function whatChanges({ key, state, problems, waiting, lastOperation, lastError, paused }: DaemonStatus) {
  const waits = waiting && { ...waiting, sinceSeconds: 0 };
  return { key, state, problems, waits, last: lastOperation?.time, lastError, paused };
}
