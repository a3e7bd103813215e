import { resolve } from 'node:path';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import type { Runtime } from '@gpg-bridge/socket-server';

/** What is bridged, and how; everything has a default. */
export interface BridgeOptions {
  /** true: bridged, or an error if the host has none. false: left out. Absent: bridged if the host has it. */
  gpg?: boolean;
  ssh?: boolean;
  /** The target's user. */
  user?: string;
  /** A home in the target for that user, whose own can't be used. */
  home?: string;
  /** `pairs` unless said: the keys whose secret half is on the host. */
  keys?: KeyFilter;
  /** Narrows the SSH keys that are offered, by fingerprint or comment. */
  sshKeys?: string[];
  sshFromGpg?: boolean;
  /** gpg-agent's restricted socket, where neither gpgconf nor gpg-agent.conf tells it. */
  gpgSocket?: string;
  /** GNUPGHOME of the host's agent and keys; GnuPG's own place if absent. */
  gnupgHome?: string;
  /** SSH_AUTH_SOCK of the host's ssh-agent. */
  sshAuthSock?: string;
  runtime?: Runtime;
  takeover?: boolean;
  restart?: boolean;
  /** A command prefix that reaches the target, in place of a target's name. */
  exec?: string;
}

/** What, beside a target's name, says which bridge is meant. */
export type BridgeSelector = Pick<BridgeOptions, 'user' | 'exec'>;

/** The command-line words that say the same; what `up` starts its daemon with. */
export function bridgeWords(options: BridgeOptions): string[] {
  const words: string[] = [];
  for (const name of ['gpg', 'ssh'] as const) {
    if (options[name] !== undefined) words.push(options[name] ? `--${name}` : `--no-${name}`);
  }
  if (options.user !== undefined) words.push(`--user=${options.user}`);
  if (options.home !== undefined) words.push(`--home=${options.home}`);
  if (options.keys !== undefined) words.push(`--keys=${[options.keys].flat().join(',')}`);
  for (const key of options.sshKeys ?? []) words.push(`--ssh-key=${key}`);
  if (options.sshFromGpg) words.push('--ssh-from-gpg');
  if (options.gpgSocket !== undefined) words.push(`--gpg-socket=${options.gpgSocket}`);
  if (options.runtime !== undefined) words.push(`--runtime=${options.runtime}`);
  if (options.takeover) words.push('--takeover');
  if (options.restart) words.push('--restart');
  if (options.exec !== undefined) words.push(`--exec=${options.exec}`);
  return words;
}

/** Adds where the environment says that the host's agents are, as far as they are bridged and nothing else was said. */
export function withHostAgents(options: BridgeOptions, env: NodeJS.ProcessEnv): BridgeOptions {
  const { GNUPGHOME, SSH_AUTH_SOCK } = env;
  return {
    ...(GNUPGHOME ? { gnupgHome: resolve(GNUPGHOME) } : {}),
    ...(SSH_AUTH_SOCK && options.ssh !== false && !options.sshFromGpg
      ? { sshAuthSock: isAbsoluteSocket(SSH_AUTH_SOCK) ? SSH_AUTH_SOCK : resolve(SSH_AUTH_SOCK) }
      : {}),
    ...options,
  };
}

/** The variables that lead a daemon to the agents of its options. */
export function hostAgentVariables({ gnupgHome, sshAuthSock }: BridgeOptions): NodeJS.ProcessEnv {
  return {
    ...(gnupgHome === undefined ? {} : { GNUPGHOME: gnupgHome }),
    ...(sshAuthSock === undefined ? {} : { SSH_AUTH_SOCK: sshAuthSock }),
  };
}

/** A path from the root, or the name of a pipe on Windows. */
function isAbsoluteSocket(path: string): boolean {
  return path.startsWith('/') || path.startsWith('\\\\');
}
