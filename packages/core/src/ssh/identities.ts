import { encodeString, FieldReader, fingerprint } from './key-blob.ts';
import { SSH_AGENT, SshMessage } from './messages.ts';

/** One key an agent has. */
export interface Identity {
  blob: Buffer;
  comment: Buffer;
}

/** The keys of an identities answer; undefined when the message is something else, or malformed. */
export function parseIdentities(message: SshMessage): Identity[] | undefined {
  if (message.type !== SSH_AGENT.IDENTITIES_ANSWER) return undefined;
  const reader = new FieldReader(message.contents);
  const count = reader.uint32();
  if (count === undefined) return undefined;
  const identities: Identity[] = [];
  for (let left = count; left > 0; left -= 1) {
    const blob = reader.string();
    const comment = reader.string();
    if (!blob || !comment) return undefined;
    identities.push({ blob, comment });
  }
  return reader.atEnd ? identities : undefined;
}

/** The identities answer for these keys. */
export function encodeIdentities(identities: readonly Identity[]): SshMessage {
  const count = Buffer.allocUnsafe(4);
  count.writeUInt32BE(identities.length);
  const fields = identities.flatMap(({ blob, comment }) => [encodeString(blob), encodeString(comment)]);
  return SshMessage.of(SSH_AGENT.IDENTITIES_ANSWER, Buffer.concat([count, ...fields]));
}

/** The keys that a person chose, by fingerprint (`SHA256:…`) or by comment. */
export class KeyChoice {
  readonly #fingerprints = new Set<string>();
  readonly #comments = new Set<string>();
  /** Fingerprints of keys whose comment was chosen, as far as a list has shown them. */
  #byComment = new Set<string>();

  constructor(keys: readonly string[]) {
    for (const key of keys) {
      if (key.startsWith('SHA256:')) this.#fingerprints.add(key.replace(/=+$/, ''));
      else this.#comments.add(key);
    }
  }

  /** Whether a list of the agent's keys can change what is allowed. */
  get dependsOnComments(): boolean {
    return this.#comments.size > 0;
  }

  /** Keeps the chosen ones of all keys the agent has, and remembers them. */
  narrow(identities: readonly Identity[]): Identity[] {
    const commented = identities.filter(({ comment }) => this.#comments.has(comment.toString('utf8')));
    this.#byComment = new Set(commented.map(({ blob }) => fingerprint(blob)));
    return identities.filter(({ blob }) => this.allows(fingerprint(blob)));
  }

  /** Whether the key with this fingerprint may be used. */
  allows(keyFingerprint: string): boolean {
    return this.#fingerprints.has(keyFingerprint) || this.#byComment.has(keyFingerprint);
  }
}
