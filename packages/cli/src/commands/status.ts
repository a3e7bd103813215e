import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import type { DaemonStatus } from '../daemon/control.ts';
import { Manager } from '../manager/manager.ts';
import { byteCount, duration, shortKey } from '../terminal/format.ts';
import { styles } from '../terminal/style.ts';
import { namedBridge, otherUsers } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';

/** The status of a bridge that is there and does not work. */
const BROKEN_STATUS = 1;
/** The status when the target has no bridge. */
const NONE_STATUS = 3;

/** Shows every bridge, or the one to a target: then the exit status says whether it works. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge(command);
  const found = named && (await manager.findChecked(named.spec, named.selector));
  const bridges = !named ? await manager.listChecked() : found ? [found] : [];
  if (command.flags.json) process.stdout.write(`${jsonLine(bridges.map(asDocumented))}\n`);
  else if (bridges.length > 0) process.stdout.write(`${printableValue(bridges).map(describe).join('\n')}\n`);
  else {
    const to = named ? `to ${printableValue(named.name)} ` : '';
    process.stdout.write(`No bridge ${to}is up. Start one with \`gpg-bridge up NAME\`.\n`);
  }
  if (!named) return 0;
  if (!command.flags.json) {
    process.stdout.write(otherUsers('status', await manager.findAll(named.spec, named.selector), found));
  }
  if (!found) return NONE_STATUS;
  return found.state === 'ready' ? 0 : BROKEN_STATUS;
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
  };
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
    const key = last.key ? ` with key ${shortKey(last.key)}` : '';
    lines.push(`  last      ${last.command}${key}: ${last.outcome} after ${last.durationMs} ms, ${ago} ago`);
  }
  if (waiting) {
    lines.push(
      yellow(
        `  waiting   ${waiting.command} for ${duration(waiting.sinceSeconds)}: a PIN, passphrase or touch is asked for`,
      ),
    );
  }
  if (status.lastError) lines.push(`  error     ${status.lastError}`);
  return lines.join('\n');
}
