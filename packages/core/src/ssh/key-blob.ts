import { createHash } from 'node:crypto';

/** Reads the `string` fields (uint32 length, bytes) of SSH data one after another. */
export class FieldReader {
  #at = 0;

  constructor(private readonly bytes: Buffer) {}

  /** The next field; undefined where the data does not hold one. */
  string(): Buffer | undefined {
    const length = this.uint32();
    if (length === undefined || this.#at + length > this.bytes.length) return undefined;
    return this.bytes.subarray(this.#at, (this.#at += length));
  }

  uint32(): number | undefined {
    if (this.#at + 4 > this.bytes.length) return undefined;
    const value = this.bytes.readUInt32BE(this.#at);
    this.#at += 4;
    return value;
  }

  byte(): number | undefined {
    return this.bytes[this.#at++];
  }

  get atEnd(): boolean {
    return this.#at === this.bytes.length;
  }
}

const WITHOUT_DIGEST: ReadonlySet<string> = new Set(['ssh-ed25519', 'ssh-ed448']);

/** Whether a key signs data as it is, and not a digest of it: then no SSH data is also the digest of an OpenPGP document. */
export function signsWithoutDigest(blob: Buffer): boolean {
  return WITHOUT_DIGEST.has(new FieldReader(blob).string()?.toString('latin1') ?? '');
}

/** The bytes of a `string` field. */
export function encodeString(value: Buffer | string): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

const CERTIFICATE_SUFFIX = '-cert-v01@openssh.com';

/** How many fields the public key has inside a certificate of that type (PROTOCOL.certkeys). */
const KEY_FIELDS: Partial<Record<string, number>> = {
  'ssh-rsa': 2,
  'ssh-dss': 4,
  'ssh-ed25519': 1,
  'ecdsa-sha2-nistp256': 2,
  'ecdsa-sha2-nistp384': 2,
  'ecdsa-sha2-nistp521': 2,
  'sk-ssh-ed25519': 2,
  'sk-ecdsa-sha2-nistp256': 3,
};

/**
 * The fingerprint of a public key as `ssh-add -l` prints it; a certificate has that of the key in it. Data
 * that is no key has the fingerprint of its bytes.
 */
export function fingerprint(blob: Buffer): string {
  return blobFingerprint(certifiedKey(blob) ?? blob);
}

/** The same of the bytes themselves, whatever a client calls them. */
export function blobFingerprint(blob: Buffer): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}

/** The key in a certificate, encoded as a key of its own; undefined when the blob is no certificate. */
export function certifiedKey(blob: Buffer): Buffer | undefined {
  const reader = new FieldReader(blob);
  const type = reader.string()?.toString('latin1');
  if (!type?.endsWith(CERTIFICATE_SUFFIX)) return undefined;
  const keyType = type.slice(0, -CERTIFICATE_SUFFIX.length);
  const count = KEY_FIELDS[keyType];
  if (count === undefined || !reader.string()) return undefined; // the nonce comes before the key
  // A security key's plain type has the suffix that names its maker: sk-ssh-ed25519@openssh.com.
  const parts = [encodeString(keyType.startsWith('sk-') ? `${keyType}@openssh.com` : keyType)];
  for (let left = count; left > 0; left -= 1) {
    const field = reader.string();
    if (!field) return undefined;
    parts.push(encodeString(field));
  }
  return Buffer.concat(parts);
}
