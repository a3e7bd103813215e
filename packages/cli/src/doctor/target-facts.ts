import { join } from 'node:path/posix';
import type { BridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { inspectPath, type PathFinding } from '@gpg-bridge/core/remote/inspect-path';
import { checkPathLength } from '@gpg-bridge/core/remote/keep-path';
import { hasPrivateKeys } from '@gpg-bridge/core/remote/keyring';
import type { FileFacts, TargetOperations } from '@gpg-bridge/core/remote/operations';
import { type GnupgPlaces, gnupgPlaces } from '@gpg-bridge/core/remote/target-gnupg';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { printable } from '@gpg-bridge/core/text/escape';
import { collectGitFacts, type GitFacts } from './git-facts.ts';
import { type Looked, looked } from './host-facts.ts';
import { collectKeyFacts, type TargetKeys } from './target-keys.ts';
import { FIRST_KEYBOXD, isOlder, versionIn } from './versions.ts';

/** A bridge of the person at the host. */
export interface SocketHolder {
  key: string;
  target: string;
}

/** What is at the path of a socket, and whose it is. */
export interface SocketFacts {
  type: SocketType;
  path: string;
  /** Why a socket can't have this path. */
  tooLong: string | undefined;
  finding: Looked<PathFinding>;
  /** The command lines of the processes that listen there, as far as they can be seen. */
  commands: string[];
  /** The bridge whose socket it is. */
  bridge: SocketHolder | undefined;
}

/** Everything that is known about a target and the user in it. */
export interface TargetFacts {
  system: string;
  uid: number;
  home: { path: string; isWritable: boolean; exists: boolean };
  gpgVersion: string | undefined;
  gnupg: Looked<GnupgPlaces>;
  gnupgHome: FileFacts | undefined;
  /** What installs a package there. */
  install: string;
  sockets: SocketFacts[];
  /** systemd holds gpg-agent's sockets for this user. */
  systemdSockets: string[];
  hasNoAutostart: boolean;
  /** common.conf has public keys kept by keyboxd; `program` is whether that is there. */
  keyboxd: { program: boolean } | undefined;
  hasOwnKeys: boolean;
  /** Undefined where the keyring could not be looked into. */
  keys: TargetKeys | undefined;
  /** Undefined where there is no git. */
  git: GitFacts | undefined;
  /** What a login shell there has as SSH_AUTH_SOCK; undefined where that could not be found out. */
  login: { shell: string; file: string; sshAuthSock: string } | undefined;
}

/** What is asked of a target. */
export interface TargetQuestions {
  hostSockets: readonly SocketIdentity[];
  /** Fingerprints of the host's private keys. */
  fingerprints: readonly string[];
  sshDirectory: string | undefined;
  /** The host's gpg, if it has one. */
  gpg: string | undefined;
  /** The bridge whose socket this is. */
  holderOf(socket: SocketIdentity): Promise<SocketHolder | undefined>;
}

const PROBE_MS = 2_000;
const MAX_COMMAND = 200;

const INSTALLERS = {
  'apt-get': 'apt-get install -y',
  apk: 'apk add',
  dnf: 'dnf install -y',
  pacman: 'pacman -S --noconfirm',
  zypper: 'zypper install -y',
} as const;

/** gpg-agent's units of systemd, those that a package brings. */
export const SYSTEMD_UNITS = [
  'gpg-agent.socket',
  'gpg-agent-extra.socket',
  'gpg-agent-ssh.socket',
  'gpg-agent-browser.socket',
];

/** gpgconf names a keyboxd, whether there is one or not. */
const FIND_KEYBOXD = `test -x "$(gpgconf --list-components | sed -n 's/^keyboxd:[^:]*://p')" && printf there`;

/** A command that comes from outside a login may not know where the user's systemd is. */
export const FIND_SYSTEMD = 'test -n "$XDG_RUNTIME_DIR" || export XDG_RUNTIME_DIR="/run/user/$(id -u)"';

/**
 * Prints the login shell, the file that it reads for a login, and what it has as SSH_AUTH_SOCK. The bridge's own
 * variable is taken away first: what counts is what a person gets who logs in.
 */
const LOGIN = `
unset SSH_AUTH_SOCK
shell=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f7)
[ -x "$shell" ] || shell=/bin/sh
file=.profile
case $shell in
  */bash) for name in .bash_profile .bash_login; do [ -e "$HOME/$name" ] && file=$name && break; done;;
  */zsh) file=.zprofile;;
esac
printf 'shell=%s\\nfile=%s\\n' "$shell" "$file"
exec "$shell" -lc 'printf "sock=%s\\n" "$SSH_AUTH_SOCK"'
`;

/** Looks at a target through a server there. Nothing is changed. */
export async function collectTargetFacts(
  operations: TargetOperations,
  { hostSockets, fingerprints, gpg, sshDirectory, holderOf }: TargetQuestions,
): Promise<TargetFacts> {
  const { uid, home, system } = operations.facts;
  const output = async (program: string, ...args: string[]) => {
    const { stdout } = await operations.run({ program, args, timeoutSeconds: 10 });
    return stdout.toString();
  };
  const [gnupg, version, install, homeState, login, git, systemdSockets] = await Promise.all([
    looked(() => gnupgPlaces(operations), "can't ask gpgconf there"),
    output('gpg', '--version').catch(() => ''),
    installer(operations),
    output('sh', '-c', '[ -d "$1" ] && echo there; [ -w "$1" ] && [ -x "$1" ] && echo writable', 'sh', home),
    output('sh', '-c', LOGIN).catch(() => ''),
    collectGitFacts(operations).catch(() => undefined),
    output('sh', '-c', `${FIND_SYSTEMD}; exec systemctl --user is-active "$@"`, 'sh', ...SYSTEMD_UNITS),
  ]);
  const gnupgHome = gnupg.found?.home;
  const read = (name: string) =>
    gnupgHome === undefined ? '' : operations.read(join(gnupgHome, name)).then(String, () => '');
  const [gpgConf, commonConf, homeFacts, hasOwnKeys] = await Promise.all([
    read('gpg.conf'),
    read('common.conf'),
    gnupgHome === undefined ? undefined : operations.stat(gnupgHome),
    gnupgHome === undefined ? false : hasPrivateKeys(operations, gnupgHome),
  ]);
  const look = (type: SocketType, path: string) =>
    socketFacts(operations, { type, path, hostSockets, timeoutMs: PROBE_MS }, holderOf);
  const gpgVersion = versionIn(version);
  const usesKeyboxd = has(commonConf, 'use-keyboxd');
  const isKeyboxd = usesKeyboxd && gpgVersion !== undefined && !isOlder(gpgVersion, FIRST_KEYBOXD);
  const [sockets, keys, keyboxd] = await Promise.all([
    Promise.all([
      ...(gnupg.found ? [look('gpg-agent', gnupg.found.agentSocket)] : []),
      look('ssh-agent', join(sshDirectory ?? join(home, '.ssh'), 'agent.sock')),
    ]),
    gnupgHome === undefined || gpg === undefined
      ? undefined
      : collectKeyFacts(operations, { home: gnupgHome, isKeyboxd }, fingerprints, gpg).catch(() => undefined),
    usesKeyboxd ? output('sh', '-c', FIND_KEYBOXD) : '',
  ]);
  return {
    system,
    uid,
    home: { path: home, exists: homeState.includes('there'), isWritable: homeState.includes('writable') },
    gpgVersion,
    gnupg,
    gnupgHome: homeFacts,
    install,
    sockets,
    systemdSockets: SYSTEMD_UNITS.filter((_unit, at) => systemdSockets.split('\n')[at] === 'active'),
    hasNoAutostart: has(gpgConf, 'no-autostart') || has(commonConf, 'no-autostart'),
    keyboxd: usesKeyboxd ? { program: keyboxd === 'there' } : undefined,
    hasOwnKeys,
    keys,
    git,
    login: loginFacts(login),
  };
}

/** Whether a configuration of GnuPG has an option. */
function has(configuration: string, option: string): boolean {
  return new RegExp(`^[ \\t]*(?:--)?${option}[ \\t]*\\r?$`, 'm').test(configuration);
}

async function installer(operations: TargetOperations): Promise<string> {
  for (const [program, command] of Object.entries(INSTALLERS)) {
    const path = await operations.which(program).catch(() => '');
    if (path) return command;
  }
  return INSTALLERS['apt-get'];
}

function loginFacts(printed: string): TargetFacts['login'] {
  const line = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(printed)?.[1];
  const [shell, file, sshAuthSock] = [line('shell'), line('file'), line('sock')];
  if (shell === undefined || file === undefined || sshAuthSock === undefined) return undefined;
  return { shell: printable(shell, 100), file, sshAuthSock: printable(sshAuthSock, 200) };
}

async function socketFacts(
  operations: TargetOperations,
  options: Parameters<typeof inspectPath>[1],
  holderOf: TargetQuestions['holderOf'],
): Promise<SocketFacts> {
  const { type, path } = options;
  const finding = await looked(() => inspectPath(operations, options), `can't look at ${path}`);
  const found = finding.found;
  const owners = found && 'owners' in found ? found.owners : [];
  const commands = await Promise.all(
    owners.map(async ({ pid, program }) => {
      const words = await operations.read(`/proc/${pid}/cmdline`).catch(() => Buffer.alloc(0));
      const command = words.toString().replaceAll('\0', ' ').trim() || program;
      return `${printable(command, MAX_COMMAND)} (pid ${pid})`;
    }),
  );
  const { boot } = operations.facts;
  const identity = found && 'identity' in found ? found.identity : undefined;
  const bridge = identity && (await holderOf({ ...identity, ...(boot === undefined ? {} : { boot }) }));
  return {
    type,
    path: printable(path, 200),
    tooLong: tooLong(path, operations.facts.system),
    finding,
    commands,
    bridge,
  };
}

function tooLong(path: string, system: string): string | undefined {
  try {
    checkPathLength(path, system);
    return undefined;
  } catch (error) {
    return (error as BridgeError).why;
  }
}
