import { createHash } from 'node:crypto';
import { ask } from '../assuan/ask.ts';
import { GREETING_TIMEOUT_MS } from '../assuan/greeting.ts';
import { BridgeError } from '../errors.ts';
import { launchAgent, listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { parseIdentities } from '../ssh/identities.ts';
import { fingerprint } from '../ssh/key-blob.ts';
import { LIST_MESSAGE } from '../ssh/messages.ts';
import { askSshAgent } from './ask-ssh-agent.ts';
import { type AgentConnection, connectToAgent } from './connect.ts';

/** A private key that gpg-agent has. */
export interface AgentKey {
  keygrip: string;
  /** The fingerprint under which an ssh-agent would offer it, `SHA256:…`; undefined if it can't be an SSH key. */
  ssh: string | undefined;
  /** Whether gpg-agent offers it over SSH. */
  isOfferedOverSsh: boolean;
}

/** `KEYINFO GRIP TYPE SERIALNO IDSTR CACHED PROTECTION FPR TTL FLAGS`; the flag S: it is in sshcontrol. */
const KEYINFO_LINE = /^S KEYINFO ([0-9A-F]{40}) \S+ \S+ \S+ \S+ \S+ (\S+) \S+ (\S+)/gm;

/** The private keys of gpg-agent, asked on its main socket: the restricted one tells less. */
export async function listAgentKeys(options: GnupgOptions): Promise<AgentKey[]> {
  const keyInfo = await askMainSocket('KEYINFO --list --with-ssh --ssh-fpr=sha256', options);
  const offered = await offeredOverSsh(options);
  return [...keyInfo.matchAll(KEYINFO_LINE)].map(([, keygrip, print, flags]) => {
    const isListed = print !== undefined && offered.has(print);
    return {
      keygrip: keygrip!,
      ssh: offered.get(print!) ?? (print?.startsWith('SHA256:') ? print : undefined),
      isOfferedOverSsh: isListed || flags!.includes('S'),
    };
  });
}

async function askMainSocket(command: string, options: GnupgOptions): Promise<string> {
  const { socket, preamble, earlyCloseError } = await connectToMainSocket(options);
  try {
    if (preamble.length > 0) socket.write(preamble);
    const { responses } = await ask(socket, [command], { timeoutMs: GREETING_TIMEOUT_MS, earlyCloseError });
    const [answer] = responses;
    if (answer?.word === 'OK') return answer.bytes.toString('latin1');
    throw new BridgeError('BAD_RESPONSE', {
      what: "can't list the private keys of gpg-agent",
      why: answer?.bytes.toString('latin1').trim() ?? 'it did not answer',
      fix: 'Check that `gpg-connect-agent "KEYINFO --list" /bye` works on the host.',
    });
  } finally {
    socket.destroy();
  }
}

async function connectToMainSocket(options: GnupgOptions): Promise<AgentConnection> {
  const path = await listDir('agent-socket', options);
  const { env, platform } = options;
  try {
    return await connectToAgent(path, { env, platform, waitForStart: false });
  } catch {
    await launchAgent(options);
    return connectToAgent(path, { env, platform, waitForStart: true });
  }
}

/**
 * The keys that gpg-agent lists over SSH, by their fingerprints in both forms: those in sshcontrol, those with
 * `Use-for-ssh`, and those on cards.
 */
async function offeredOverSsh(options: GnupgOptions): Promise<Map<string, string>> {
  const { env, platform = process.platform } = options;
  // gpg-agent makes the socket file there, and serves SSH by a pipe alone; those in sshcontrol have their flag.
  if (platform === 'win32') return new Map();
  const path = await listDir('agent-ssh-socket', options);
  const connection = await connectToAgent(path, { env, platform, waitForStart: false }).catch((error) => {
    if (error instanceof BridgeError && NO_SSH_SUPPORT.has(error.code)) return undefined;
    throw error;
  });
  if (!connection) return new Map();
  const { socket, preamble } = connection;
  try {
    if (preamble.length > 0) socket.write(preamble);
    const identities = parseIdentities(await askSshAgent(socket, LIST_MESSAGE)) ?? [];
    return new Map(
      identities.flatMap(({ blob }) => [
        [fingerprint(blob), fingerprint(blob)] as const,
        [md5Fingerprint(blob), fingerprint(blob)] as const,
      ]),
    );
  } finally {
    socket.destroy();
  }
}

/** What a gpg-agent without `enable-ssh-support` has at its ssh socket's path. */
const NO_SSH_SUPPORT: ReadonlySet<string> = new Set(['AGENT_SOCKET_MISSING', 'AGENT_UNREACHABLE']);

/** The form that a GnuPG has which takes no algorithm for `--ssh-fpr`. */
function md5Fingerprint(blob: Buffer): string {
  const digest = createHash('md5').update(blob).digest('hex');
  return `MD5:${digest.match(/../g)!.join(':')}`;
}
