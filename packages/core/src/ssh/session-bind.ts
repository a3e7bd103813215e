import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { SESSION_BIND, SSH_AGENT } from './messages.ts';

const ALGORITHM = 'ssh-ed25519';
/** The key itself, at the end of the standard encoding of an Ed25519 public key. */
const PUBLIC_KEY_BYTES = 32;

/**
 * The message that tells an ssh-agent that this connection comes over a hop: OpenSSH's `session-bind` extension with
 * a key and a session of the bridge's own, marked as forwarding.
 *
 *   uint32 length, byte 27, string "session-bind@openssh.com",
 *   string host key, string session id, string signature of the session id, bool is_forwarding
 */
export function sessionBindMessage(): Buffer {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const rawKey = publicKey.export({ type: 'spki', format: 'der' }).subarray(-PUBLIC_KEY_BYTES);
  const session = randomBytes(32);
  const body = Buffer.concat([
    Buffer.of(SSH_AGENT.EXTENSION),
    text(SESSION_BIND),
    text(Buffer.concat([text(ALGORITHM), text(rawKey)])),
    text(session),
    text(Buffer.concat([text(ALGORITHM), text(sign(null, session, privateKey))])),
    Buffer.of(1),
  ]);
  return Buffer.concat([uint32(body.length), body]);
}

function text(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([uint32(bytes.length), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
