import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import type { DaemonStatus } from '../daemon/control.ts';
import { grantOf, grantSentence, grantWithExceptions } from '../grants/grant-words.ts';
import type { Restrictions } from '../grants/restrictions.ts';
import { operandWords } from '../targets/operand-words.ts';
import { byteCount, duration, keyWords, milliseconds } from '../terminal/format.ts';
import { operationName, operationWords } from '../terminal/operation-words.ts';
import { styles } from '../terminal/style.ts';
import type { NamedBridge } from './bridge-operand.ts';

/** The bridges in words for a person. */
export function describeBridges(bridges: readonly DaemonStatus[], named: NamedBridge | undefined): string {
  if (bridges.length > 0) return printableValue(bridges).map(describe).join('\n');
  if (!named) return 'No bridge is up. Start one with `gpg-bridge up NAME`.';
  const name = printableValue(named.name);
  return `No bridge to ${name} is up. Start one with \`gpg-bridge up ${operandWords(named.spec, named.selector)}\`.`;
}

/** What a target may do that has no bridge now. */
export function describeStored(options: Restrictions, named: NamedBridge, now = Date.now()): string {
  const { name, spec, selector } = named;
  const none = `No bridge to ${printableValue(name)} is up.`;
  const { until } = options;
  if (until !== undefined && Date.parse(until) <= now) {
    const words = operandWords(spec, selector);
    return `${none} Its time (--for) was over at ${until.replace(/\.\d+Z$/, 'Z')}. Give it time again: \`gpg-bridge up ${words} --for 1h\`.`;
  }
  const user = selector.user === undefined ? {} : { user: selector.user };
  const granted = { target: name, options: { ...options, ...user }, sockets: [] };
  return `${describeBridges([], named)} Restrictions are stored for it: once its bridge is up, ${printableValue(grantSentence(granted))}`;
}

/** The bridges for a script. */
export function documentBridges(bridges: readonly DaemonStatus[]): string {
  return jsonLine(bridges.map(asDocumented));
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
    grant: grantOf(status),
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
  for (const failure of status.failures) lines.push(yellow(`  missing   ${failure}`));
  if (status.nextAttempt) {
    const left = Math.max(0, (Date.parse(status.nextAttempt) - Date.now()) / 1000);
    lines.push(`  next      attempt to attach in ${duration(left)}`);
  }
  lines.push(`  grant     ${grantWithExceptions(status)}`);
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
    const why = last.outcome === 'refused' && last.note ? ` (${last.note})` : '';
    lines.push(`  last      ${what}${withKey(last)}: ${last.outcome}${why} after ${took}, ${ago} ago`);
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
