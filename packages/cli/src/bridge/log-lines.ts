import type { Readable } from 'node:stream';
import { printable } from '@gpg-bridge/core/text/escape';

/** Bytes of one line that are kept; a target can print what it likes. */
const MAX_LINE = 500;

/**
 * Reads a stream of text line by line, each made fit for a log, and returns how to ask for the last one.
 * The stream has to be read whatever it says, since it shares a connection with the frames.
 */
export function readLines(stream: Readable, onLine: (line: string) => void): () => string {
  let partial = '';
  let last = '';
  const tell = (line: string) => {
    if (!line.trim()) return;
    last = printable(Buffer.from(line, 'latin1'), MAX_LINE);
    onLine(last);
  };
  stream.on('data', (chunk: Buffer) => {
    const lines = (partial + chunk.toString('latin1')).split('\n');
    partial = (lines.pop() ?? '').slice(0, MAX_LINE);
    for (const line of lines) tell(line);
  });
  stream.on('end', () => tell(partial));
  stream.on('error', () => {}); // the command's end is told elsewhere
  return () => last;
}
