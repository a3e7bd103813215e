import { createHash } from 'node:crypto';
import { BridgeError } from '../errors.ts';
import { type Identity, parseIdentities } from '../ssh/identities.ts';
import { fingerprint } from '../ssh/key-blob.ts';
import { LIST_MESSAGE, SshMessageReader } from '../ssh/messages.ts';
import { printable } from '../text/escape.ts';
import type { HostSshAgent } from './ssh-agent.ts';

const LIST_TIMEOUT_MS = 5_000;
/** Keys that an error names. */
const MAX_SHOWN = 8;

/**
 * The keys of an agent that a person named, as fingerprints (`SHA256:…`) or, if that is what they said, comments.
 * A name may be a fingerprint in every form that ssh-keygen prints, a comment, or a public key in base64. One that
 * matches nothing is an error that says what is there.
 */
export async function resolveSshKeys(agent: HostSshAgent, names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return [];
  const identities = await listIdentities(agent);
  return [...new Set(names.flatMap((name) => matching(name, identities)))];
}

function matching(name: string, identities: readonly Identity[]): string[] {
  if (identities.some(({ comment }) => comment.toString() === name)) return [name];
  const found = identities.filter(({ blob }) => namesOf(blob).has(normal(name)));
  if (found.length > 0) return found.map(({ blob }) => fingerprint(blob));
  const shown = identities
    .slice(0, MAX_SHOWN)
    .map(({ blob, comment }) => `${fingerprint(blob)} (${printable(comment, 80)})`);
  throw new BridgeError('SSH_KEY_UNKNOWN', {
    what: `can't offer the SSH key ${printable(name, 100)}`,
    why: 'the ssh-agent has no such key',
    fix:
      shown.length === 0
        ? 'It has none at all: add one with `ssh-add`.'
        : `It has ${shown.join(', ')}${identities.length > MAX_SHOWN ? ', …' : ''}.`,
  });
}

/** Everything that a key can be called by, without its comment. */
function namesOf(blob: Buffer): Set<string> {
  const sha256 = fingerprint(blob);
  const md5 = createHash('md5').update(blob).digest('hex');
  return new Set([sha256, sha256.replace('SHA256:', ''), md5, normal(blob.toString('base64'))]);
}

/** Without what differs among the ways to print the same: padding, colons and the name of the old digest. */
function normal(name: string): string {
  const old = /^(?:MD5:)?((?:[0-9a-f]{2}:?){15}[0-9a-f]{2})$/i.exec(name)?.[1];
  return old ? old.replaceAll(':', '').toLowerCase() : name.replace(/=+$/, '');
}

/** The keys that an agent has. */
export async function listIdentities(agent: HostSshAgent): Promise<Identity[]> {
  const { socket } = await agent.connect();
  try {
    return await new Promise((resolve, reject) => {
      const reader = new SshMessageReader('agent');
      socket.setTimeout(LIST_TIMEOUT_MS, () => reject(noList('it does not answer')));
      socket.on('error', (error) => reject(noList(error.message)));
      socket.once('close', () => reject(noList('it closed the connection')));
      socket.on('data', (chunk: Buffer) => {
        try {
          // A socket that reads into a shared buffer hands out views of it.
          reader.push(Buffer.from(chunk), (answer) => resolve(parseIdentities(answer) ?? []));
        } catch (error) {
          reject(error);
        }
      });
      socket.write(LIST_MESSAGE);
    });
  } finally {
    socket.destroy();
  }
}

function noList(why: string): BridgeError {
  return new BridgeError('SSH_AGENT_MISSING', {
    what: "can't list the ssh-agent's keys",
    why,
    fix: 'See whether `ssh-add -l` works.',
  });
}
