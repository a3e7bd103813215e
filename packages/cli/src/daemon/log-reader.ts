import { closeSync, fstatSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { openPlainFile } from '@gpg-bridge/core/fs/plain-file';
import type { LogLine } from './log-file.ts';
import { BRIDGE_STEM } from './state-dir.ts';

/** Names of logs, and of the parts that were moved aside. */
const LOG_NAME = new RegExp(`^${BRIDGE_STEM}\\.log(?:\\.1)?$`);

/** The logs in a directory, of all bridges that have or had one. */
export function logPaths(directory: string): string[] {
  try {
    return readdirSync(directory)
      .filter((name) => LOG_NAME.test(name))
      .map((name) => join(directory, name));
  } catch {
    return []; // no directory, no logs
  }
}

/** Reads a growing file line by line, from where it stopped. */
export class LogReader {
  #offset = 0;
  #partial = '';
  #decoder = new StringDecoder('utf8');

  constructor(
    public path: string,
    readonly onLine: (line: LogLine) => void,
  ) {}

  /** Reads what is new; false if there is no file. */
  read(): boolean {
    let file: number;
    try {
      file = openPlainFile(this.path, 'read');
    } catch {
      return false; // it was just moved aside, and the next line makes a new one
    }
    // A log that has grown too large goes on in a new file.
    if (fstatSync(file).size < this.#offset) this.#offset = 0;
    const chunk = Buffer.alloc(65_536);
    for (let size: number; (size = readSync(file, chunk, 0, chunk.length, this.#offset)) > 0; ) {
      this.#offset += size;
      const lines = (this.#partial + this.#decoder.write(chunk.subarray(0, size))).split('\n');
      this.#partial = lines.pop() ?? '';
      for (const text of lines) this.#tell(text);
    }
    closeSync(file);
    return true;
  }

  #tell(text: string): void {
    let line: LogLine;
    try {
      line = JSON.parse(text) as LogLine;
    } catch {
      return; // what a crashing runtime printed is no log line
    }
    this.onLine(line);
  }
}
