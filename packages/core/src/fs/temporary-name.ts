import { createHash, randomBytes, randomInt } from 'node:crypto';
import { basename, dirname, join } from 'node:path/posix';

const RANDOM_LENGTH = 5;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';

/**
 * A name to bind a socket under before it gets its final one in the same directory. It is not longer
 * than the final name, so that the final path fits whenever the temporary one does, and it says which
 * final name it stands for: the kernel shows the name that was bound, whatever became of it.
 */
export function temporaryName(finalName: string): string {
  for (;;) {
    const name = randomName(finalName);
    if (name !== finalName) return name;
  }
}

function randomName(finalName: string): string {
  const room = Math.min(Buffer.byteLength(finalName), fixedPart(finalName).length + RANDOM_LENGTH);
  const random = Array.from({ length: RANDOM_LENGTH + 5 }, () => ALPHABET[randomInt(ALPHABET.length)]).join(
    '',
  );
  const fixed = room < fixedPart(finalName).length + RANDOM_LENGTH ? '' : fixedPart(finalName);
  return (fixed + random).slice(0, room);
}

/** `.gb` and two characters that differ between the names of one directory: ten bytes with the random part. */
function fixedPart(finalName: string): string {
  return `.gb${createHash('sha256').update(finalName).digest('hex').slice(0, 2)}`;
}

/** Where to bind a socket that will get this path. */
export function temporaryPath(path: string): string {
  return join(dirname(path), temporaryName(basename(path)));
}

/** How the temporary names for a path begin that are long enough to be told from others, and how long they are. */
export function temporaryNamePattern(path: string): { start: string; randomLength: number } {
  return { start: fixedPart(basename(path)), randomLength: RANDOM_LENGTH };
}

/** A name that no pipe of Windows has had; see `pipe-file.ts`. */
export function newPipeName(): string {
  return `\\\\.\\pipe\\gpg-bridge-${randomBytes(16).toString('hex')}`;
}
