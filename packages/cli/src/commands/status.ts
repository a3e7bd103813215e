import { setTimeout as delay } from 'node:timers/promises';
import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import type { DaemonStatus } from '../daemon/control.ts';
import { Manager } from '../manager/manager.ts';
import { byteCount, duration, keyWords, milliseconds } from '../terminal/format.ts';
import { operationName, operationWords } from '../terminal/operation-words.ts';
import { styles } from '../terminal/style.ts';
import { likeName, type NamedBridge, namedBridge, operandWords, otherUsers } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';

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
  const named = namedBridge(command);
  if (command.flags.watch) return watchStatus(manager, named, command.flags.json === true);
  const found = named && (await manager.findChecked(named.spec, named.selector));
  const bridges = !named ? await manager.listChecked() : found ? [found] : [];
  process.stdout.write(
    `${command.flags.json ? jsonLine(bridges.map(asDocumented)) : shown(bridges, named)}\n`,
  );
  if (!named) return 0;
  if (!command.flags.json) {
    process.stdout.write(otherUsers('status', await manager.findAll(named.spec, named.selector), found));
  }
  if (!found && !command.flags.json) process.stderr.write(withLineEnd(await likeName(named)));
  if (!found) return NONE_STATUS;
  return found.state === 'ready' ? 0 : BROKEN_STATUS;
}

function withLineEnd(text: string): string {
  return text && `${text.trim()}\n`;
}

/** The bridges in words for a person. */
function shown(bridges: readonly DaemonStatus[], named: NamedBridge | undefined): string {
  if (bridges.length > 0) return printableValue(bridges).map(describe).join('\n');
  if (!named) return 'No bridge is up. Start one with `gpg-bridge up NAME`.';
  const name = printableValue(named.name);
  return `No bridge to ${name} is up. Start one with \`gpg-bridge up ${operandWords(named.spec, named.selector)}\`.`;
}

/** Shows the bridges until it is interrupted: on a terminal in place, elsewhere whenever something has changed. */
async function watchStatus(manager: Manager, named: NamedBridge | undefined, json: boolean): Promise<number> {
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort());
  const isInPlace = process.stdout.isTTY === true && !json;
  let before = '';
  for (;;) {
    const found = named && (await manager.find(named.spec, named.selector));
    const bridges = !named ? await manager.list() : found ? [found] : [];
    const now = JSON.stringify(bridges.map(whatChanges));
    if (isInPlace) process.stdout.write(`${HOME_AND_CLEAR}${shown(bridges, named)}\n`);
    else if (now !== before) {
      process.stdout.write(`${json ? jsonLine(bridges.map(asDocumented)) : shown(bridges, named)}\n`);
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

/** What scripts get, in the order in which it is documented. */
function asDocumented(status: DaemonStatus) {
  const { target, user, id, pid, state, runtime, sockets, options, uptimeSeconds, sessions, bytes } = status;
  const { waiting, lastOperation, lastError, problems, nextAttempt, endsAt, paused } = status;
  return {
    target,
    user,
    id,
    pid,
    state,
    runtime,
    sockets,
    options,
    uptimeSeconds,
    sessions,
    bytes,
    waiting,
    lastOperation,
    lastError,
    problems,
    nextAttempt,
    endsAt,
    paused,
    rule: options.rule ?? null,
  };
}

/** With which key something is done, and whose that is. */
function withKey(operation: Parameters<typeof keyWords>[0]): string {
  const words = keyWords(operation);
  return words ? ` with ${words}` : '';
}

function pausedText(until: string | null): string {
  const end = until === null ? 'until `gpg-bridge resume`' : `until ${until.replace(/\.\d+Z$/, 'Z')}`;
  return `nothing is signed or decrypted ${end}`;
}

function describe(status: DaemonStatus): string {
  const { bold, dim, green, yellow } = styles(process.stdout);
  const { sessions, bytes, waiting, lastOperation: last } = status;
  const state = status.state === 'ready' ? green('up') : yellow(status.state.replaceAll('-', ' '));
  const user = status.options.user ? ` as ${status.options.user}` : '';
  if (status.state === 'not-answering') {
    return [
      `${bold(status.target)}${user}  ${state} ${dim(`(pid ${status.pid})`)}`,
      ...status.problems.map((problem) => yellow(`  problem   ${problem}`)),
    ].join('\n');
  }
  const seconds = status.state === 'ready' ? status.uptimeSeconds : status.stateSeconds;
  const lines = [
    `${bold(status.target)}${user}  ${state} for ${duration(seconds)} ${dim(`(${status.runtime || 'not attached'}, pid ${status.pid})`)}`,
    `  sessions  ${sessions.open} open, ${sessions.total} in all; ${byteCount(bytes.toHost)} to the host, ${byteCount(bytes.toTarget)} back`,
  ];
  if (status.where) lines.push(`  where     ${status.where}`);
  if (status.options.rule) lines.push(`  rule      ${status.options.rule}`);
  for (const problem of status.problems) lines.push(yellow(`  problem   ${problem}`));
  if (status.nextAttempt) {
    const left = Math.max(0, (Date.parse(status.nextAttempt) - Date.now()) / 1000);
    lines.push(`  next      attempt to attach in ${duration(left)}`);
  }
  if (status.endsAt) {
    const left = Math.max(0, (Date.parse(status.endsAt) - Date.now()) / 1000);
    const idle = status.options.idle ?? 'none';
    const unless = idle === 'none' ? '' : `; after ${idle} without a use of a key`;
    lines.push(`  until     ${status.endsAt.replace(/\.\d+Z$/, 'Z')}, in ${duration(left)}${unless}`);
  }
  if (status.paused) lines.push(yellow(`  paused    ${pausedText(status.paused.until)}`));
  if (last) {
    const ago = duration((Date.now() - Date.parse(last.time)) / 1000);
    const what = operationWords(last.operation ?? operationName(last.command), last.outcome);
    const took = milliseconds(last.durationMs);
    lines.push(`  last      ${what}${withKey(last)}: ${last.outcome} after ${took}, ${ago} ago`);
  }
  if (waiting) {
    lines.push(
      yellow(
        `  waiting   for you, for ${duration(waiting.sinceSeconds)}: ${operationName(waiting.command)}${withKey(waiting)} needs a PIN, passphrase or touch`,
      ),
    );
  }
  if (status.lastError) lines.push(`  error     ${status.lastError}`);
  return lines.join('\n');
}
