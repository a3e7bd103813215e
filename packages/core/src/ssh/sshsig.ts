import { FieldReader } from './key-blob.ts';

/** The facts of an SSHSIG signature, which `ssh-keygen -Y sign` and git make (OpenSSH's PROTOCOL.sshsig). */
export interface SshsigRequest {
  kind: 'signature';
  /** What the signature is for: `git`, `file`, … */
  namespace: string;
  hashAlgorithm: string;
  digest: Buffer;
}

const MAGIC = Buffer.from('SSHSIG');
const DIGEST_BYTES: Readonly<Partial<Record<string, number>>> = { sha256: 32, sha512: 64 };

/** Reads data that is to be signed as SSHSIG; undefined unless it is exactly that. */
export function parseSshsig(data: Buffer): SshsigRequest | undefined {
  if (!data.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
  const fields = new FieldReader(data.subarray(MAGIC.length));
  const namespace = fields.string()?.toString();
  const reserved = fields.string();
  const hashAlgorithm = fields.string()?.toString('latin1');
  const digest = fields.string();
  if (!namespace || reserved?.length !== 0 || !hashAlgorithm || !digest || !fields.atEnd) return undefined;
  if (!Object.hasOwn(DIGEST_BYTES, hashAlgorithm) || digest.length !== DIGEST_BYTES[hashAlgorithm])
    return undefined;
  return { kind: 'signature', namespace, hashAlgorithm, digest };
}
