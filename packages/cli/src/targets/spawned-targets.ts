import { realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { BridgeError, diskFull } from '@gpg-bridge/core/errors';
import { makeDirectories } from '@gpg-bridge/core/fs/make-directories';
import type { ExecStream } from '../engine/engine.ts';
import { loginShellCommand } from './login-shell-command.ts';
import { shellQuote } from './shell-quote.ts';
import { backOff, spawnExec } from './spawn-exec.ts';
import { type Target, wrongTarget } from './target.ts';

interface CommandTarget {
  kind: string;
  id: string;
  user?: string | undefined;
  sshDirectory?: string;
  shell?: string;
  reachedByCommand?: true;
  check?(): Promise<void>;
  run(argv: readonly string[]): Promise<ExecStream>;
}

/** A target that a command of this machine reaches. Whether it exists shows when the command is run. */
function commandTarget({ kind, id, user = '', run, ...rest }: CommandTarget): Target {
  return {
    kind,
    id,
    name: kind === 'exec' ? id : `${kind}:${id}`,
    user,
    ...rest,
    exec: run,
    check: rest.check ?? (async () => {}),
    watch: async () => () => {},
    comesBack: backOff,
  };
}

/** `local:DIR`: a process on this machine whose GNUPGHOME is DIR, with the ssh socket in it. */
export async function localTarget(name: string, user?: string): Promise<Target> {
  refuseUser('local', user);
  // No shell has expanded a tilde that stands behind `local:`.
  const home = process.env.HOME || homedir();
  const id = canonicalPath(resolve(name.replace(/^~(?=\/|$)/, () => home)));
  return commandTarget({
    kind: 'local',
    id,
    sshDirectory: id,
    shell: `eval "$(gpg-bridge env ${shellQuote(`local:${id}`)})"`,
    async check() {
      try {
        makeDirectories(id);
      } catch (error) {
        const full = diskFull(error, `can't use ${id} as a GNUPGHOME`);
        if (full) throw full;
        throw new BridgeError('TARGET_NOT_FOUND', {
          what: `can't use ${id} as a GNUPGHOME`,
          why: (error as Error).message,
          fix: 'Name a directory that you may write to.',
          cause: error,
        });
      }
    },
    run: ([program = '', ...args]) => spawnExec(program, args, { ...process.env, GNUPGHOME: id }),
  });
}

/** A path without symbolic links; its last parts need not exist yet. */
function canonicalPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(canonicalPath(parent), basename(path));
  }
}

/** `ssh:[USER@]HOST`: whatever the person's own ssh reaches, with its configuration. */
export async function sshTarget(name: string, user?: string): Promise<Target> {
  refuseUser('ssh', user, 'Write ssh:USER@HOST instead.');
  // ssh sends one string, which the login shell of the other side parses.
  const run = (argv: readonly string[]) =>
    spawnExec('ssh', [
      '-T',
      '-o',
      'BatchMode=yes',
      '-o',
      'ForwardAgent=no',
      '--',
      name,
      loginShellCommand(argv),
    ]);
  return commandTarget({ kind: 'ssh', id: name, run, reachedByCommand: true, shell: `ssh ${name}` });
}

/** `k8s:[NAMESPACE/]POD[/CONTAINER]`, through kubectl. */
export async function k8sTarget(name: string, user?: string): Promise<Target> {
  refuseUser('k8s', user);
  const parts = name.split('/');
  if (parts.length > 3 || parts.some((part) => !part || part.startsWith('-'))) {
    throw wrongTarget(
      `'${name}' is not a pod`,
      'Write k8s:POD, k8s:NAMESPACE/POD or k8s:NAMESPACE/POD/CONTAINER.',
    );
  }
  const [namespace, pod, container] = parts.length === 1 ? [undefined, parts[0]] : parts;
  const where = [...(namespace ? ['-n', namespace] : []), pod ?? '', ...(container ? ['-c', container] : [])];
  return commandTarget({
    kind: 'k8s',
    id: name,
    reachedByCommand: true,
    run: (argv) => spawnExec('kubectl', ['exec', '-i', ...where, '--', ...argv]),
    shell: `kubectl exec -it ${where.join(' ')} -- sh`,
  });
}

/** `wsl:DISTRO`, through wsl.exe. */
export async function wslTarget(name: string, user?: string): Promise<Target> {
  const asUser = user ? ['-u', user] : [];
  return commandTarget({
    kind: 'wsl',
    id: name,
    user,
    reachedByCommand: true,
    run: (argv) => spawnExec('wsl.exe', ['-d', name, ...asUser, '--exec', ...argv]),
    shell: `wsl -d ${name}`,
  });
}

/** `--exec`: any command prefix that runs a command with its input and output. */
export async function execTarget(prefix: string, user?: string): Promise<Target> {
  refuseUser('exec', user, 'Put it into the command instead.');
  return commandTarget({
    kind: 'exec',
    id: prefix,
    reachedByCommand: true,
    run: (argv) => spawnExec('/bin/sh', ['-c', `exec ${prefix} "$@"`, 'gpg-bridge', ...argv]),
  });
}

function refuseUser(kind: string, user: string | undefined, fix = 'Leave --user out.'): void {
  if (user !== undefined) throw wrongTarget(`--user has no meaning for a ${kind} target`, fix);
}
