import type { BridgeOptions } from '../bridge-options.ts';
import { Manager } from '../manager/manager.ts';
import type { BridgeInfo } from '../manager/types.ts';
import { gnupgHomeIn } from '../targets/home.ts';
import { shellQuote } from '../targets/shell-quote.ts';
import { Spinner, styles } from '../terminal/style.ts';
import { operandWords } from './bridge-operand.ts';
import { bridgeOptions } from './flags.ts';
import { signalStatus } from './signals.ts';
import type { ParsedCommand } from './specs.ts';

/** How long an interrupted `up` waits for a half-made bridge to end. */
const INTERRUPTED_MS = 2_000;

/** Ensures a bridge, and says where its sockets are and what to try next. */
export async function run({ operands: [spec], flags }: ParsedCommand): Promise<number> {
  const options = bridgeOptions('up', flags);
  const spinner = new Spinner();
  const interruption = new AbortController();
  let status = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      status = signalStatus(signal);
      interruption.abort(); // ends a daemon that is not ready yet
      setTimeout(() => process.exit(status), INTERRUPTED_MS).unref();
    });
  }
  const manager = new Manager({
    progress: spinner.show,
    notice: (text) => {
      spinner.stop();
      process.stderr.write(`gpg-bridge: ${text}\n`);
    },
    signal: interruption.signal,
  });
  let info: BridgeInfo;
  try {
    info = await manager.ensureBridge(spec, { ...options, now: flags.now === true });
  } catch (error) {
    if (status === 0) throw error;
    return status;
  } finally {
    spinner.stop();
  }
  if (flags.json) {
    const { shell: _shell, ...document } = info;
    process.stdout.write(`${JSON.stringify(document)}\n`);
    return 0;
  }
  process.stdout.write(`${describe(info, options).join('\n')}\n`);
  return 0;
}

function describe(info: BridgeInfo, options: BridgeOptions): string[] {
  const { bold, dim, green, yellow } = styles(process.stdout);
  const how = { new: 'is up', running: 'was up already, and works', changed: 'was changed' }[info.result];
  const lines = [
    `${green('✓')} The bridge to ${bold(info.target)} ${how} ${dim(`(${info.runtime}, pid ${info.pid})`)}`,
  ];
  if (info.where) lines.push(`  at   ${info.where}`);
  for (const { type, path } of info.sockets) lines.push(`  ${type.replace('-agent', '').padEnd(4)} ${path}`);
  for (const { option, from, to } of info.changes) lines.push(`  ${option}: ${from} → ${to}`);
  for (const text of info.mended) lines.push(`${yellow('!')} ${text}`);
  for (const warning of info.warnings) lines.push(`${yellow('!')} ${warning}`);
  if (info.result !== 'new') return lines;
  const gpg = info.sockets.some(({ type }) => type === 'gpg-agent');
  const ssh = info.sockets.find(({ type }) => type === 'ssh-agent');
  lines.push('', 'Try it there:');
  if (info.shell) lines.push(`  ${info.shell}`);
  if (gpg && options.home) lines.push(`  export GNUPGHOME=${shellQuote(gnupgHomeIn(options.home))}`);
  if (gpg)
    lines.push(
      '  echo hello | gpg --clear-sign         or: git commit -S',
      '  gpg -K                                sec# is right: the secret half stays on the host',
    );
  if (ssh)
    lines.push(
      `  export SSH_AUTH_SOCK=${shellQuote(ssh.path)}`,
      '  ssh-add -l                            or: git push',
    );
  lines.push('', dim(`End it with: gpg-bridge down ${operandWords(info.target, options)}`));
  return lines;
}
