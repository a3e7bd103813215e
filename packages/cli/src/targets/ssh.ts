import { runProgram } from '@gpg-bridge/core/process/run-program';
import { attachProcess } from '../engine/attach.ts';
import type { ExecStream } from '../engine/engine.ts';
import { HOST_KEY_CHECK, HostKeyPin, OTHER_HOST_KEY } from './host-key-pin.ts';
import { loginShellCommand } from './login-shell-command.ts';
import { pasteable } from './shell-quote.ts';
import { backOff, spawnExec } from './spawn-exec.ts';
import { withStderrLines } from './stderr-lines.ts';
import { refuseUser, type Target, type TargetOptions } from './target.ts';

/** What in ssh's configuration decides which machine is reached, and as whom. */
interface SshPlace {
  hostname: string;
  port: string;
  user: string;
  hostkeyalias: string;
  proxyjump: string;
  proxycommand: string;
}

const PLACE: readonly (keyof SshPlace)[] = [
  'hostname',
  'port',
  'user',
  'hostkeyalias',
  'proxyjump',
  'proxycommand',
];

/** Questions to ssh's configuration are answered at once, unless a `Match exec` of the person's takes long. */
const CONFIG_TIMEOUT_MS = 20_000;

/** `ssh:[USER@]HOST`: whatever the person's own ssh reaches, with its configuration as it is now. */
export async function sshTarget(
  name: string,
  { user, env = process.env }: Pick<TargetOptions, 'user' | 'env'> = {},
): Promise<Target> {
  refuseUser('ssh', user, 'Write ssh:USER@HOST instead.');
  const config = await sshConfig(name, env);
  const place = config && placeOf(config);
  const pins = place ? pinned(place) : [];
  const check = (await mayCheckHostKey(name, env, config)) ? HOST_KEY_CHECK : [];
  const options = ['-o', 'BatchMode=yes', '-o', 'ForwardAgent=no', ...pins];
  const pin = new HostKeyPin(config?.get('hostkeyalgorithms')?.split(','));
  return {
    kind: 'ssh',
    id: name,
    ...(place ? { canonical: JSON.stringify(place) } : {}),
    name: `ssh:${name}`,
    typed: name.replace(/[^@]*$/, (host) => host.toLowerCase()),
    ...(place && !isPlain(place, name) ? { where: addressOf(place) } : {}),
    user: '',
    reachedByCommand: true,
    shell: pasteable(['ssh', name]),
    async exec(argv) {
      // ssh sends one string, which the login shell of the other side parses.
      const { variables, options: pinning, over } = pin.connecting();
      const words = ['-T', ...options, ...check, ...pinning, '--', name, loginShellCommand(argv)];
      try {
        const exec = await spawnExec('ssh', words, { ...env, ...variables });
        void exec.exited.then(over);
        return withoutReason(exec);
      } catch (error) {
        over();
        throw error;
      }
    },
    async attach(argv, terminal, gate) {
      // At the end of a terminal ssh says that the connection is closed, unless only errors are wanted.
      const words = terminal ? ['-t', '-o', 'LogLevel=ERROR'] : ['-T'];
      const own = gate && isShared(config) ? await ownConnection(name, options, env) : [];
      const command = loginShellCommand(reporting(argv));
      return attachProcess('ssh', [...words, ...options, ...own, '--', name, command], env, gate);
    },
    check: async () => {},
    watch: async () => () => {},
    comesBack: backOff,
  };
}

/** Whether ssh may leave a session to another process of its own, which then reads the terminal. */
function isShared(config: ReadonlyMap<string, string> | undefined): boolean {
  return (config?.get('controlpath') ?? 'none') !== 'none';
}

/**
 * Options for a connection that is not shared, since a process elsewhere can't be kept from reading the terminal; none
 * if only a shared one is to be had, as with a server that asks for a code at the first.
 */
async function ownConnection(
  name: string,
  options: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const own = ['-o', 'ControlPath=none'];
  const args = ['-T', ...options, ...own, '--', name, 'true'];
  const tried = await runProgram('ssh', args, { env, timeoutMs: CONFIG_TIMEOUT_MS }).catch(() => undefined);
  if (tried?.status === 0) return own;
  process.stderr.write(
    `gpg-bridge: ssh shares a connection to ${name}: what you type for a pinentry in this terminal may reach it, too\n`,
  );
  return [];
}

/**
 * A command whose end by a signal shows as the status that a shell gives it: ssh itself exits with 255 then. What the
 * keyboard interrupts is the command; the shell around it goes on to the command's end, and says nothing of its own.
 */
function reporting(argv: readonly string[]): string[] {
  const script = 'trap : INT QUIT;exec 3>&2 2>/dev/null;(exec "$@" 2>&3 3>&-);exit $?';
  return ['sh', '-c', script, 'sh', ...argv];
}

/** Whether the name says all there is to say about the place. */
function isPlain({ hostname, port, proxyjump, proxycommand }: SshPlace, name: string): boolean {
  return name.replace(/^.*@/, '') === hostname && port === '22' && !proxyjump && !proxycommand;
}

function addressOf({ user, hostname, port, proxyjump }: SshPlace): string {
  return `${user}@${hostname} port ${port}${proxyjump ? `, through ${proxyjump}` : ''}`;
}

/** Options that hold ssh to a place; what is on its command line counts more than its files. */
function pinned({ hostname, port, user, hostkeyalias, proxyjump, proxycommand }: SshPlace): string[] {
  // ssh expands a percent sign in a host name, which an address with a zone has.
  const options = [`HostName=${hostname.replaceAll('%', '%%')}`, `Port=${port}`, `User=${user}`];
  if (hostkeyalias) options.push(`HostKeyAlias=${hostkeyalias}`);
  if (proxyjump) options.push(`ProxyJump=${proxyjump}`);
  else options.push(`ProxyCommand=${proxycommand || 'none'}`);
  return options.flatMap((option) => ['-o', option]);
}

/** ssh's settings for a host; undefined if it does not tell them. */
async function sshConfig(
  name: string,
  env: NodeJS.ProcessEnv,
  options: readonly string[] = [],
): Promise<ReadonlyMap<string, string> | undefined> {
  const args = ['-G', ...options, '--', name];
  // A missing ssh is told when it is needed to get there.
  const result = await runProgram('ssh', args, { env, timeoutMs: CONFIG_TIMEOUT_MS }).catch(() => undefined);
  if (result?.status !== 0) return undefined;
  const lines = result.stdout.toString().split(/\r?\n/);
  const settings = lines.map((line) => /^(\S+) (.*)$/.exec(line)).filter((match) => match !== null);
  const config = new Map(settings.map(([, key = '', value = '']) => [key, value]));
  return config.has('hostname') ? config : undefined;
}

function placeOf(config: ReadonlyMap<string, string>): SshPlace {
  return Object.fromEntries(PLACE.map((key) => [key, config.get(key) ?? ''])) as unknown as SshPlace;
}

/** Before 8.5 ssh has no such option, and a check that the person has must stay in force. */
async function mayCheckHostKey(
  name: string,
  env: NodeJS.ProcessEnv,
  config: ReadonlyMap<string, string> | undefined,
): Promise<boolean> {
  if (!config || (config.get('knownhostscommand') ?? 'none') !== 'none') return false;
  return (await sshConfig(name, env, HOST_KEY_CHECK)) !== undefined;
}

/** ssh only says that the check failed, behind the check's own words. */
function withoutReason(exec: ExecStream): ExecStream {
  let isRefused = false;
  return withStderrLines(exec, (line) => {
    if (isRefused) return undefined;
    isRefused = line.includes(OTHER_HOST_KEY); // maybe behind words of a jump host
    return isRefused ? OTHER_HOST_KEY : line;
  });
}
