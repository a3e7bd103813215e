import { appendFileSync, readFileSync } from 'node:fs';
import { arch } from 'node:os';
import { runOk } from './process.ts';

/** What is not ours and was run for real, as docs/platforms.md names it. */
export const PARTS = {
  host: 'a host',
  node: 'Node.js on the host',
  gnupg: 'GnuPG on the host',
  'gnupg-agent': 'a gpg-agent of another version on the host',
  'ssh-agent': 'OpenSSH’s ssh-agent on the host',
  wine: 'Wine, as a Windows host',
  'windows-node': 'Node.js for Windows on that',
  'windows-gnupg': 'GnuPG for Windows on that',
  systemd: 'systemd of a user',
  chromium: 'a browser for VS Code: Chromium',
  vscode: 'VS Code in a browser',
  docker: 'Docker, over the local socket of its engine and over its command',
  'docker-newer': 'Docker of Debian 13, over the local socket of its engine',
  compose: 'docker-compose',
  devcontainers: 'the command of Dev Containers',
  'docker-tcp': 'Docker on TCP, plain and with TLS, also by a context',
  'docker-ssh': 'Docker behind ssh, by DOCKER_HOST and by a context',
  'docker-rootless': 'Docker started by a user, found by its context',
  podman: 'Podman, over the local socket of its service and over its command',
  'podman-rootless': 'Podman started by a user, found by its runtime directory',
  'podman-connection': 'Podman as `podman machine` leaves it: a connection over ssh to a port of the host',
  'podman-as-docker': 'Podman’s socket in the place of Docker’s',
  kubernetes: 'Kubernetes, two clusters of one node',
  sshd: 'OpenSSH’s sshd',
  'image-plain': 'a container of Debian 12 with perl-base alone',
  'image-git': 'a container of Debian 12 with git and Perl',
  'image-node': 'a container of Debian 12 with Node.js',
  'image-none': 'a container of Debian 12 without Perl and Node.js',
  'image-busybox': 'a container with busybox, GnuPG and git alone',
  'image-trixie': 'a container of Debian 13',
  'server-perl': 'the socket server on Perl',
  'server-node': 'the socket server on Node.js',
  'server-native': 'the socket server that needs nothing, natively',
  'server-emulated': 'the socket server that needs nothing, for the other architecture, under QEMU',
} as const;

/** One of them. */
export type Part = keyof typeof PARTS;

/** The file that a run notes them in; without it nothing is noted. */
const VARIABLE = 'GPG_BRIDGE_TESTED_WITH';
const noted = new Set<string>();

/** Notes that tests of this run use a part; its version is asked for once in a process, and only if it is noted. */
export async function testedWith(
  part: Part,
  version: string | (() => string | Promise<string>),
): Promise<void> {
  const file = process.env[VARIABLE];
  const key = typeof version === 'string' ? `${part} ${version}` : part;
  if (!file || noted.has(key)) return;
  noted.add(key);
  try {
    const found = typeof version === 'string' ? version : await version();
    // A line is short enough to be written at once beside those of other processes.
    appendFileSync(file, `${JSON.stringify({ part, version: found })}\n`);
  } catch {
    noted.delete(key); // a container in which nothing more can be run: another one will tell
  }
}

/** The first number with dots that a program prints when it is asked for its version. */
export async function versionOf(program: string, ...args: string[]): Promise<string> {
  const printed = await runOk('sh', ['-c', 'exec "$@" 2>&1', 'sh', program, ...args]);
  return firstVersion(printed);
}

/** The first number with dots in a text, with what belongs to it. */
export function firstVersion(text: string): string {
  return /\d+\.\d+(?:\.\d+)*(?:p\d+)?/.exec(text)?.[0] ?? 'unknown';
}

/** The system that the tests run on, and the Node.js that runs them. */
export async function testedHere(): Promise<void> {
  await testedWith('host', () => {
    const release = readFileSync('/etc/os-release', 'utf8');
    const word = (name: string) => new RegExp(`^${name}="?([^"\n]*)`, 'm').exec(release)?.[1] ?? '';
    return `${word('NAME')} ${word('VERSION_ID')}, ${arch()}`;
  });
  await testedWith('node', () => process.versions.node);
  await testedWith('gnupg', () => versionOf('gpg', '--version'));
}
