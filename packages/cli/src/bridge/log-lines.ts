import type { Readable } from 'node:stream';
import { printable } from '@gpg-bridge/core/text/escape';
import { PacedLines } from '../engine/paced-lines.ts';

/** Lines that are kept: ssh gives its reason in the last but one, or before that. */
const LAST_LINES = 3;
/** Bytes of one line that are kept; a target can print what it likes. */
const MAX_LINE = 500;

/**
 * Reads a stream of text line by line, each made fit for a log, and returns how to ask for the last few of those that
 * `onLine` returned true for. The stream has to be read whatever it says, since it shares a connection with the frames;
 * of a flood only some is told.
 */
export function readLines(stream: Readable, onLine: (line: string) => boolean): () => string {
  const last: string[] = [];
  const tell = (line: string) => {
    if (!line.trim()) return;
    const text = printable(Buffer.from(line.replace(/\r$/, ''), 'latin1'), MAX_LINE);
    if (onLine(text)) last.push(text);
    if (last.length > LAST_LINES) last.shift();
  };
  const lines = new PacedLines(MAX_LINE, tell);
  stream.on('data', (chunk: Buffer) => {
    const waitMs = lines.push(chunk);
    if (waitMs === 0) return;
    stream.pause();
    setTimeout(() => stream.resume(), waitMs);
  });
  stream.on('end', () => lines.end());
  stream.on('error', () => {}); // the command's end is told elsewhere
  return () => last.join('; ');
}
