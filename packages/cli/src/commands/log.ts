import { closeSync, fstatSync, readSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { openPlainFile } from '@gpg-bridge/core/fs/plain-file';
import { type RecordedLine, readUseRecord } from '@gpg-bridge/core/host/use-record-file';
import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import { type LogLine, olderPart } from '../daemon/log-file.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  checkStateDirectory,
  recordDirectory,
  stateDirectory,
  useRecordPath,
} from '../daemon/state-dir.ts';
import { Manager } from '../manager/manager.ts';
import { shortKey } from '../terminal/format.ts';
import { styles } from '../terminal/style.ts';
import { type NamedBridge, noBridge, requireNamedBridge } from './bridge-operand.ts';
import { textFlag } from './flags.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Shows what was asked of the host's keys, and goes on with --follow. A bridge that is over has a log, too. */
export async function run(command: ParsedCommand): Promise<number> {
  const named = requireNamedBridge('log', command);
  const key = await new Manager().keyOf(named.spec, named.selector);
  checkStateDirectory(stateDirectory());
  const path = key && bridgeFiles(stateDirectory(), key).log;
  const { json, follow } = command.flags;
  const count = lineCount(textFlag(command.flags, 'lines'));
  if (command.flags.uses)
    return showUses(key && bridgeFiles(stateDirectory(), key), named, count, json === true);
  // Kept until all of them are read: only the last ones may be wanted.
  let held: LogLine[] | undefined = [];
  const write = (line: LogLine) =>
    process.stdout.write(`${json ? jsonLine(line) : describe(printableValue(line))}\n`);
  const show = (line: LogLine) => {
    if (json && 'message' in line) return;
    if (!held) write(line);
    else if (held.push(line) > count) held.shift();
  };
  const reader = new LineReader(path ?? '', show);
  const isOlder = path !== undefined && new LineReader(olderPart(path), show).read();
  if (!path || !(reader.read() || isOlder)) throw noBridge(named);
  // Without --follow the JSON is one array; with it, there is no last line, so each is a document.
  if (json && !follow) process.stdout.write(`${jsonLine(held)}\n`);
  else for (const line of held) write(line);
  held = undefined;
  if (!follow) return 0;
  const watcher = watch(dirname(path), () => {
    if (!reader.read()) void followMoved(reader, named);
  });
  await new Promise<void>((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  watcher.close();
  return 0;
}

/** Shows the record of what private keys were used for. */
function showUses(
  files: BridgeFiles | undefined | '',
  named: NamedBridge,
  count: number,
  json: boolean,
): number {
  if (!files) throw noBridge(named);
  checkStateDirectory(recordDirectory());
  const uses = readUseRecord(useRecordPath(files)).slice(-count);
  if (json) process.stdout.write(`${jsonLine(uses)}\n`);
  else for (const use of printableValue(uses)) process.stdout.write(`${describeUse(use)}\n`);
  return 0;
}

function describeUse({ time, session, command, key, outcome, durationMs, count }: RecordedLine): string {
  const { dim } = styles(process.stdout);
  const when = dim(time.replace('T', ' ').replace(/\.\d+Z$/, 'Z'));
  const what = `session ${session}: ${command}${key ? ` key ${shortKey(key)}` : ''}`;
  return `${when}  ${what}: ${count ? `${count} more in that minute` : `${outcome} after ${durationMs} ms`}`;
}

/** A bridge that has turned to another container of the same name takes its log along. */
async function followMoved(reader: LineReader, { spec, selector }: NamedBridge): Promise<void> {
  const key = await new Manager().keyOf(spec, selector).catch(() => undefined);
  if (key === undefined) return;
  reader.path = bridgeFiles(stateDirectory(), key).log;
  reader.read();
}

/** How many lines are wanted; all of them unless a number is given. */
function lineCount(text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY;
  if (!/^\d{1,9}$/.test(text)) throw usage('log', `--lines takes a number, not '${text}'`);
  return Number(text);
}

function describe(line: LogLine): string {
  const { dim, red, yellow } = styles(process.stdout);
  const time = dim(line.time.replace('T', ' ').replace(/\.\d+Z$/, 'Z'));
  if ('message' in line) {
    const colour = line.level === 'error' ? red : line.level === 'warn' ? yellow : dim;
    return `${time}  ${colour(line.message)}`;
  }
  const words = line.error === undefined ? line.outcome : `${line.outcome} (${line.error})`;
  const outcome = line.outcome === 'ok' ? words : red(words);
  const key = line.key ? ` key ${shortKey(line.key)}` : '';
  return `${time}  session ${line.session}: ${line.command}${key}: ${outcome} after ${line.durationMs} ms`;
}

/** Reads a growing file line by line, from where it stopped. */
class LineReader {
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
    try {
      this.onLine(JSON.parse(text) as LogLine);
    } catch {
      // What a crashing runtime printed is no log line.
    }
  }
}
