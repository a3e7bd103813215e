import type { BridgeOptions, RuntimeName } from '../manager/types.ts';
import { usage } from './parse.ts';
import type { CommandName, ParsedCommand } from './specs.ts';

type Flags = ParsedCommand['flags'];

/** The bridge that a command's flags ask for; only what was said is set. */
export function bridgeOptions(command: CommandName, flags: Flags): BridgeOptions {
  const options: BridgeOptions = {};
  const gpg = yesOrNo(command, flags, 'gpg');
  const ssh = yesOrNo(command, flags, 'ssh');
  const keys = text(flags, 'keys');
  const sshKeys = flags['ssh-key'];
  if (gpg !== undefined) options.gpg = gpg;
  if (ssh !== undefined) options.ssh = ssh;
  if (text(flags, 'user') !== undefined) options.user = text(flags, 'user')!;
  if (keys !== undefined) options.keys = keyChoice(command, keys);
  if (Array.isArray(sshKeys) && sshKeys.length > 0) options.sshKeys = sshKeys;
  if (flags['ssh-from-gpg']) options.sshFromGpg = true;
  if (text(flags, 'runtime') !== undefined) options.runtime = text(flags, 'runtime') as RuntimeName;
  if (flags.takeover) options.takeover = true;
  if (flags.restart) options.restart = true;
  if (text(flags, 'exec') !== undefined) options.exec = text(flags, 'exec')!;
  return options;
}

/** The words that make a daemon's flags say the same; the inverse of `bridgeOptions`. */
export function bridgeWords(options: BridgeOptions): string[] {
  const words: string[] = [];
  for (const name of ['gpg', 'ssh'] as const) {
    if (options[name] !== undefined) words.push(options[name] ? `--${name}` : `--no-${name}`);
  }
  if (options.user !== undefined) words.push(`--user=${options.user}`);
  if (options.keys !== undefined) words.push(`--keys=${[options.keys].flat().join(',')}`);
  for (const key of options.sshKeys ?? []) words.push(`--ssh-key=${key}`);
  if (options.sshFromGpg) words.push('--ssh-from-gpg');
  if (options.runtime !== undefined) words.push(`--runtime=${options.runtime}`);
  if (options.takeover) words.push('--takeover');
  if (options.restart) words.push('--restart');
  if (options.exec !== undefined) words.push(`--exec=${options.exec}`);
  return words;
}

/** A text option, if it was given. */
export function text(flags: Flags, name: string): string | undefined {
  const value = flags[name];
  return typeof value === 'string' ? value : undefined;
}

function yesOrNo(command: CommandName, flags: Flags, name: 'gpg' | 'ssh'): boolean | undefined {
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
