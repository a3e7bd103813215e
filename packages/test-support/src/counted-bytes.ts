/**
 * A Buffer whose readers are watched: `visits[i]` counts how often byte i was looked at, by index or by
 * a search. Copying is not looking. Any other access is an error, so that nothing goes uncounted.
 */
export function countedBytes(bytes: Buffer, visits: Uint32Array): Buffer {
  const allowed: Record<string, unknown> = {
    length: bytes.length,
    indexOf(value: number, from = 0) {
      const found = bytes.indexOf(value, from);
      for (let i = from; i < (found < 0 ? bytes.length : found + 1); i++) visits[i]!++;
      return found;
    },
    subarray: (start: number, end: number) =>
      countedBytes(bytes.subarray(start, end), visits.subarray(start, end)),
    copy: bytes.copy.bind(bytes),
  };
  return new Proxy(bytes, {
    get(_target, name) {
      if (typeof name === 'string' && Object.hasOwn(allowed, name)) return allowed[name];
      const index = Number(name);
      if (!Number.isInteger(index)) throw new Error(`uncounted access: ${String(name)}`);
      visits[index]!++;
      return bytes[index];
    },
  });
}
