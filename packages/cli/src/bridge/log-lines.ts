import type { Readable } from 'node:stream';
import { printable } from '@gpg-bridge/core/text/escape';

/** Lines that are kept: ssh gives its reason in the last but one, or before that. */
const LAST_LINES = 3;
/** Bytes of one line that are kept; a target can print what it likes. */
const MAX_LINE = 500;

/**
 * Reads a stream of text line by line, each made fit for a log, and returns how to ask for the last few of those that
 * `onLine` returned true for. The stream has to be read whatever it says, since it shares a connection with the frames.
 */
export function readLines(stream: Readable, onLine: (line: string) => boolean): () => string {
  let partial = '';
  const last: string[] = [];
  const tell = (line: string) => {
    if (!line.trim()) return;
    const text = printable(Buffer.from(line.replace(/\r$/, ''), 'latin1'), MAX_LINE);
    if (onLine(text)) last.push(text);
    if (last.length > LAST_LINES) last.shift();
  };
  stream.on('data', (chunk: Buffer) => {
    const lines = (partial + chunk.toString('latin1')).split('\n');
    partial = (lines.pop() ?? '').slice(0, MAX_LINE);
    for (const line of lines) tell(line);
  });
  stream.on('end', () => tell(partial));
  stream.on('error', () => {}); // the command's end is told elsewhere
  return () => last.join('; ');
}
