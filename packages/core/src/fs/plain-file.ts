import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';

/** What a file is opened for. */
const PURPOSES = {
  read: constants.O_RDONLY,
  append: constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT,
  update: constants.O_RDWR | constants.O_CREAT,
  /** Fails if anything has the name. */
  create: constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
} as const;

// Windows has neither.
const { O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;

/**
 * Opens a file, made with mode 0600 if it is not there, and returns its descriptor. A symbolic link at the path is not
 * followed, and a named pipe is refused: either would have us read or write elsewhere, or wait for somebody.
 */
export function openPlainFile(path: string, purpose: keyof typeof PURPOSES): number {
  const descriptor = openSync(path, PURPOSES[purpose] | O_NOFOLLOW | O_NONBLOCK, 0o600);
  if (!fstatSync(descriptor).isFIFO()) return descriptor;
  closeSync(descriptor);
  throw new Error(`${path} is a named pipe`);
}

/** The text of a file; throws for a symbolic link and a named pipe. */
export function readPlainFile(path: string): string {
  const descriptor = openPlainFile(path, 'read');
  try {
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}
