import { accessSync, chmodSync, constants, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { BridgeError, diskFull } from '@gpg-bridge/core/errors';
import { makeDirectories } from '@gpg-bridge/core/fs/make-directories';

/** The files of one bridge. */
export interface BridgeFiles {
  pid: string;
  control: string;
  log: string;
  /** Held by the process that is starting the bridge. */
  lock: string;
}

/** Names of a bridge's files, and of the temporary ones beside them. */
const OWN_NAME = /^(?:[0-9a-f]{16}\.(?:pid|sock|log|lock|uses)(?:\.(?:[x1]|new))?|\.[0-9a-z]{1,9})$/;
/** Other programs may have sockets in the same directory: only these are connected to. */
const CONTROL_NAME = /^[0-9a-f]{16}\.sock$/;
/** Bytes of a socket's path on macOS, which has the fewest; the longest name here is `HASH.lock.x`. */
const MAX_SOCKET_PATH = 103;
const LONGEST_ENDING = '.lock.x';

/** Where the bridges' files are: `$GPG_BRIDGE_STATE_DIR`, else the runtime directory, else under the home. */
export function stateDirectory(env: NodeJS.ProcessEnv = process.env): string {
  if (env.GPG_BRIDGE_STATE_DIR) return resolve(env.GPG_BRIDGE_STATE_DIR);
  if (env.XDG_RUNTIME_DIR) return resolve(env.XDG_RUNTIME_DIR, 'gpg-bridge');
  return resolve(env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state'), 'gpg-bridge');
}

/** Where the record of key uses is, which outlives the login: not in the runtime directory. */
export function recordDirectory(env: NodeJS.ProcessEnv = process.env): string {
  const { GPG_BRIDGE_STATE_DIR, XDG_STATE_HOME, HOME } = env;
  return GPG_BRIDGE_STATE_DIR
    ? resolve(GPG_BRIDGE_STATE_DIR)
    : resolve(XDG_STATE_HOME || join(HOME || homedir(), '.local', 'state'), 'gpg-bridge');
}

/** The record of what keys were used for over the bridge with these files. */
export function useRecordPath(files: BridgeFiles): string {
  return join(recordDirectory(), `${basename(files.pid, '.pid')}.uses`);
}

/**
 * Makes sure that the directory exists and is private. One with a laxer mode is made private if it holds
 * nothing but files of bridges.
 */
export function ensureStateDirectory(directory: string): void {
  try {
    makeDirectories(directory);
    const { uid, mode } = statSync(directory);
    if (process.getuid && uid !== process.getuid()) throw new Error('it belongs to another user');
    accessSync(directory, constants.W_OK);
    if ((mode & 0o077) === 0 || process.platform === 'win32') return;
    if (!readdirSync(directory).every((name) => OWN_NAME.test(name))) {
      throw new Error(`others may look into it (mode ${(mode & 0o777).toString(8)}), and it has other files`);
    }
    chmodSync(directory, 0o700);
  } catch (error) {
    throw unusableState(directory, error as Error);
  }
}

/** The error for a state directory that something can't be done in. */
export function unusableState(directory: string, cause: Error): BridgeError {
  const full = diskFull(cause, `can't keep state in ${directory}`);
  if (full) return full;
  return unusable(
    directory,
    cause.message,
    'Make it a directory of your own with mode 0700, or set GPG_BRIDGE_STATE_DIR to another.',
    cause,
  );
}

/**
 * The files of the bridge to one target and user. The name is a short hash, since a socket's path has
 * 104 bytes on some systems and a target's name any number.
 */
export function bridgeFiles(directory: string, key: string): BridgeFiles {
  return filesAt(join(directory, shortHash(key)));
}

/** The files that lie beside a PID file. */
export function filesBeside(pidFile: string): BridgeFiles {
  return filesAt(resolve(pidFile).replace(/\.pid$/, ''));
}

/** The control sockets of all bridges in a directory, of dead ones too. */
export function controlSockets(directory: string): string[] {
  try {
    return readdirSync(directory)
      .filter((name) => CONTROL_NAME.test(name))
      .map((name) => join(directory, name));
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
  return { pid: `${stem}.pid`, control: `${stem}.sock`, log: `${stem}.log`, lock: `${stem}.lock` };
}

/** FNV-1a of 64 bits. It only has to tell apart one person's targets; node:crypto takes long to load. */
function shortHash(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(text)) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash.toString(16).padStart(16, '0');
}

function unusable(directory: string, why: string, fix: string, cause?: unknown): BridgeError {
  return new BridgeError('STATE_DIR_UNUSABLE', {
    what: `can't keep state in ${directory}`,
    why,
    fix,
    ...(cause === undefined ? {} : { cause }),
  });
}
