import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { BridgeError, diskFull } from '@gpg-bridge/core/errors';
import { canonicalPath } from '@gpg-bridge/core/fs/canonical-path';
import { makeDirectories } from '@gpg-bridge/core/fs/make-directories';
import { attachProcess } from '../engine/attach.ts';
import type { ExecStream } from '../engine/engine.ts';
import { isForExec } from '../environment.ts';
import { pasteable } from './shell-quote.ts';
import { backOff, spawnExec } from './spawn-exec.ts';
import { leadsElsewhere, refuseUser, type Target, type TargetOptions, wrongTarget } from './target.ts';

interface CommandTarget {
  kind: string;
  id: string;
  canonical?: string;
  typed?: string;
  place?: string;
  user?: string | undefined;
  sshDirectory?: string;
  shell?: string;
  reachedByCommand?: true;
  check?(): Promise<void>;
  /** The program of this machine that runs a command there, with its words. */
  command(argv: readonly string[]): readonly [program: string, ...words: string[]];
  env?: NodeJS.ProcessEnv;
}

/** A target that a command of this machine reaches. Whether it exists shows when the command is run. */
function commandTarget({ kind, id, user = '', command, env, ...rest }: CommandTarget): Target {
  const exec = async (argv: readonly string[]): Promise<ExecStream> => {
    const [program, ...words] = command(argv);
    return spawnExec(program, words, env);
  };
  return {
    kind,
    id,
    name: kind === 'exec' ? id : `${kind}:${id}`,
    user,
    ...rest,
    exec,
    async attach(argv, _terminal, gate) {
      const [program, ...words] = command(argv);
      return attachProcess(program, words, env, gate);
    },
    check: rest.check ?? (async () => {}),
    watch: async () => () => {},
    comesBack: backOff,
  };
}

/** `local:DIR`: a process on this machine whose GNUPGHOME is DIR, with the ssh socket in it. */
export async function localTarget(
  name: string,
  { user, home }: Pick<TargetOptions, 'user' | 'home'> = {},
): Promise<Target> {
  refuseOnWindows('local:', 'needs Unix sockets');
  refuseUser('local', user);
  if (home !== undefined) {
    throw wrongTarget('--home has no meaning for a local target', 'Its directory is the home: name another.');
  }
  // No shell has expanded a tilde that stands behind `local:`.
  const own = process.env.HOME || homedir();
  const id = canonicalPath(resolve(name.replace(/^~(?=\/|$)/, () => own)));
  return commandTarget({
    kind: 'local',
    id,
    sshDirectory: id,
    shell: `eval "$(gpg-bridge env ${pasteable([`local:${id}`])})"`,
    async check() {
      // A link that was put there later leads elsewhere.
      if (canonicalPath(id) !== id) {
        throw leadsElsewhere(`local:${id}`, `a symbolic link leads to ${canonicalPath(id)} by now`);
      }
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
    command: ([program = '', ...words]) => [program, ...words],
    env: { ...process.env, GNUPGHOME: id },
  });
}

function refuseOnWindows(kind: string, why: string): void {
  if (process.platform !== 'win32') return;
  throw wrongTarget(`${kind} ${why}`, 'Name a container, or a target of the kind ssh:, k8s: or wsl:.');
}

/** `wsl:DISTRO`, through wsl.exe. */
export async function wslTarget(name: string, user?: string): Promise<Target> {
  const asUser = user ? ['-u', user] : [];
  return commandTarget({
    kind: 'wsl',
    id: name,
    canonical: name.toLowerCase(), // wsl.exe does not tell them apart
    user,
    reachedByCommand: true,
    command: (argv) => ['wsl.exe', '-d', name, ...asUser, '--exec', ...argv],
    shell: pasteable(['wsl', '-d', name, ...asUser]),
  });
}

/** `--exec`: any command prefix that runs a command with its input and output. */
export async function execTarget(
  prefix: string,
  { user, env = process.env }: Pick<TargetOptions, 'user' | 'env'> = {},
): Promise<Target> {
  refuseOnWindows('--exec', 'needs a shell of Unix');
  refuseUser('exec', user, 'Put it into the command instead.');
  return commandTarget({
    kind: 'exec',
    id: prefix,
    canonical: execCanonical(prefix, env),
    typed: JSON.stringify([prefix.trim().replace(/\s+/g, ' '), directoryOf(prefix)]),
    place: execPlace(prefix, env),
    reachedByCommand: true,
    command: (argv) => ['/bin/sh', '-c', `exec ${prefix} "$@"`, 'gpg-bridge', ...argv],
  });
}

/**
 * The variables that decide where a command leads: those that it names, and those that usual commands look at. All
 * others may differ from terminal to terminal.
 */
export function execPlace(prefix: string, env: NodeJS.ProcessEnv): string {
  const named = new Set([...prefix.matchAll(/\$\{?(\w+)/g)].map(([, name]) => name));
  const variables = Object.entries(env)
    .filter(([name, value]) => value && (named.has(name) || isForExec(name)))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(variables);
}

/** A command with everything in its surroundings that decides where it leads. */
function execCanonical(prefix: string, env: NodeJS.ProcessEnv): string {
  return JSON.stringify([prefix, directoryOf(prefix), execPlace(prefix, env)]);
}

/** The directory in which a command is run, if that matters: only a path that is relative depends on it. */
function directoryOf(prefix: string): string {
  const isRelative = /(?:^|[\s=])(?:\.{1,2}\/|[^\s/'"$~=-][^\s='"]*\/)/.test(prefix);
  return isRelative ? process.cwd() : '';
}
