/** The packet type that starts a public key (RFC 4880, 4.3). */
const PUBLIC_KEY_TAG = 6;

/**
 * Cuts a binary export of public keys where a key begins: as many keys as fit into `limit` bytes, but at least
 * one, and the rest. An export that is no sequence of packets is not cut any more from there on.
 */
export function splitKeyring(keys: Buffer, limit: number): [first: Buffer, rest: Buffer] {
  if (keys.length <= limit) return [keys, keys.subarray(keys.length)];
  let cut = 0;
  for (const keyEnd of keyEnds(keys)) {
    if (keyEnd > limit && cut > 0) break;
    cut = keyEnd;
  }
  return [keys.subarray(0, cut), keys.subarray(cut)];
}

/** Where each key of an export ends. */
function* keyEnds(keys: Buffer): Generator<number> {
  let at = 0;
  while (at < keys.length) {
    const packet = packetAt(keys, at);
    if (!packet) break;
    if (packet.tag === PUBLIC_KEY_TAG && at > 0) yield at;
    at = packet.end;
  }
  yield keys.length;
}

/** The packet at an offset; undefined where there is none, or none whose length is known beforehand. */
function packetAt(bytes: Buffer, at: number): { tag: number; end: number } | undefined {
  const first = bytes[at]!;
  if ((first & 0x80) === 0) return undefined;
  const isNew = (first & 0x40) !== 0;
  const length = isNew ? newLength(bytes, at + 1) : oldLength(bytes, at + 1, first & 3);
  if (!length || length.end > bytes.length) return undefined;
  return { tag: isNew ? first & 0x3f : (first >> 2) & 0xf, end: length.end };
}

/** RFC 4880, 4.2.1: one, two or four octets of length. */
function oldLength(bytes: Buffer, at: number, lengthType: number): { end: number } | undefined {
  const size = [1, 2, 4][lengthType];
  if (!size || at + size > bytes.length) return undefined;
  return { end: at + size + bytes.readUIntBE(at, size) };
}

/** RFC 4880, 4.2.2: the first octet says how many there are; partial lengths are for data, not keys. */
function newLength(bytes: Buffer, at: number): { end: number } | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  if (first < 192) return { end: at + 1 + first };
  if (first < 224) {
    if (at + 2 > bytes.length) return undefined;
    return { end: at + 2 + ((first - 192) << 8) + bytes[at + 1]! + 192 };
  }
  if (first < 255 || at + 5 > bytes.length) return undefined;
  return { end: at + 5 + bytes.readUInt32BE(at + 1) };
}
