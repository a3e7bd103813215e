import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { imageCacheDir } from '../engine/images.ts';

/** Where `scripts/windows.sh` leaves what it makes. */
const DIRECTORY = join(imageCacheDir(), 'windows-1');

/** The versions of Node for Windows that are there. */
export const NODE_VERSIONS = ['20', '22'] as const;

/** One of them. */
export type WindowsNode = (typeof NODE_VERSIONS)[number];

/** Whether everything has been made. */
export function hasWindows(): boolean {
  return existsSync(join(DIRECTORY, 'complete'));
}

/** The directory in which Wine keeps its disk C:. */
export const WINE_PREFIX = join(DIRECTORY, 'prefix');

/** The directory of GnuPG's programs. */
export const GNUPG_BIN = join(DIRECTORY, 'gnupg/bin');

/** The program that stands for others, see stand-in.c. */
export const STAND_IN = join(DIRECTORY, 'stand-in.exe');

/** Node for Windows. */
export function nodeForWindows(version: WindowsNode): string {
  return join(DIRECTORY, `node-${version}`, 'node.exe');
}

/** A path of this machine as programs in Wine see it. */
export function windowsPath(path: string): string {
  return `Z:${path.replaceAll('/', '\\')}`;
}
