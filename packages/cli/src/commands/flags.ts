import { resolve } from 'node:path';
import type { Runtime } from '@gpg-bridge/socket-server';
import type { BridgeOptions } from '../bridge-options.ts';
import { namesOrAll, sshKeyNames } from './key-names.ts';
import { usage } from './parse.ts';
import type { CommandName, ParsedCommand } from './specs.ts';

type Flags = ParsedCommand['flags'];

/** The bridge that a command's flags ask for; only what was said is set. */
export function bridgeOptions(command: CommandName, flags: Flags): BridgeOptions {
  const options: BridgeOptions = {};
  const gpg = yesOrNo(command, flags, 'gpg');
  const ssh = yesOrNo(command, flags, 'ssh');
  const keys = textFlag(flags, 'keys');
  const sshKeys = flags['ssh-key'];
  if (gpg !== undefined) options.gpg = gpg;
  if (ssh !== undefined) options.ssh = ssh;
  if (textFlag(flags, 'user') !== undefined) options.user = textFlag(flags, 'user')!;
  const home = textFlag(flags, 'home');
  if (home !== undefined) {
    if (!home.startsWith('/')) throw usage(command, `--home takes a path from the root, not '${home}'`);
    options.home = home;
  }
  if (keys !== undefined) options.keys = keyChoice(command, keys);
  const sshFromGpg = yesOrNo(command, flags, 'ssh-from-gpg');
  const restart = yesOrNo(command, flags, 'restart');
  // The daemon is told what `up` has made of a person's words.
  if (Array.isArray(sshKeys) && sshKeys.length > 0)
    options.sshKeys = command === 'serve' ? sshKeys : sshKeyNames(command, sshKeys);
  if (sshFromGpg !== undefined) options.sshFromGpg = sshFromGpg;
  const gpgKeys = flags['gpg-key'];
  if (Array.isArray(gpgKeys)) options.gpgKeys = namesOrAll(command, 'gpg-key', gpgKeys);
  const decrypt = yesOrNo(command, flags, 'decrypt');
  if (decrypt !== undefined) options.decrypt = decrypt;
  const allowPassphrase = yesOrNo(command, flags, 'allow-passphrase');
  if (allowPassphrase !== undefined) options.allowPassphrase = allowPassphrase;
  const confirm = yesOrNo(command, flags, 'confirm');
  if (confirm !== undefined) options.confirm = confirm;
  const notify = yesOrNo(command, flags, 'notify');
  if (notify !== undefined) options.notify = notify;
  const [stays, until, idle] = ['for', 'until', 'idle'].map((name) => textFlag(flags, name));
  if (stays !== undefined) options.for = stays;
  if (until !== undefined) options.until = until;
  if (idle !== undefined) options.idle = idle;
  const ahead = yesOrNo(command, flags, 'ahead');
  if (ahead !== undefined) options.ahead = ahead;
  const gpgSocket = textFlag(flags, 'gpg-socket');
  if (gpgSocket !== undefined) options.gpgSocket = gpgSocket === 'default' ? gpgSocket : resolve(gpgSocket);
  if (textFlag(flags, 'runtime') !== undefined) options.runtime = textFlag(flags, 'runtime') as Runtime;
  const git = yesOrNo(command, flags, 'git');
  if (git !== undefined) options.git = git;
  if (flags.takeover) options.takeover = true;
  if (restart !== undefined) options.restart = restart;
  if (textFlag(flags, 'exec') !== undefined) options.exec = textFlag(flags, 'exec')!;
  if (textFlag(flags, 'rule') !== undefined) options.rule = textFlag(flags, 'rule')!;
  return options;
}

/** A text option, if it was given. */
export function textFlag(flags: Flags, name: string): string | undefined {
  const value = flags[name];
  return typeof value === 'string' ? value : undefined;
}

function yesOrNo(command: CommandName, flags: Flags, name: string): boolean | undefined {
  if (flags[name] && flags[`no-${name}`])
    throw usage(command, `--${name} and --no-${name} exclude each other`);
  if (flags[name]) return true;
  return flags[`no-${name}`] ? false : undefined;
}

function keyChoice(command: CommandName, value: string): NonNullable<BridgeOptions['keys']> {
  if (value === 'pairs' || value === 'all' || value === 'none') return value;
  const ids = value.split(',').map((id) => id.trim());
  if (ids.some((id) => !id)) throw usage(command, '--keys takes pairs, all, none, or IDs with commas');
  return ids;
}
