import { createHash, randomInt } from 'node:crypto';

const RANDOM_LENGTH = 5;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';

/**
 * A name to bind a socket under before it gets its final one in the same directory. It is not longer
 * than the final name, so that the final path fits whenever the temporary one does, and it says which
 * final name it stands for: the kernel shows the name that was bound, whatever became of it.
 */
export function temporaryName(finalName: string): string {
  const room = Math.min(Buffer.byteLength(finalName), fixedPart(finalName).length + RANDOM_LENGTH);
  const random = Array.from({ length: RANDOM_LENGTH + 5 }, () => ALPHABET[randomInt(ALPHABET.length)]).join(
    '',
  );
  const fixed = room < fixedPart(finalName).length + RANDOM_LENGTH ? '' : fixedPart(finalName);
  return (fixed + random).slice(0, room);
}

/** Whether `name` is a temporary name of `finalName`. */
export function isTemporaryName(name: string, finalName: string): boolean {
  const fixed = fixedPart(finalName);
  return name.length === fixed.length + RANDOM_LENGTH && name.startsWith(fixed);
}

/** `.gb` and two characters that differ between the names of one directory: ten bytes with the random part. */
function fixedPart(finalName: string): string {
  return `.gb${createHash('sha256').update(finalName).digest('hex').slice(0, 2)}`;
}
