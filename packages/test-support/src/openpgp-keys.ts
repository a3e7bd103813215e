import { createHash, generateKeyPairSync, sign } from 'node:crypto';

/** A public key as OpenPGP packets, made without gpg: a keyring of megabytes would take it minutes. */
export interface OpenPgpKey {
  fingerprint: string;
  packets: Buffer;
}

const EDDSA = 22;
const SHA256 = 8;
const POSITIVE_CERTIFICATION = 0x13;
const CURVE_ED25519 = Buffer.from('092b06010401da470f01', 'hex'); // length and OID
/** At the end of the standard encoding. */
const PUBLIC_KEY_BYTES = 32;
const CREATED = Buffer.from([0x60, 0, 0, 0]); // January 2021

/** Makes a version 4 Ed25519 key with these user IDs, each self-signed. */
export function makeOpenPgpKey(userIds: readonly string[]): OpenPgpKey {
  const pair = generateKeyPairSync('ed25519');
  // Not as a JWK: Node 20 stands still for good if it collects the pair as garbage meanwhile, once in some thousand.
  const raw = pair.publicKey.export({ type: 'spki', format: 'der' }).subarray(-PUBLIC_KEY_BYTES);
  const point = mpi(Buffer.concat([Buffer.from([0x40]), raw]));
  const key = Buffer.concat([Buffer.from([4]), CREATED, Buffer.from([EDDSA]), CURVE_ED25519, point]);
  const hashedKey = Buffer.concat([Buffer.from([0x99]), uint16(key.length), key]);
  const fingerprint = createHash('sha1').update(hashedKey).digest();

  const packets = [packet(6, key)];
  for (const userId of userIds) {
    const name = Buffer.from(userId);
    const hashed = Buffer.concat([
      Buffer.from([4, POSITIVE_CERTIFICATION, EDDSA, SHA256]),
      uint16(6 + 3),
      Buffer.from([5, 2]), // signature creation time
      CREATED,
      Buffer.from([2, 27, 3]), // key flags: certify, sign
    ]);
    const digest = createHash('sha256')
      .update(hashedKey)
      .update(Buffer.concat([Buffer.from([0xb4]), uint32(name.length), name]))
      .update(hashed)
      .update(Buffer.concat([Buffer.from([4, 0xff]), uint32(hashed.length)]))
      .digest();
    const signature = sign(null, digest, pair.privateKey);
    const issuer = Buffer.concat([uint16(10), Buffer.from([9, 16]), fingerprint.subarray(-8)]);
    const halves = [mpi(signature.subarray(0, 32)), mpi(signature.subarray(32))];
    packets.push(
      packet(13, name),
      packet(2, Buffer.concat([hashed, issuer, digest.subarray(0, 2), ...halves])),
    );
  }
  return { fingerprint: fingerprint.toString('hex').toUpperCase(), packets: Buffer.concat(packets) };
}

function packet(tag: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0xc0 | tag, 0xff]), uint32(body.length), body]);
}

/** A multi-precision integer: its length in bits, then its bytes without leading zeros. */
function mpi(bytes: Buffer): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0);
  const number = bytes.subarray(start < 0 ? bytes.length : start);
  const bits = number.length === 0 ? 0 : (number.length - 1) * 8 + (32 - Math.clz32(number[0]!));
  return Buffer.concat([uint16(bits), number]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
