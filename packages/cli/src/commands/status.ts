import type { DaemonStatus } from '../daemon/control.ts';
import { Manager } from '../manager/manager.ts';
import { byteCount, duration, shortKey } from '../terminal/format.ts';
import { styles } from '../terminal/style.ts';
import { namedBridge, otherUsers } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';

/** Shows every bridge, or the one to a target. */
export async function run(command: ParsedCommand): Promise<number> {
  const manager = new Manager();
  const named = namedBridge(command);
  const found = named && (await manager.find(named.spec, named.selector));
  const bridges = !named ? await manager.list() : found ? [found] : [];
  if (command.flags.json) process.stdout.write(`${JSON.stringify(bridges.map(asDocumented))}\n`);
  else if (bridges.length > 0) process.stdout.write(`${bridges.map(describe).join('\n')}\n`);
  else {
    const to = named ? `to ${named.name} ` : '';
    process.stdout.write(`No bridge ${to}is up. Start one with \`gpg-bridge up NAME\`.\n`);
  }
  if (named && !command.flags.json) {
    process.stdout.write(otherUsers('status', await manager.findAll(named.spec, named.selector), found));
  }
  return 0;
}

function asDocumented(status: DaemonStatus) {
  const { target, id, pid, uptimeSeconds, sessions, bytes, waiting, lastOperation, lastError } = status;
  return { target, id, pid, uptimeSeconds, sessions, bytes, waiting, lastOperation, lastError };
}

function describe(status: DaemonStatus): string {
  const { bold, dim, green, yellow } = styles(process.stdout);
  const { sessions, bytes, waiting, lastOperation: last } = status;
  const state = status.state === 'ready' ? green('up') : yellow(status.state.replaceAll('-', ' '));
  const user = status.options.user ? ` as ${status.options.user}` : '';
  const lines = [
    `${bold(status.target)}${user}  ${state} for ${duration(status.state === 'ready' ? status.uptimeSeconds : status.stateSeconds)} ${dim(`(${status.runtime || 'not attached'}, pid ${status.pid})`)}`,
    `  sessions  ${sessions.open} open, ${sessions.total} in all; ${byteCount(bytes.toHost)} to the host, ${byteCount(bytes.toTarget)} back`,
  ];
  if (status.where) lines.push(`  where     ${status.where}`);
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
