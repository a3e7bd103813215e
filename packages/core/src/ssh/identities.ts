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

/** Which of an agent's keys are offered. */
export type KeyChoice = (identity: Identity) => boolean;

/** The keys that every one of these choices has. */
export function allOf(...choices: readonly (KeyChoice | undefined)[]): KeyChoice {
  return (identity) => choices.every((isChosen) => isChosen?.(identity) ?? true);
}

/** The keys that a person named by fingerprint (`SHA256:…`) or comment. */
export function chosenKeys(names: readonly string[]): KeyChoice {
  const [prints, comments] = [new Set<string>(), new Set<string>()];
  for (const name of names) {
    if (name.startsWith('SHA256:')) prints.add(name.replace(/=+$/, ''));
    else comments.add(name);
  }
  return ({ blob, comment }) => prints.has(fingerprint(blob)) || comments.has(comment.toString());
}
