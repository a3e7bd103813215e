import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { awaitAnswers } from '../assuan/await-answers.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { identityOf, sameIdentity } from '../fs/socket-identity.ts';
import { listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { writeNow } from '../io/write-now.ts';
import { type ConnectOptions, connectToAgent } from './connect.ts';
import { type OpenedAgent, openAgent } from './open-agent.ts';
import { MAX_SOCKET_FILE, nodeFileSystem, parseSocketFile } from './socket-file.ts';

/** What gpg-agent calls its sockets in every home directory. */
const [SSH_SOCKET, MAIN_SOCKET] = ['S.gpg-agent.ssh', 'S.gpg-agent'];
const TIMEOUT_MS = 5_000;
const SSH_FINGERPRINT = /^S KEYINFO [0-9A-F]{40} .* (SHA256:[A-Za-z0-9+/]{43}) /m;

/** A gpg-agent that is the ssh-agent. */
export interface GpgAgentBehind {
  mainSocket: string;
  /** Whether its home directory is that of these options: what gpg says of keys holds for its keys. */
  isOwn: boolean;
}

/** Where a connection to a path leads: one redirect of libassuan's is followed, as by `connectToAgent`. */
export async function leadsTo(path: string, { env, platform, fileSystem }: ConnectOptions): Promise<string> {
  if ((platform ?? process.platform) === 'win32') return path; // redirects are for Unix systems alone
  try {
    const content = await (fileSystem ?? nodeFileSystem).read(path, MAX_SOCKET_FILE + 1);
    if (typeof content === 'string') return path;
    const file = parseSocketFile(path, content, env ?? process.env);
    return file.kind === 'redirect' ? file.path : path;
  } catch {
    return path; // connecting says what is wrong with it
  }
}

/**
 * The gpg-agent that listens at an ssh-agent's socket; undefined if another program does. A gpg-agent with another
 * home directory is known by the name of its socket.
 */
export async function gpgAgentBehind(
  sshSocket: string,
  options: GnupgOptions & ConnectOptions = {},
): Promise<GpgAgentBehind | undefined> {
  const behind = await leadsTo(sshSocket, options);
  const [there, own] = await Promise.all([
    identityOf(behind),
    listDir('agent-ssh-socket', options)
      .then((path) => leadsTo(path, options))
      .then(identityOf, () => undefined),
  ]);
  if (there && own && sameIdentity(there, own))
    return { mainSocket: await listDir('agent-socket', options), isOwn: true };
  for (const place of new Set([sshSocket, behind])) {
    const path = await realpath(place).catch(() => place);
    if (basename(path) === SSH_SOCKET) return { mainSocket: join(dirname(path), MAIN_SOCKET), isOwn: false };
  }
  return undefined;
}

/** The SSH fingerprints of the keys with these keygrips, as gpg-agent tells them; a key it does not have has none. */
export async function sshFingerprints(
  mainSocket: string,
  keygrips: ReadonlySet<string>,
  options: ConnectOptions = {},
): Promise<ReadonlySet<string>> {
  const { socket } = await new Promise<OpenedAgent>((opened, failed) =>
    openAgent(() => connectToAgent(mainSocket, options), { opened, failed }),
  );
  socket.on('error', () => {}); // shows as a missing answer
  try {
    const lines = [...keygrips].map((grip) => `KEYINFO --ssh-fpr=sha256 ${grip}\n`);
    const answers = await new Promise<readonly Block[]>((answered, failed) => {
      awaitAnswers(socket, lines.length, TIMEOUT_MS, { answered, failed });
      writeNow(socket, Buffer.from(lines.join('')));
    });
    const prints = answers.map(({ bytes }) => SSH_FINGERPRINT.exec(bytes.toString('latin1'))?.[1]);
    return new Set(prints.filter((print) => print !== undefined));
  } finally {
    socket.destroy();
  }
}
