import { watch } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeScript } from './script.ts';
import { tempDir } from './temp.ts';

/**
 * Runs a command, passes its stdin and stdout on, and notes for every session how often its client had to wait for
 * the host: an answer that comes behind something that the target sent is one crossing. With a delay every byte is
 * held for so long, each way.
 */
const RELAY = `
const { spawn } = require('node:child_process');
const { appendFileSync } = require('node:fs');
const [, , file, delay, program, ...args] = process.argv;
const [DATA, OPEN, CLOSE, EOF] = [1, 2, 3, 8];
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const sessions = new Map();

/** Calls back for every frame behind what 'start' takes away. */
function frames(start, onFrame) {
  let held = Buffer.alloc(0);
  let started = false;
  return (bytes) => {
    held = Buffer.concat([held, bytes]);
    if (!started) {
      const skipped = start(held);
      if (skipped === undefined || skipped > held.length) return;
      started = true;
      held = held.subarray(skipped);
    }
    while (held.length >= 4 && held.length >= 4 + held.readUInt32BE(0)) {
      const end = 4 + held.readUInt32BE(0);
      onFrame(held[4], held.readUInt32BE(5), held.subarray(9, end));
      held = held.subarray(end);
    }
  };
}
const lineEnd = (bytes) => (bytes.includes(10) ? bytes.indexOf(10) + 1 : undefined);
const source = (bytes) => {
  const end = lineEnd(bytes);
  const [text, settings] = bytes.toString('latin1', 0, end ?? 0).split(' ').map(Number);
  if (end === undefined) return undefined;
  if (settings !== undefined) return end + text + settings;
  // The native program: so many blocks, and a line of settings.
  const lf = bytes.indexOf(10, end + 1024 * text);
  return lf < 0 ? undefined : lf + 1;
};
const ended = (id) => {
  const session = sessions.get(id);
  if (!session || !sessions.delete(id)) return;
  appendFileSync(file, JSON.stringify({ type: session.type, crossings: session.crossings }) + '\\n');
};
const fromTarget = frames(lineEnd, (type, id, payload) => {
  const session = sessions.get(id);
  if (type === OPEN) {
    const [name, greeted] = payload.toString().split(' ');
    sessions.set(id, { type: name, crossings: 0, asks: name === 'gpg-agent' && !greeted });
  } else if (type === DATA && session) session.asks = true;
  else if (type === EOF || type === CLOSE) ended(id);
});
const fromHost = frames(source, (type, id) => {
  const session = sessions.get(id);
  if (type === DATA && session?.asks) {
    session.crossings++;
    session.asks = false;
  } else if (type === CLOSE) ended(id);
});
const later = (action) => (Number(delay) ? setTimeout(action, Number(delay)) : action());
process.stdin.on('data', (bytes) => later(() => {
  fromHost(bytes);
  child.stdin.write(bytes);
})).on('end', () => later(() => child.stdin.end()));
child.stdin.on('error', () => {});
child.stdout.on('data', (bytes) => later(() => {
  fromTarget(bytes);
  process.stdout.write(bytes);
}));
child.on('close', (status) => later(() => process.exit(status ?? 1)));
`;

/** How often one client waited for the host. */
export interface SessionCrossings {
  type: string;
  crossings: number;
}

/** A command for `--exec` that counts what crosses the carrier. */
export class CrossingRelay {
  #read = 0;

  private constructor(
    readonly enter: string,
    private readonly file: string,
  ) {}

  /** `command` is shell text that runs its arguments in the target. */
  static async create(command: string, { delayMs = 0 } = {}): Promise<CrossingRelay> {
    const dir = await tempDir();
    const file = join(dir, 'sessions');
    await writeFile(file, '');
    await writeFile(join(dir, 'relay.cjs'), RELAY);
    const inner = await writeScript(dir, 'inner', `${command} "$@"`);
    const enter = await writeScript(
      dir,
      'enter',
      `exec ${process.execPath} ${dir}/relay.cjs ${file} ${delayMs} ${inner} "$@"`,
    );
    return new CrossingRelay(enter, file);
  }

  /** The sessions that have ended since the last call; waits for so many. */
  async ended(count = 1): Promise<SessionCrossings[]> {
    const changes = watch(this.file);
    try {
      for (;;) {
        const changed = new Promise((resolve) => changes.once('change', resolve));
        const lines = (await readFile(this.file, 'utf8')).split('\n').slice(0, -1);
        if (lines.length >= this.#read + count) {
          const found = lines.slice(this.#read).map((line) => JSON.parse(line) as SessionCrossings);
          this.#read = lines.length;
          return found;
        }
        await changed;
      }
    } finally {
      changes.close();
    }
  }
}
