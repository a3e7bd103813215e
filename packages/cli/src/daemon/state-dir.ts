import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve, win32 } from 'node:path';
import { BridgeError, diskFull } from '@gpg-bridge/core/errors';

/** The files of one bridge. */
export interface BridgeFiles {
  pid: string;
  control: string;
  log: string;
  /** Held by the process that is starting the bridge. */
  lock: string;
}

/** What a bridge's files are called; an earlier version had half as many digits. */
export const BRIDGE_STEM = '[0-9a-f]{16}(?:[0-9a-f]{16})?';
/** 128 bits: nobody who chooses a target's name finds one with the files of another. */
const STEM_DIGITS = 32;
/** Names of a bridge's files, and of the temporary ones beside them. */
const OWN_NAME = new RegExp(
  `^(?:${BRIDGE_STEM}(?:\\.\\d{4}-\\d{2})?\\.(?:pid|sock|log|lock|uses)(?:\\.(?:[x1]|new))?|paused(?:\\.new)?|auto(?:-rules|-waiting)?\\.(?:json|lock|log)(?:\\.(?:[x1]|new))?|\\d{1,10}\\.(?:tty(?:\\.new)?|prompt)|grants(?:\\.lock(?:\\.x)?)?|\\.[0-9a-z]{1,9})$`,
);
/** Other programs may have sockets in the same directory: only these are connected to. */
const CONTROL_NAME = new RegExp(`^${BRIDGE_STEM}\\.sock$`);
const LOCK_NAME = new RegExp(`^${BRIDGE_STEM}\\.lock$`);
const TERMINAL_NAME = /^\d{1,10}\.tty$/;
const PROMPT_NAME = /^\d{1,10}\.prompt$/;
/** In a directory with this bit nobody removes or renames another's files. */
const STICKY = 0o1000;
/** Bytes of a socket's path on macOS, which has the fewest; the longest name here is `HASH.lock.x`. */
const MAX_SOCKET_PATH = 103;
const LONGEST_ENDING = '.lock.x';

/** Where the bridges' files are: `$GPG_BRIDGE_STATE_DIR`, else the runtime directory, else where records are. */
export function stateDirectory(
  env: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  const isPlain = env.GPG_BRIDGE_STATE_DIR || platform === 'win32' || !env.XDG_RUNTIME_DIR;
  return isPlain ? recordDirectory(env, platform) : resolve(env.XDG_RUNTIME_DIR!, 'gpg-bridge');
}

/** Where what outlives the login is (the record of key uses, rules, logs): not in the runtime directory. */
export function recordDirectory(
  env: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  const { GPG_BRIDGE_STATE_DIR, XDG_STATE_HOME, HOME, LOCALAPPDATA } = env;
  if (GPG_BRIDGE_STATE_DIR) return resolve(GPG_BRIDGE_STATE_DIR);
  // Not the one that follows a person from machine to machine.
  if (platform === 'win32')
    return win32.join(LOCALAPPDATA || win32.join(homedir(), 'AppData', 'Local'), 'gpg-bridge');
  return resolve(XDG_STATE_HOME || join(HOME || homedir(), '.local', 'state'), 'gpg-bridge');
}

/** The record of what keys were used for over the bridge with these files. */
export function useRecordPath(files: BridgeFiles): string {
  return join(recordDirectory(), `${basename(files.pid, '.pid')}.uses`);
}

/** Throws if what is in the directory can't be believed, because others may have put it there. None is all right. */
export function checkStateDirectory(directory: string): void {
  try {
    if (lstatSync(directory, { throwIfNoEntry: false })) makePrivate(directory);
  } catch (error) {
    throw unusableState(directory, error as Error);
  }
}

/** Throws if others can replace the files in a directory that a person chose for the PID file; it may be shared. */
export function checkSharedDirectory(directory: string): void {
  const { uid, mode } = statSync(directory);
  const isOurs = !process.getuid || uid === 0 || uid === process.getuid();
  const isSafe = (mode & 0o022) === 0 || (mode & STICKY) !== 0 || process.platform === 'win32';
  if (isOurs && isSafe) return;
  const why = isOurs
    ? `others may replace what is in it (mode ${octal(mode)})`
    : 'it belongs to another user';
  throw unusable(directory, why, 'Name another place with --pid-file.');
}

/**
 * Throws unless the directory is this user's alone. One that others may only read is made private if it holds nothing
 * but files of bridges; one that others may write to, if it is empty.
 */
export function makePrivate(directory: string): void {
  const { uid, mode } = statSync(directory);
  const link = lstatSync(directory);
  const ownUid = process.getuid?.() ?? uid;
  if (link.isSymbolicLink() && link.uid !== ownUid && link.uid !== 0) {
    throw new Error('it is a symbolic link of another user');
  }
  if (uid !== ownUid) throw new Error('it belongs to another user');
  if ((mode & 0o077) === 0 || process.platform === 'win32') return;
  const names = readdirSync(directory);
  if ((mode & 0o022) !== 0 && names.length > 0) {
    throw new Error(`others may write to it (mode ${octal(mode)}), and it is not empty`);
  }
  if (!names.every((name) => OWN_NAME.test(name))) {
    throw new Error(`others may look into it (mode ${octal(mode)}), and it has other files`);
  }
  chmodSync(directory, 0o700);
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8);
}

/** The error for a state directory that something can't be done in. */
export function unusableState(
  directory: string,
  cause: Error,
  platform: NodeJS.Platform = process.platform,
): BridgeError {
  const full = diskFull(cause, `can't keep state in ${directory}`);
  if (full) return full;
  return unusable(
    directory,
    cause.message,
    // Another directory would not have the restrictions that are stored in this one.
    `Make it a directory of your own${platform === 'win32' ? '' : ' with mode 0700'}, and move its files with it.`,
    cause,
  );
}

/**
 * The files of the bridge to one target and user. The name is a short hash, since a socket's path has
 * 104 bytes on some systems and a target's name any number.
 */
export function bridgeFiles(directory: string, key: string): BridgeFiles {
  return filesAt(join(directory, stemOf(key)));
}

/** The files that lie beside a PID file. */
export function filesBeside(pidFile: string): BridgeFiles {
  return filesAt(resolve(pidFile).replace(/\.pid$/, ''));
}

/** The control sockets of all bridges in a directory, of dead ones too. */
export function controlSockets(directory: string): string[] {
  return socketsNamed(CONTROL_NAME, directory);
}

/** The locks of all bridges that are being started or changed. */
export function bridgeLocks(directory: string): string[] {
  return socketsNamed(LOCK_NAME, directory);
}

/** Where a process that reads its terminal for a target can be told not to. */
export function terminalSocket(directory: string, pid: number): string {
  return join(directory, `${pid}.tty`);
}

/** The same of all such processes, of dead ones too. */
export function terminalSockets(directory: string): string[] {
  return socketsNamed(TERMINAL_NAME, directory);
}

/** Where a daemon tells processes that would read a terminal when no prompt can be up any more. */
export function promptSocket(directory: string, pid: number): string {
  return join(directory, `${pid}.prompt`);
}

/** The same of all daemons, of dead ones too. */
export function promptSockets(directory: string): string[] {
  return socketsNamed(PROMPT_NAME, directory);
}

/** The sockets in a directory that have such a name; no links, which would lead elsewhere. */
function socketsNamed(pattern: RegExp, directory: string): string[] {
  try {
    return readdirSync(directory, { withFileTypes: true })
      .filter((entry) => pattern.test(entry.name) && !entry.isSymbolicLink())
      .map(({ name }) => join(directory, name));
  } catch {
    return []; // no directory, no bridges
  }
}

function filesAt(stem: string): BridgeFiles {
  if (Buffer.byteLength(stem) + LONGEST_ENDING.length > MAX_SOCKET_PATH && process.platform !== 'win32') {
    throw unusable(
      dirname(stem),
      `its path is too long for a socket (${MAX_SOCKET_PATH} bytes)`,
      'Set GPG_BRIDGE_STATE_DIR to a shorter one.',
    );
  }
  // A log outlives its bridge, and the login.
  const logs = dirname(stem) === stateDirectory() ? join(recordDirectory(), basename(stem)) : stem;
  return { pid: `${stem}.pid`, control: `${stem}.sock`, log: `${logs}.log`, lock: `${stem}.lock` };
}

function stemOf(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, STEM_DIGITS);
}

function unusable(directory: string, why: string, fix: string, cause?: unknown): BridgeError {
  return new BridgeError('STATE_DIR_UNUSABLE', {
    what: `can't keep state in ${directory}`,
    why,
    fix,
    ...(cause === undefined ? {} : { cause }),
  });
}
