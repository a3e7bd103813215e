import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { posix, win32 } from 'node:path';
import { BridgeError, type ErrorCode } from '../errors.ts';

/** Where to look for GnuPG, and with which environment to run it. */
export interface GnupgOptions {
  /** Only this directory is searched when it is set; PATH is then never consulted. */
  gpgBinDir?: string | undefined;
  env?: NodeJS.ProcessEnv | undefined;
  platform?: NodeJS.Platform | undefined;
}

/** The programs of GnuPG that the bridge runs itself. */
export type GnupgProgram = 'gpgconf' | 'gpg' | 'gpgsm';

const MISSING: Record<GnupgProgram, ErrorCode> = {
  gpgconf: 'GPGCONF_MISSING',
  gpg: 'GPG_MISSING',
  gpgsm: 'GPG_MISSING',
};

const INSTALL: Partial<Record<NodeJS.Platform, string>> = {
  win32: 'Install Gpg4win (https://gpg4win.org), or set gpgBinDir to the directory that holds gpgconf.exe.',
  darwin:
    'Install GnuPG (`brew install gnupg`, or GPG Suite), or set gpgBinDir to the directory that holds gpgconf.',
};
const INSTALL_ELSEWHERE =
  'Install GnuPG (`apt install gnupg`, `dnf install gnupg2`), or set gpgBinDir to the directory that holds gpgconf.';

/** Finds a program of GnuPG and returns its absolute path. */
export async function findProgram(name: GnupgProgram, options: GnupgOptions = {}): Promise<string> {
  const platform = options.platform ?? process.platform;
  const path = platform === 'win32' ? win32 : posix;
  const file = platform === 'win32' ? `${name}.exe` : name;
  const directories = options.gpgBinDir
    ? [options.gpgBinDir]
    : searchDirectories(options.env ?? process.env, platform);
  for (const directory of directories) {
    const candidate = path.join(directory, file);
    if (await isProgram(candidate)) return candidate;
  }
  throw new BridgeError(MISSING[name], {
    what: `can't find ${name}`,
    why: options.gpgBinDir
      ? `there is no program ${file} in gpgBinDir (${options.gpgBinDir})`
      : 'it is neither on PATH nor in the usual places',
    fix: options.gpgBinDir
      ? `Correct the gpgBinDir setting, or clear it to search PATH.`
      : (INSTALL[platform] ?? INSTALL_ELSEWHERE),
  });
}

/** The directories searched without a gpgBinDir: PATH first, then where installers put GnuPG. */
export function searchDirectories(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string[] {
  const path = platform === 'win32' ? win32 : posix;
  // A relative entry of PATH would let the current directory decide which gpgconf runs.
  const fromPath = (variable(env, 'PATH', platform) ?? '')
    .split(path.delimiter)
    .filter((directory) => path.isAbsolute(directory));
  return [...new Set([...fromPath, ...usualPlaces(env, platform)])];
}

function usualPlaces(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string[] {
  switch (platform) {
    case 'win32':
      // Gpg4win installs its own programs in Gpg4win and GnuPG beside it; both are 32-bit up to version 4.
      return ['ProgramFiles(x86)', 'ProgramFiles', 'ProgramW6432'].flatMap((name) => {
        const base = variable(env, name, platform);
        return base ? [win32.join(base, 'GnuPG', 'bin'), win32.join(base, 'Gpg4win', 'bin')] : [];
      });
    case 'darwin':
      // GPGTools, Homebrew on Apple silicon, Homebrew on Intel, MacPorts. An editor started from the
      // Dock has none of them on its PATH.
      return ['/usr/local/MacGPG2/bin', '/opt/homebrew/bin', '/usr/local/bin', '/opt/local/bin', '/usr/bin'];
    default:
      return ['/usr/local/bin', '/usr/bin', '/bin', '/home/linuxbrew/.linuxbrew/bin'];
  }
}

/** Names of variables have no case on Windows, but a copied environment is an ordinary object. */
function variable(env: NodeJS.ProcessEnv, name: string, platform: NodeJS.Platform): string | undefined {
  if (platform !== 'win32') return env[name];
  const key = Object.keys(env).find((candidate) => candidate.toUpperCase() === name.toUpperCase());
  return key === undefined ? undefined : env[key];
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
