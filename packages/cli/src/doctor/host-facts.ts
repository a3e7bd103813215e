import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { ask } from '@gpg-bridge/core/assuan/ask';
import { percentDecode } from '@gpg-bridge/core/assuan/percent';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { configuredPath } from '@gpg-bridge/core/gnupg/agent-conf';
import { listDir, pinentryProgram } from '@gpg-bridge/core/gnupg/gpgconf';
import type { KeyDetails } from '@gpg-bridge/core/gnupg/key-listing';
import { findProgram, type GnupgProgram } from '@gpg-bridge/core/gnupg/programs';
import { gpgRunner, secretKeys } from '@gpg-bridge/core/gnupg/run-gpg';
import { connectToAgent } from '@gpg-bridge/core/host/connect';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import { listIdentities } from '@gpg-bridge/core/host/ssh-keys';
import { runProgram } from '@gpg-bridge/core/process/run-program';
import { fingerprint } from '@gpg-bridge/core/ssh/key-blob';
import { printable } from '@gpg-bridge/core/text/escape';
import { type BridgeOptions, givenGpgSocket } from '../bridge-options.ts';
import { bridgeFiles, stateDirectory } from '../daemon/state-dir.ts';
import { versionIn } from './versions.ts';

/** Something that was looked for: what was found, or why it was not. */
export type Looked<T> = { found: T; error?: undefined } | { found?: undefined; error: BridgeError };

/** A program and what it calls its version. */
export interface ProgramFacts {
  path: string;
  version: string | undefined;
}

/** The mode and owner of a directory. */
export interface DirectoryFacts {
  path: string;
  mode: number;
  isOwn: boolean;
}

/** What gpg-agent's main socket tells. */
export interface AgentFacts {
  version: string | undefined;
  /** It was not running before it was looked for. */
  wasStarted: boolean;
  /** The variables that it gives a pinentry for clients that may not set them, such as those of a bridge. */
  startupEnv: ReadonlyMap<string, string>;
}

/** The program that asks for passphrases. */
export interface PinentryFacts {
  path: string;
  /** gpg-agent.conf names it. */
  isConfigured: boolean;
  canRun: boolean;
  /** The name behind all links: `pinentry-curses`. */
  name: string;
}

/** A key of the ssh-agent. */
export interface SshKeyFacts {
  fingerprint: string;
  comment: string;
  /** As it stands in a .pub file. */
  base64: string;
}

/** Everything that is known about this machine. */
export interface HostFacts {
  env: NodeJS.ProcessEnv;
  gpg: Looked<ProgramFacts>;
  gpgconf: Looked<ProgramFacts>;
  home: DirectoryFacts | undefined;
  agent: Looked<AgentFacts>;
  /** Where the restricted socket is, after a check that it is that. */
  extraSocket: Looked<string>;
  keys: Looked<KeyDetails[]>;
  pinentry: PinentryFacts | undefined;
  sshAgent: Looked<{ path: string; keys: SshKeyFacts[] }>;
  state: { path: string; problem: string | undefined; fix: string };
  /** The agents' own sockets, by which a target that has mounted them is recognised. */
  sockets: SocketIdentity[];
}

const QUESTION_MS = 5_000;

/** Looks at this machine. What `up` would start, a gpg-agent, is started; nothing else is changed. */
export async function collectHostFacts(
  { gpgSocket, sshFromGpg }: Pick<BridgeOptions, 'gpgSocket' | 'sshFromGpg'> = {},
  env: NodeJS.ProcessEnv = process.env,
): Promise<HostFacts> {
  const extra = new HostGpgAgent({ socketPath: givenGpgSocket({ gpgSocket }) });
  const ssh = new HostSshAgent({ fromGpg: sshFromGpg ?? false });
  const [gpg, gpgconf, isRunning] = await Promise.all([
    program('gpg'),
    program('gpgconf'),
    mainSocketAnswers(),
  ]);
  // The check of the extra socket starts the agent, so the main one is asked after it.
  const extraSocket = await looked(async () => {
    (await extra.connect()).socket.destroy();
    return extra.socketPath();
  }, "gpg-agent can't be reached");
  const [agent, keys, pinentry, sshAgent, sockets] = await Promise.all([
    looked(() => agentFacts(!isRunning), "gpg-agent can't be asked"),
    looked(async () => secretKeys(await gpgRunner({}, noKeys), noKeys), "can't list the private keys"),
    pinentryFacts().catch(() => undefined),
    looked(() => sshAgentFacts(ssh), "the ssh-agent can't be asked"),
    Promise.all([extra.identities().catch(() => []), ssh.identities().catch(() => [])]),
  ]);
  return {
    env,
    gpg,
    gpgconf,
    home: directoryFacts(await listDir('homedir').catch(() => '')),
    agent,
    extraSocket,
    keys,
    pinentry,
    sshAgent,
    state: stateFacts(stateDirectory(env)),
    sockets: sockets.flat(),
  };
}

/** The result of a look, or the error that it ended with. */
export async function looked<T>(look: () => Promise<T>, what: string): Promise<Looked<T>> {
  try {
    return { found: await look() };
  } catch (error) {
    return { error: toBridgeError(error, what) };
  }
}

function program(name: GnupgProgram): Promise<Looked<ProgramFacts>> {
  return looked(async () => {
    const path = await findProgram(name);
    const { stdout } = await runProgram(path, ['--version']);
    return { path, version: versionIn(stdout.toString()) };
  }, `can't run ${name}`);
}

async function connectMain() {
  return connectToAgent(await listDir('agent-socket'), { waitForStart: false });
}

async function mainSocketAnswers(): Promise<boolean> {
  try {
    (await connectMain()).socket.destroy();
    return true;
  } catch {
    return false;
  }
}

async function agentFacts(wasStarted: boolean): Promise<AgentFacts> {
  const { socket, preamble, earlyCloseError } = await connectMain();
  try {
    if (preamble.length > 0) socket.write(preamble);
    const questions = ['GETINFO version', 'GETINFO std_startup_env'];
    const { responses } = await ask(socket, questions, { timeoutMs: QUESTION_MS, earlyCloseError });
    const [version = '', environment = ''] = responses.map(({ bytes }) => dataIn(bytes));
    const variables = environment.split('\0').flatMap((entry): [string, string][] => {
      const [, name, value] = /^(\w+)=(.*)$/s.exec(entry) ?? [];
      return name && value ? [[name, value]] : [];
    });
    return { version: versionIn(version), wasStarted, startupEnv: new Map(variables) };
  } finally {
    socket.destroy();
  }
}

function dataIn(response: Buffer): string {
  const lines = response.toString('latin1').split('\n');
  const data = lines.filter((line) => line.startsWith('D ')).map((line) => line.slice(2));
  return percentDecode(Buffer.from(data.join(''), 'latin1')).toString();
}

async function pinentryFacts(): Promise<PinentryFacts | undefined> {
  const configured = await configuredPath('pinentry-program');
  const path = configured ?? (await pinentryProgram());
  if (path === undefined) return undefined;
  let [canRun, name] = [true, basename(path)];
  try {
    accessSync(path, constants.X_OK);
    name = basename(realpathSync(path));
  } catch {
    canRun = false;
  }
  return { path, isConfigured: configured !== undefined, canRun, name };
}

async function sshAgentFacts(agent: HostSshAgent): Promise<{ path: string; keys: SshKeyFacts[] }> {
  const path = await agent.socketPath();
  const keys = (await listIdentities(agent)).map(({ blob, comment }) => ({
    fingerprint: fingerprint(blob),
    comment: printable(comment, 80),
    base64: blob.toString('base64'),
  }));
  return { path, keys };
}

function directoryFacts(path: string): DirectoryFacts | undefined {
  try {
    const { mode, uid } = statSync(path);
    return { path, mode: mode & 0o7777, isOwn: !process.getuid || uid === process.getuid() };
  } catch {
    return undefined;
  }
}

function stateFacts(path: string): HostFacts['state'] {
  const move = 'export GPG_BRIDGE_STATE_DIR=~/.gpg-bridge';
  try {
    bridgeFiles(path, ''); // whether a socket there has too long a path
  } catch (error) {
    return { path, problem: (error as BridgeError).why, fix: move };
  }
  const directory = directoryFacts(path);
  if (!directory) return { path, problem: undefined, fix: '' }; // the first bridge makes it
  if (!directory.isOwn) return { path, problem: 'it belongs to another user', fix: move };
  const isOpen = process.platform !== 'win32' && (directory.mode & 0o077) !== 0;
  const shown = directory.mode.toString(8);
  return {
    path,
    problem: isOpen ? `others may look into it (mode ${shown})` : undefined,
    fix: `chmod 700 ${path}`,
  };
}

function noKeys(why: string, cause?: unknown): BridgeError {
  const fix = 'See whether `gpg --list-secret-keys` works.';
  return new BridgeError('GPG_KEY_UNKNOWN', { what: "can't list the private keys", why, fix, cause });
}
