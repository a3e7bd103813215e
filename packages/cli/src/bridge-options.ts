import { resolve } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { spanSeconds, spanText } from '@gpg-bridge/core/text/time-span';
import type { Runtime } from '@gpg-bridge/socket-server';
import { resolvedEnvironment, type VariableName } from './environment.ts';

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
  /** Narrows the SSH keys that are offered, by fingerprint or comment; empty: all of them. */
  sshKeys?: string[];
  sshFromGpg?: boolean;
  /** Narrows the private GPG keys that can be used, by whatever gpg calls a key; empty: all of them. */
  gpgKeys?: string[];
  /** Whether GPG keys may decrypt; they may unless it is false. */
  decrypt?: boolean;
  /** Whether the target may have a passphrase asked for in its own words. */
  allowPassphrase?: boolean;
  /** Whether a person on the host is asked about every use of a key. */
  confirm?: boolean;
  /** Whether a notice is shown on the host at every use of a key. */
  notify?: boolean;
  /** How long the bridge stays, such as `2h`; `none` for as long as it is not ended. */
  for?: string;
  /** When that is over, as an ISO time; counted from the moment at which `for` was given. */
  until?: string;
  /** How long it stays without a use of a key, such as `30m`; `none` for ever. */
  idle?: string;
  /** gpg-agent's restricted socket, where neither gpgconf nor gpg-agent.conf tells it; `default`: they do. */
  gpgSocket?: string;
  /** GNUPGHOME of the host's agent and keys; GnuPG's own place if absent. */
  gnupgHome?: string;
  /** SSH_AUTH_SOCK of the host's ssh-agent. */
  sshAuthSock?: string;
  /** `auto`: the first one that is found. */
  runtime?: Runtime | 'auto';
  /** Whether the target answers ahead what it may; it does unless it is false. */
  ahead?: boolean;
  /** Whether the target's git is told who signs, where it is not told yet. */
  git?: boolean;
  takeover?: boolean;
  restart?: boolean;
  /** A command prefix that reaches the target, in place of a target's name. */
  exec?: string;
  /** The rule that brought the bridge up by itself, in the words in which it was added. */
  rule?: string;
}

/** What, beside a target's name, says which bridge is meant. */
export type BridgeSelector = Pick<BridgeOptions, 'user' | 'exec'>;

/** What a person changed of a running bridge, by the name of the option or of the environment's variable. */
export interface OptionChange {
  option: string;
  from: string;
  to: string;
}

/** Options that say which bridge is meant or how it is started, and not what it is. */
const NOT_COMPARED: ReadonlySet<string> = new Set(['user', 'exec', 'takeover', 'until', 'rule']);

/** What the environment says, and not the command line. */
const VARIABLES: Readonly<Record<string, VariableName>> = {
  gnupgHome: 'GNUPGHOME',
  sshAuthSock: 'SSH_AUTH_SOCK',
};

/** Options that can be given several times, and are named after one of what they list. */
const LISTS: Readonly<Record<string, string>> = { sshKeys: 'ssh-key', gpgKeys: 'gpg-key' };

/**
 * The options of a bridge to which a person says more: what was said before holds until it is changed by name. An
 * environment without SSH_AUTH_SOCK says nothing about the ssh-agent; one without GNUPGHOME means GnuPG's own home.
 */
export function mergedOptions(before: BridgeOptions, given: BridgeOptions): BridgeOptions {
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  const { gnupgHome: _gnupgHome, until, ...rest } = before;
  const held = until === undefined || given.for !== undefined ? rest : { ...rest, until };
  return { ...withoutMoot(held, given), ...(Object.fromEntries(said) as BridgeOptions) };
}

/**
 * What was said before, without the choices for an agent that is left out now. A choice of GPG keys stays: an ssh-agent
 * that is gpg-agent has the same keys.
 */
export function withoutMoot(before: BridgeOptions, { gpg, ssh }: BridgeOptions): BridgeOptions {
  const { decrypt, sshKeys, ...rest } = before;
  return {
    ...rest,
    ...(gpg === false || decrypt === undefined ? {} : { decrypt }),
    ...(ssh === false || sshKeys === undefined ? {} : { sshKeys }),
  };
}

/** What makes one bridge another than the other. */
export function optionChanges(before: BridgeOptions, after: BridgeOptions): OptionChange[] {
  const [from, to] = [comparable(before), comparable(after)];
  const moot = new Set([
    ...(after.gpg === false ? ['decrypt'] : []),
    ...(after.ssh === false ? ['sshKeys'] : []),
  ]);
  const names = [...new Set([...from.keys(), ...to.keys()])].filter((name) => !moot.has(name));
  return names.sort().flatMap((name) => {
    const change = {
      option: optionName(name),
      from: from.get(name) ?? 'default',
      to: to.get(name) ?? 'default',
    };
    return change.from === change.to ? [] : [change];
  });
}

/** Every option that is not at its default, in words that can be compared and shown. */
function comparable(options: BridgeOptions): Map<string, string> {
  const usesSshAuthSock = options.ssh !== false && !options.sshFromGpg;
  const entries = Object.entries(options).flatMap(([name, value]): [string, string][] => {
    if (NOT_COMPARED.has(name) || value === undefined || isDefault(name, value)) return [];
    if (name === 'sshAuthSock' && !usesSshAuthSock) return [];
    if (typeof value === 'boolean') return [[name, value ? 'yes' : 'no']];
    return [[name, [value].flat().map(String).sort().join(',')]];
  });
  return new Map(entries);
}

/** Whether a value says what holds anyway. Of gpg and ssh only the absence does: both words have a meaning. */
function isDefault(name: string, value: unknown): boolean {
  if (name === 'keys') return value === 'pairs';
  if (name === 'runtime') return value === 'auto';
  if (name === 'gpgSocket') return value === 'default';
  if (name === 'decrypt' || name === 'ahead') return value === true;
  if (name === 'for' || name === 'idle') return value === 'none';
  if (Array.isArray(value)) return value.length === 0;
  return value === false && name !== 'gpg' && name !== 'ssh';
}

function optionName(name: string): string {
  if (VARIABLES[name]) return VARIABLES[name];
  const words = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return `--${LISTS[name] ?? words}`;
}

/** Whether the options ask for the gpg-agent without saying so. */
export function isGpgImplied(options: BridgeOptions): boolean {
  return (options.gpgKeys ?? []).length > 0 || givenGpgSocket(options) !== undefined;
}

/** The path of gpg-agent's restricted socket, if one was given. */
export function givenGpgSocket({ gpgSocket }: { gpgSocket?: string | undefined }): string | undefined {
  return gpgSocket === 'default' ? undefined : gpgSocket;
}

/** Whether the options ask for the ssh-agent without saying so. */
export function isSshImplied({ sshFromGpg, sshKeys = [] }: BridgeOptions): boolean {
  return sshFromGpg === true || sshKeys.length > 0;
}

/** Something that can be asked of a bridge: the word for it, and what takes it back if it is no restriction. */
interface Wish {
  word: string;
  undo?: string;
  isIn(options: BridgeOptions): boolean;
}

const NO_GPG: Wish = { word: '--no-gpg', isIn: ({ gpg }) => gpg === false };
const NO_SSH: Wish = { word: '--no-ssh', isIn: ({ ssh }) => ssh === false };
const GPG_KEY: Wish = {
  word: '--gpg-key',
  isIn: ({ gpgKeys = [] }) => gpgKeys.length > 0,
};
const NO_DECRYPT: Wish = {
  word: '--no-decrypt',
  isIn: ({ decrypt }) => decrypt === false,
};
const ALLOW_PASSPHRASE: Wish = {
  word: '--allow-passphrase',
  undo: '--no-allow-passphrase',
  isIn: ({ allowPassphrase }) => allowPassphrase === true,
};
const SSH_KEY: Wish = {
  word: '--ssh-key',
  isIn: ({ sshKeys = [] }) => sshKeys.length > 0,
};
const SSH_FROM_GPG: Wish = {
  word: '--ssh-from-gpg',
  undo: '--no-ssh-from-gpg',
  isIn: ({ sshFromGpg }) => sshFromGpg === true,
};

/** What can't be had together. */
const EXCLUSIONS: readonly (readonly [Wish, Wish])[] = [
  [NO_GPG, NO_SSH],
  [NO_DECRYPT, NO_GPG],
  [ALLOW_PASSPHRASE, NO_GPG],
  [SSH_KEY, NO_SSH],
  [SSH_FROM_GPG, NO_SSH],
];

/** Throws for options that exclude each other; of those `before` a person may not think, who gave them earlier. */
export function checkOptions(options: BridgeOptions, before: BridgeOptions = {}): void {
  const found = EXCLUSIONS.find((pair) => pair.every((wish) => wish.isIn(options)));
  if (!found) return;
  const isNothing = found.includes(NO_GPG) && found.includes(NO_SSH);
  if (isNothing && found.every((wish) => wish.isIn(before))) {
    const both = `${found[0].word} and ${found[1].word}`;
    throw conflict(
      `${both} were given before and hold, so nothing is left to bridge`,
      'Add `--gpg` or `--ssh`.',
    );
  }
  const [held, given] = found[0].isIn(before) ? found : [found[1], found[0]];
  if (!held.isIn(before) || given.isIn(before)) {
    const both = `${found[0].word} and ${found[1].word}`;
    const why = isNothing ? `with ${both} nothing is left to bridge` : `${both} exclude each other`;
    throw conflict(why, 'Leave one of them out.');
  }
  const why = isNothing ? `with ${given.word} nothing is left to bridge` : `${given.word} excludes it`;
  throw conflict(
    `${held.word} was given before and holds, and ${why}`,
    held.undo ? `Add \`${held.undo}\` to take that back.` : `Leave ${given.word} out.`,
  );
}

/**
 * Throws for GPG keys that are chosen where GPG is not bridged. A choice that was made before stays, and chooses among
 * the SSH keys of gpg-agent.
 */
export function checkKeyChoice(given: BridgeOptions, held: BridgeOptions = {}): void {
  if (!GPG_KEY.isIn(given)) return;
  const both = `${GPG_KEY.word} and ${NO_GPG.word}`;
  if (NO_GPG.isIn(given)) throw conflict(`${both} exclude each other`, 'Leave one of them out.');
  if (!NO_GPG.isIn(held) || given.gpg) return;
  throw conflict(
    `${NO_GPG.word} was given before and holds, and ${GPG_KEY.word} excludes it`,
    `Leave ${GPG_KEY.word} out.`,
  );
}

function conflict(why: string, fix: string): BridgeError {
  return new BridgeError('USAGE', { what: "there can't be such a bridge", why, fix });
}

/** Times in one way, and when the one of --for is over, counted from now unless that was said. */
export function withDeadline(options: BridgeOptions, now = Date.now()): BridgeOptions {
  const { for: stays, idle, until } = options;
  const seconds = stays === undefined || stays === 'none' ? undefined : secondsOf('for', stays);
  return {
    ...options,
    ...(stays === undefined ? {} : { for: seconds === undefined ? 'none' : spanText(seconds) }),
    ...(seconds !== undefined && until === undefined
      ? { until: new Date(now + seconds * 1_000).toISOString() }
      : {}),
    ...(idle === undefined || idle === 'none' ? {} : { idle: spanText(secondsOf('idle', idle)) }),
  };
}

/** The seconds that a person gave with an option. */
export function secondsOf(option: string, text: string): number {
  const seconds = spanSeconds(text);
  if (seconds !== undefined) return seconds;
  throw new BridgeError('USAGE', {
    what: `--${option} takes no '${text}'`,
    why: 'that is no time',
    fix: 'Say it in days, hours, minutes or seconds: 30m, 2h, 1h30m.',
  });
}

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
  for (const key of options.gpgKeys ?? []) words.push(`--gpg-key=${key}`);
  if (options.decrypt === false) words.push('--no-decrypt');
  if (options.allowPassphrase) words.push('--allow-passphrase');
  if (options.confirm) words.push('--confirm');
  if (options.notify) words.push('--notify');
  if (options.for !== undefined) words.push(`--for=${options.for}`);
  if (options.until !== undefined) words.push(`--until=${options.until}`);
  if (options.idle !== undefined) words.push(`--idle=${options.idle}`);
  if (options.gpgSocket !== undefined) words.push(`--gpg-socket=${options.gpgSocket}`);
  if (options.runtime !== undefined) words.push(`--runtime=${options.runtime}`);
  if (options.ahead === false) words.push('--no-ahead');
  if (options.git) words.push('--git');
  if (options.takeover) words.push('--takeover');
  if (options.restart) words.push('--restart');
  if (options.exec !== undefined) words.push(`--exec=${options.exec}`);
  if (options.rule !== undefined) words.push(`--rule=${options.rule}`);
  return words;
}

/** Adds where the environment says that the host's agents are, as far as they are bridged and nothing else was said. */
export function withHostAgents(options: BridgeOptions, env: NodeJS.ProcessEnv): BridgeOptions {
  const { GNUPGHOME, SSH_AUTH_SOCK } = resolvedEnvironment(env);
  return {
    ...(GNUPGHOME ? { gnupgHome: resolve(GNUPGHOME) } : {}),
    ...(SSH_AUTH_SOCK && options.ssh !== false && !options.sshFromGpg ? { sshAuthSock: SSH_AUTH_SOCK } : {}),
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
