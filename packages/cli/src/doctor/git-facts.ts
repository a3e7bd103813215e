import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import { printable } from '@gpg-bridge/core/text/escape';
import { versionIn } from './versions.ts';

/** A setting of git, and the file that it is in. */
export interface GitSetting {
  value: string;
  file: string;
}

/** What git in a target is told about signatures. */
export interface GitFacts {
  version: string | undefined;
  /** By their names in lower case. */
  settings: ReadonlyMap<string, GitSetting>;
  /** The program that git signs with is there; undefined where none is set. */
  programRuns: boolean | undefined;
  /** What the file in user.signingkey holds, for a format that takes files. */
  signingKeyFile: string | undefined;
}

/** Settings whose values are looked at; others may hold secrets, and are not kept. */
const WANTED = new Set([
  'user.name',
  'user.email',
  'user.signingkey',
  'commit.gpgsign',
  'gpg.format',
  'gpg.program',
  'gpg.openpgp.program',
  'gpg.ssh.program',
  'gpg.ssh.defaultkeycommand',
]);
const MAX_VALUE = 300;

/** The setting that names the program for a format. */
export function programSetting({ settings }: Pick<GitFacts, 'settings'>): [string, GitSetting] | undefined {
  const names =
    settings.get('gpg.format')?.value === 'ssh'
      ? ['gpg.ssh.program']
      : ['gpg.openpgp.program', 'gpg.program'];
  for (const name of names) {
    const setting = settings.get(name);
    if (setting) return [name, setting];
  }
  return undefined;
}

/** Reads the settings that hold for the user everywhere, as git in their home sees them; rejects without a git. */
export async function collectGitFacts(operations: TargetOperations): Promise<GitFacts> {
  const { home } = operations.facts;
  const git = async (...args: string[]) =>
    (await operations.run({ program: 'git', args, timeoutSeconds: 10 })).stdout.toString();
  const [version, listing] = await Promise.all([
    git('--version'),
    git('-C', home, 'config', '--null', '--show-origin', '--list'),
  ]);
  const settings = parseSettings(listing);
  const program = programSetting({ settings })?.[1].value;
  const key = settings.get('user.signingkey')?.value;
  const [found, keyFile] = await Promise.all([
    program === undefined
      ? undefined
      : operations.run({
          program: 'sh',
          args: ['-c', 'command -v "$1" >/dev/null', 'sh', inHome(program, home)],
        }),
    key !== undefined && settings.get('gpg.format')?.value === 'ssh'
      ? operations.read(inHome(key, home)).then(String, () => undefined)
      : undefined,
  ]);
  return {
    version: versionIn(version),
    settings,
    programRuns: found && found.status === 0,
    signingKeyFile: keyFile,
  };
}

/** A path of git's, which may begin with a tilde. */
function inHome(path: string, home: string): string {
  return path.replace(/^~(?=\/)/, () => home);
}

/** What `git config --null --show-origin --list` prints: origin, NUL, name, LF, value, NUL. The last one holds. */
function parseSettings(listing: string): Map<string, GitSetting> {
  const fields = listing.split('\0');
  const settings = new Map<string, GitSetting>();
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [, name = '', value = 'true'] = /^([^\n]*)(?:\n(.*))?$/s.exec(fields[at + 1]!) ?? [];
    if (!WANTED.has(name)) continue;
    const file = fields[at]!.replace(/^file:/, '');
    settings.set(name, { value: printable(value, MAX_VALUE), file: printable(file, MAX_VALUE) });
  }
  return settings;
}
