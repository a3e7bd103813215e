/** A header and every piece of content is padded to this. */
const BLOCK = 512;
const REGULAR: ReadonlySet<string> = new Set(['0', '\0', '7']);
/** Headers that only say more about the entry behind them: long names, times, sparse maps. */
const EXTENDED: ReadonlySet<string> = new Set(['x', 'g', 'L', 'K']);

/** The file in an archive of one, as engines hand it out; undefined if it is a directory or a link. */
export function fileInTar(archive: Buffer): Buffer | undefined {
  for (let at = 0; at + BLOCK <= archive.length; ) {
    const header = archive.subarray(at, at + BLOCK);
    const size = Number.parseInt(header.toString('latin1', 124, 136), 8);
    const type = header.toString('latin1', 156, 157);
    if (!Number.isSafeInteger(size)) return undefined; // the zeros at the end
    if (REGULAR.has(type)) return archive.subarray(at + BLOCK, at + BLOCK + size);
    if (!EXTENDED.has(type)) return undefined;
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return undefined;
}
