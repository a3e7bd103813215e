import { watch } from 'node:fs';
import { dirname } from 'node:path';
import { listGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import { type RecordedLine, readUseRecord } from '@gpg-bridge/core/host/use-record-file';
import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import { spanSeconds } from '@gpg-bridge/core/text/time-span';
import { gpgOwners } from '../bridge/host-agents.ts';
import type { KeyOwner } from '../bridge/journal.ts';
import { type LogLine, olderPart } from '../daemon/log-file.ts';
import { LogReader, logPaths } from '../daemon/log-reader.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  checkStateDirectory,
  recordDirectory,
  stateDirectory,
  useRecordPath,
} from '../daemon/state-dir.ts';
import { Manager } from '../manager/manager.ts';
import { keyWords, milliseconds } from '../terminal/format.ts';
import { operationName, operationWords } from '../terminal/operation-words.ts';
import { styles } from '../terminal/style.ts';
import { type NamedBridge, namedBridge, noBridge, requireNamedBridge } from './bridge-operand.ts';
import { textFlag } from './flags.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Which lines are wanted, and in what form. */
interface Wanted {
  count: number;
  since: number;
  json: boolean;
  follow: boolean;
}

/** Logs that are read together: those that are there, and what to do when one of them changes. */
interface LogSource {
  directory: string;
  /** Reads what is new in all of them; false if there is none. */
  read(): boolean;
}

/** Shows what was asked of the host's keys, and goes on with --follow. A bridge that is over has a log, too. */
export async function run(command: ParsedCommand): Promise<number> {
  const { flags } = command;
  const wanted: Wanted = {
    count: lineCount(textFlag(flags, 'lines')),
    since: sinceTime(textFlag(flags, 'since')),
    json: flags.json === true,
    follow: flags.follow === true,
  };
  if (flags.uses) return showUses(requireNamedBridge('log', command), wanted);
  checkStateDirectory(stateDirectory());
  checkStateDirectory(recordDirectory());
  const named = namedBridge('log', command);
  return showLines(wanted, named ? (tell) => oneLog(named, tell) : async (tell) => allLogs(tell));
}

async function showLines(
  { count, since, json, follow }: Wanted,
  open: (tell: (line: LogLine) => void) => Promise<LogSource>,
): Promise<number> {
  // Kept until all of them are read: only the last ones may be wanted, and several logs are in no order.
  let held: LogLine[] | undefined = [];
  const write = (line: LogLine) =>
    process.stdout.write(`${json ? jsonLine(line) : describe(printableValue(line))}\n`);
  const source = await open((line) => {
    if ((json && 'message' in line) || Date.parse(line.time) < since) return;
    if (held) held.push(line);
    else write(line);
  });
  if (!source.read() && !json && !follow) process.stdout.write('No bridge has a log yet.\n');
  held.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  const shown = count === 0 ? [] : held.slice(-count);
  held = undefined;
  // Without --follow the JSON is one array; with it, there is no last line, so each is a document.
  if (json && !follow) process.stdout.write(`${jsonLine(shown)}\n`);
  else for (const line of shown) write(line);
  if (!follow) return 0;
  ensureStateDirectory(source.directory);
  const watcher = watch(source.directory, () => source.read());
  source.read(); // lines that came before it was watched
  await new Promise<void>((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  watcher.close();
  return 0;
}

/** The log of one bridge. */
async function oneLog(named: NamedBridge, tell: (line: LogLine) => void): Promise<LogSource> {
  const key = await new Manager().keyOf(named.spec, named.selector);
  if (key === undefined) throw await noBridge(named);
  const { log } = bridgeFiles(stateDirectory(), key);
  const reader = new LogReader(log, tell);
  const isOlder = new LogReader(olderPart(log), tell).read();
  if (!reader.read() && !isOlder) throw await noBridge(named);
  return {
    directory: dirname(log),
    read() {
      const isThere = reader.read();
      if (!isThere) void followMoved(reader, named);
      return isThere;
    },
  };
}

/** The logs of all bridges, also of those that come later. */
function allLogs(tell: (line: LogLine) => void): LogSource {
  const directory = dirname(bridgeFiles(stateDirectory(), '').log);
  const readers = new Map<string, LogReader>();
  return {
    directory,
    read() {
      for (const path of logPaths(directory)) {
        // What is moved aside later was read before.
        const isNew = !readers.has(path) && !(path.endsWith('.1') && readers.has(path.slice(0, -2)));
        if (isNew) readers.set(path, new LogReader(path, tell));
      }
      for (const reader of readers.values()) reader.read();
      return readers.size > 0;
    },
  };
}

/** A bridge that has turned to another container of the same name takes its log along. */
async function followMoved(reader: LogReader, { spec, selector }: NamedBridge): Promise<void> {
  const key = await new Manager().keyOf(spec, selector).catch(() => undefined);
  if (key === undefined) return;
  reader.path = bridgeFiles(stateDirectory(), key).log;
  reader.read();
}

/** Shows the record of what private keys were used for. */
async function showUses(named: NamedBridge, { count, since, json }: Wanted): Promise<number> {
  const key = await new Manager().keyOf(named.spec, named.selector);
  const files: BridgeFiles | undefined = key === undefined ? undefined : bridgeFiles(stateDirectory(), key);
  if (!files) throw await noBridge(named);
  checkStateDirectory(recordDirectory());
  const uses = readUseRecord(useRecordPath(files)).filter(({ time }) => !(Date.parse(time) < since));
  const shown = count === 0 ? [] : uses.slice(-count);
  if (json) {
    process.stdout.write(`${jsonLine(shown)}\n`);
    return 0;
  }
  const owners = new Map(gpgOwners(await listGpgKeys().catch(() => [])));
  for (const use of shown) {
    const named = { ...use, ...(use.key === undefined ? {} : owners.get(use.key)) };
    process.stdout.write(`${describeUse(printableValue(named))}\n`);
  }
  return 0;
}

function describeUse(use: RecordedLine & Partial<KeyOwner>): string {
  const { time, session, command, purpose, outcome, durationMs, count, note } = use;
  const { dim } = styles(process.stdout);
  const whose = keyWords(use);
  const what = `${operationWords(operationName(command, purpose), outcome)}${whose ? ` with ${whose}` : ''}${note ? ` (${note})` : ''}`;
  const became = count ? `${count} more in that minute` : `${outcome} after ${milliseconds(durationMs)}`;
  return `${dim(shortTime(time))}  ${what}: ${became} ${dim(`(session ${session})`)}`;
}

/** How many lines are wanted; all of them unless a number is given. */
function lineCount(text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY;
  if (!/^\d{1,9}$/.test(text)) throw usage('log', `--lines takes a number, not '${text}'`);
  return Number(text);
}

/** From when on lines are wanted, in milliseconds since the epoch: a time, or how long ago. */
function sinceTime(text: string | undefined): number {
  if (text === undefined) return Number.NEGATIVE_INFINITY;
  const seconds = spanSeconds(text);
  if (seconds !== undefined) return Date.now() - seconds * 1_000;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text.replace(' ', 'T')) : Number.NaN;
  if (Number.isNaN(time)) {
    throw usage('log', `--since takes a time such as 2h or 2026-01-31T12:00, not '${text}'`);
  }
  return time;
}

function shortTime(time: string): string {
  return time.replace('T', ' ').replace(/\.\d+Z$/, 'Z');
}

function describe(line: LogLine): string {
  const { bold, dim, red, yellow } = styles(process.stdout);
  const head = `${dim(shortTime(line.time))}  ${line.target ? `${bold(line.target)}  ` : ''}`;
  if ('message' in line) {
    const colour = line.level === 'error' ? red : line.level === 'warn' ? yellow : dim;
    return `${head}${colour(line.message)}`;
  }
  const isRefused = line.outcome === 'refused';
  const why = line.error ?? (isRefused ? line.note : undefined);
  const words = why === undefined ? line.outcome : `${line.outcome} (${why})`;
  const note = line.note !== undefined && !isRefused ? ` (${line.note})` : '';
  const outcome = line.outcome === 'ok' ? words : red(words);
  const whose = keyWords(line);
  const what = operationWords(line.operation ?? operationName(line.command), line.outcome);
  const person = line.person ? ', a person was needed' : '';
  const session = dim(`(session ${line.session})`);
  return `${head}${what}${whose ? ` with ${whose}` : ''}${note}: ${outcome} after ${milliseconds(line.durationMs)}${person} ${session}`;
}
