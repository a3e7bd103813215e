import type { BridgeOptions } from '../bridge-options.ts';

/** What a target may do with the host's keys, for scripts. */
export interface GrantDocument {
  /** `all`, or the only ones by the names that a person gave; none: there is no gpg-agent. */
  gpgKeys: 'all' | string[];
  decrypt: boolean;
  /** The same of SSH keys; the fingerprints of those that are left, where another option leaves some out. */
  sshKeys: 'all' | string[];
  confirm: boolean;
  notify: boolean;
  /** Whether the target may have a passphrase asked for in its own words. */
  passphrase: boolean;
  /** ISO time at which --for is over. */
  until: string | null;
  idle: string | null;
}

/** What a grant is told from. */
export interface Granted {
  /** The target as a person names it. */
  target: string;
  options: BridgeOptions;
  /** Those of a bridge that is attached: an agent without one can't be used. */
  sockets: readonly { type: string }[];
  /** The only SSH keys that it offers, where something else than --ssh-key chose them. */
  offers?: { sshKeys?: readonly { fingerprint: string; name?: string }[] };
}

/** A public key in base64, which is what a .pub file stands for. */
const PUBLIC_KEY = /^AAAA[A-Za-z0-9+/]{40,}=*$/;
/** Said once where both kinds of keys have it. */
const USE = 'use ';
/** Characters of it that tell it from others. */
const SHOWN_OF_KEY = 12;

/** What a target may do, as data. */
export function grantOf({ options, sockets, offers }: Omit<Granted, 'target'>): GrantDocument {
  const { gpg, ssh, gpgKeys = [], sshKeys = [], decrypt = true, until, idle = 'none' } = options;
  const has = (type: string, wanted: boolean | undefined) =>
    wanted !== false && (sockets.length === 0 || sockets.some((socket) => socket.type === type));
  const keys = (isThere: boolean, chosen: string[]) => (!isThere ? [] : chosen.length > 0 ? chosen : 'all');
  const hasGpg = has('gpg-agent', gpg);
  const hasSsh = has('ssh-agent', ssh);
  const leftOver = hasSsh ? offers?.sshKeys?.map(({ fingerprint }) => fingerprint) : undefined;
  return {
    gpgKeys: keys(hasGpg, gpgKeys),
    decrypt: hasGpg && decrypt,
    sshKeys: leftOver ?? keys(hasSsh, sshKeys),
    confirm: options.confirm === true,
    notify: options.notify === true,
    passphrase: hasGpg && options.allowPassphrase === true,
    until: until ?? null,
    idle: idle === 'none' ? null : idle,
  };
}

/** What a target may do, in one sentence. */
export function grantSentence(granted: Granted, now = new Date()): string {
  const { target, options } = granted;
  const grant = grantOf(granted);
  const user = options.user === undefined ? '' : ` (user ${options.user})`;
  const [gpg, ssh] = [gpgWords(grant), sshWords(grant, granted.offers)];
  const may = [
    gpg,
    gpg.startsWith(USE) && ssh.startsWith(USE) ? ssh.slice(USE.length) : ssh,
    ...(grant.passphrase ? ['ask you for a passphrase'] : []),
  ];
  const listed = may.length < 3 ? may.join(' and ') : `${may.slice(0, -1).join(', ')} and ${may.at(-1)}`;
  const conditions = [
    ...(grant.confirm ? ['each use is confirmed'] : []),
    ...(grant.notify ? ['each use is notified'] : []),
  ];
  const end = `until ${grant.until === null ? '`gpg-bridge down`' : clockTime(new Date(grant.until), now)}`;
  const idle = grant.idle === null ? '' : ` or ${grant.idle} without a use`;
  const separator = conditions.length > 0 ? '; ' : ', ';
  return `${target}${user} may ${[listed, ...conditions].join('; ')}${separator}${end}${idle}.`;
}

/** The same with the keys that are left out although the options name or mean them. */
export function grantWithExceptions(granted: Granted & { leftOut: readonly string[] }): string {
  return [grantSentence(granted), ...granted.leftOut.map((why) => `Left out: ${why}.`)].join(' ');
}

function gpgWords({ gpgKeys, decrypt }: GrantDocument): string {
  if (gpgKeys.length === 0) return `${USE}no GPG key`;
  const keys = gpgKeys === 'all' ? 'every GPG key' : gpgKeys.join(', ');
  return decrypt ? `sign and decrypt with ${keys}` : `sign with ${keys} (not decrypt)`;
}

function sshWords({ sshKeys }: GrantDocument, offers: Granted['offers']): string {
  if (sshKeys.length === 0) return `${USE}no SSH key`;
  if (sshKeys === 'all') return `${USE}every SSH key`;
  const names = new Map(offers?.sshKeys?.map(({ fingerprint, name }) => [fingerprint, name]));
  const named = (key: string) =>
    names.get(key) === undefined ? shownSshKey(key) : `${key} (${names.get(key)})`;
  const keys = sshKeys.map(named).join(', ');
  return `${USE}the SSH ${sshKeys.length === 1 ? 'key' : 'keys'} ${keys}`;
}

/** An SSH key as the sentence names it. */
export function shownSshKey(key: string): string {
  return PUBLIC_KEY.test(key) ? `…${key.replace(/=+$/, '').slice(-SHOWN_OF_KEY)}` : key;
}

/** The time of day on the host, with the date if that is another day. */
function clockTime(time: Date, now: Date): string {
  const two = (number: number) => String(number).padStart(2, '0');
  const day = (date: Date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}`;
  return day(time) === day(now) ? clock : `${day(time)} ${clock}`;
}
