import { certifiedKey, FieldReader } from './key-blob.ts';

/** The facts of a login that is to be signed (RFC 4252, section 7). */
export interface UserAuthRequest {
  kind: 'login';
  sessionId: Buffer;
  user: string;
  service: string;
  method: string;
  /** The signature algorithm, which for RSA is not the type of the key. */
  algorithm: string;
  /** The key that the server is to check: the one that signs, or a certificate of it. */
  key: Buffer;
  /** The server's host key; only `publickey-hostbound-v00@openssh.com` has one. */
  hostKey?: Buffer;
}

const SSH_MSG_USERAUTH_REQUEST = 50;
const SERVICE = 'ssh-connection';
const HOST_BOUND = 'publickey-hostbound-v00@openssh.com';
const METHODS: ReadonlySet<string> = new Set(['publickey', HOST_BOUND]);
/** A session id is the first exchange hash: SHA-1, SHA-256, SHA-384 or SHA-512. */
const SESSION_ID_BYTES: ReadonlySet<number> = new Set([20, 32, 48, 64]);

/** Reads data as a login with `signer`; undefined unless it is exactly that. */
export function parseUserAuth(data: Buffer, signer: Buffer): UserAuthRequest | undefined {
  const fields = new FieldReader(data);
  const sessionId = fields.string();
  const type = fields.byte();
  const user = fields.string()?.toString();
  const service = fields.string()?.toString('latin1');
  const method = fields.string()?.toString('latin1') ?? '';
  const hasSignature = fields.byte();
  const algorithm = fields.string()?.toString('latin1');
  const key = fields.string();
  const hostKey = method === HOST_BOUND ? fields.string() : undefined;
  if (!sessionId || !SESSION_ID_BYTES.has(sessionId.length) || type !== SSH_MSG_USERAUTH_REQUEST)
    return undefined;
  if (!user || service !== SERVICE || !METHODS.has(method) || hasSignature !== 1) return undefined;
  if (!algorithm || !key || !isKeyOf(key, signer) || !fields.atEnd) return undefined;
  if (method === HOST_BOUND && !hostKey?.length) return undefined;
  return { kind: 'login', sessionId, user, service, method, algorithm, key, ...(hostKey ? { hostKey } : {}) };
}

/** ssh has a plain key of the agent sign for a certificate that it read from a file. */
function isKeyOf(key: Buffer, signer: Buffer): boolean {
  return key.equals(signer) || (certifiedKey(key)?.equals(signer) ?? false);
}
