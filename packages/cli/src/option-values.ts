import { isAbsolute } from 'node:path';
import { spanSeconds } from '@gpg-bridge/core/text/time-span';
import { RUNTIMES } from '@gpg-bridge/socket-server';
import type { BridgeOptions } from './bridge-options.ts';

/** What an option or a field of a file may be. */
export interface ValueRule {
  /** Completes "it takes …". */
  takes: string;
  accepts(value: unknown): boolean;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText);
}

export const YES_OR_NO: ValueRule = {
  takes: 'true or false',
  accepts: (value) => typeof value === 'boolean',
};
export const TEXT: ValueRule = { takes: 'a text', accepts: isText };
export const TEXT_LIST: ValueRule = { takes: 'a list of texts', accepts: isTextList };
/** On the command line `all` takes a choice back, and blanks around a key go. */
const CHOSEN_KEYS: ValueRule = {
  takes: 'a list of keys, or [] for all of them',
  accepts: (value) =>
    isTextList(value) && (value as string[]).every((key) => key !== 'all' && key.trim() === key),
};
const HOST_PATH: ValueRule = {
  takes: 'an absolute path',
  accepts: (value) => isText(value) && (isAbsolute(value) || value.startsWith('\\\\')),
};
const TARGET_PATH: ValueRule = {
  takes: 'an absolute path',
  accepts: (value) => isText(value) && value.startsWith('/'),
};
const SPAN: ValueRule = {
  takes: 'a time such as "30m", "2h" or "1h30m", or "none"',
  accepts: (value) => isText(value) && (value === 'none' || spanSeconds(value) !== undefined),
};
const KEY_CHOICES: readonly unknown[] = ['pairs', 'all', 'none'];
const RUNTIME_CHOICES: readonly unknown[] = [...RUNTIMES, 'auto'];

/** What each option takes; undefined for those that a file can't set, since they are about one command. */
const OPTION_VALUES: Readonly<Record<keyof BridgeOptions, ValueRule | undefined>> = {
  gpg: YES_OR_NO,
  ssh: YES_OR_NO,
  user: TEXT,
  home: TARGET_PATH,
  keys: {
    takes: '"pairs", "all", "none", or a list of key IDs',
    accepts: (value) => KEY_CHOICES.includes(value) || (isTextList(value) && (value as unknown[]).length > 0),
  },
  sshKeys: CHOSEN_KEYS,
  sshFromGpg: YES_OR_NO,
  gpgKeys: CHOSEN_KEYS,
  decrypt: YES_OR_NO,
  allowPassphrase: YES_OR_NO,
  confirm: YES_OR_NO,
  notify: YES_OR_NO,
  for: SPAN,
  until: undefined,
  idle: SPAN,
  gpgSocket: {
    takes: 'an absolute path, or "default"',
    accepts: (value) => value === 'default' || HOST_PATH.accepts(value),
  },
  gnupgHome: HOST_PATH,
  sshAuthSock: HOST_PATH,
  runtime: {
    takes: `one of ${RUNTIME_CHOICES.map((name) => JSON.stringify(name)).join(', ')}`,
    accepts: (value) => RUNTIME_CHOICES.includes(value),
  },
  ahead: YES_OR_NO,
  git: YES_OR_NO,
  takeover: YES_OR_NO,
  restart: YES_OR_NO,
  exec: undefined,
  rule: undefined,
};

/** What the options of a bridge take in a file, by their names. */
export const FILE_OPTIONS: Readonly<Record<string, ValueRule>> = Object.fromEntries(
  Object.entries(OPTION_VALUES).flatMap(([name, rule]) => (rule ? [[name, rule]] : [])),
);
