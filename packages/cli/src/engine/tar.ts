/** A header and every piece of content is padded to this. */
const BLOCK = 512;
/** Types of what is not the file itself: extended headers of the next entry, links, directories. */
const REGULAR: ReadonlySet<string> = new Set(['0', '\0', '7']);

/** The first regular file in an archive, as engines hand out a single file. */
export function fileInTar(archive: Buffer): Buffer | undefined {
  for (let at = 0; at + BLOCK <= archive.length; ) {
    const header = archive.subarray(at, at + BLOCK);
    const size = Number.parseInt(header.toString('latin1', 124, 136), 8);
    if (!Number.isSafeInteger(size)) return undefined; // the zeros at the end
    if (REGULAR.has(header.toString('latin1', 156, 157))) {
      return archive.subarray(at + BLOCK, at + BLOCK + size);
    }
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return undefined;
}
