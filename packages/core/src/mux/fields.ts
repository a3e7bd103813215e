/**
 * A list of byte strings, the payload of CALL and RESULT: for each a uint32 length, big-endian, and as many
 * bytes. Every language that a server is written in reads that in a line or two.
 */

/** The bytes of a list. */
export function encodeFields(fields: readonly (string | Buffer)[]): Buffer {
  const parts = fields.flatMap((field) => {
    const bytes = typeof field === 'string' ? Buffer.from(field) : field;
    const length = Buffer.allocUnsafe(4);
    length.writeUInt32BE(bytes.length);
    return [length, bytes];
  });
  return Buffer.concat(parts);
}

/** The list that these bytes hold; undefined if they hold none, or one of more than `limit` fields. */
export function decodeFields(payload: Buffer, limit = Number.POSITIVE_INFINITY): Buffer[] | undefined {
  const fields: Buffer[] = [];
  for (let at = 0; at < payload.length; ) {
    if (payload.length - at < 4 || fields.length === limit) return undefined;
    const end = at + 4 + payload.readUInt32BE(at);
    if (end > payload.length) return undefined;
    fields.push(payload.subarray(at + 4, end));
    at = end;
  }
  return fields;
}
