// The thin servers as real processes: frames and operations, in a directory that is thrown away.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SERVERS = new URL('../../../packages/cli/dist/servers/', import.meta.url);
const FILES = { perl: 'server.pl', node: 'server.cjs' };
const [DATA, OPEN, CLOSE, PUBKEY, WINDOW, CALL, RESULT] = [1, 2, 3, 4, 7, 11, 12];
/** Inputs after which a server has to answer a question, and is looked at. */
const BATCH = 200;
const ANSWER_MS = 30_000;
const MAX_RSS_KIB = 200 * 1_024;
/** Without `run`: no program is started with words that nobody chose. */
const OPERATIONS = [
  'stat',
  'lstat',
  'readlink',
  'list',
  'read',
  'which',
  'mkdir',
  'chmod',
  'ask',
  'bind',
  'release',
];
/** What is sent instead of an operation. */
const NO_OPERATIONS = ['', 'Stat', 'stat\0', '__proto__', 'constructor', 'toString', 'exec', 'eval'];

const BUILD_NATIVE = fileURLToPath(new URL('../../../scripts/build-native.mjs', import.meta.url));
const ARCHITECTURE = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
let native;

/** The native server in a form that ends at every wrong access to memory. */
function nativeProgram() {
  if (native) return native;
  const directory = mkdtempSync(join(tmpdir(), 'gbf-'));
  execFileSync(process.execPath, [BUILD_NATIVE, '--out', directory, '--sanitize', ARCHITECTURE], {
    stdio: 'ignore',
    timeout: 60_000,
  });
  native = readFileSync(join(directory, `native-${ARCHITECTURE}`));
  rmSync(directory, { recursive: true });
  return native;
}

/** Whether this machine can build it; where nothing may be left out, it has to. */
function hasNative() {
  if (process.env.CI === 'true') return true;
  const words = [BUILD_NATIVE, '--missing', ARCHITECTURE];
  return execFileSync(process.execPath, words, { timeout: 60_000 }).toString().trim() === '';
}

/** One server of a runtime, and how its frames are read. */
class Server {
  #held = Buffer.alloc(0);
  #waiting = new Map();
  streams = new Set();
  said = '';
  ended = false;

  constructor(runtime, tools, directory) {
    this.runtime = runtime;
    const source =
      runtime === 'native' ? nativeProgram() : readFileSync(new URL(FILES[runtime], SERVERS), 'utf8');
    const [program, ...args] = tools.launcherCommand(runtime);
    this.child = spawn(program, args, {
      cwd: directory,
      env: { PATH: process.env.PATH, HOME: directory },
      stdio: 'pipe',
    });
    this.child.stdin.on('error', () => {});
    this.child.stderr.on('data', (chunk) => {
      this.said = (this.said + chunk).slice(-2_000);
    });
    this.exited = new Promise((resolve) => {
      this.child.once('close', (status, signal) => {
        this.ended = true;
        for (const { reject } of this.#waiting.values()) reject(new Error('the server ended'));
        resolve(signal ?? status);
      });
    });
    this.ready = new Promise((resolve, reject) => {
      this.#waiting.set('ready', { resolve, reject });
    });
    this.child.stdout.on('data', (chunk) => this.#read(chunk));
    this.child.stdin.write(
      tools.serverPayload(runtime, { ...tools.SERVER_CONFIG, tickMs: 50, maxUnanswered: 1_000 }, source),
    );
  }

  #read(chunk) {
    this.#held = Buffer.concat([this.#held, chunk]);
    const isStarted = !this.#waiting.has('ready');
    if (!isStarted) {
      const end = this.#held.indexOf('\n');
      if (end < 0) return;
      this.#held = this.#held.subarray(end + 1);
      this.#waiting.get('ready').resolve();
      this.#waiting.delete('ready');
    }
    while (this.#held.length >= 9) {
      const length = this.#held.readUInt32BE(0);
      if (length < 5 || length > 1_048_576)
        throw new Error(`the ${this.runtime} server sent a frame of ${length} bytes`);
      if (this.#held.length < 4 + length) break;
      this.#frame(this.#held[4], this.#held.readUInt32BE(5), this.#held.subarray(9, 4 + length));
      this.#held = this.#held.subarray(4 + length);
    }
  }

  #frame(type, id) {
    if (type === OPEN) this.streams.add(id);
    if (type === CLOSE) this.streams.delete(id);
    if (type === RESULT) this.#waiting.get(id)?.resolve();
    if (type === RESULT) this.#waiting.delete(id);
  }

  send(bytes) {
    return new Promise((resolve) => {
      if (this.child.stdin.write(bytes)) resolve();
      else this.child.stdin.once('drain', resolve).once('close', resolve);
    });
  }

  /** Asks for something that always has an answer. */
  answers(id) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      void this.send(frame(CALL, id, fields('lstat', '/')));
      setTimeout(() => reject(new Error(`no answer in ${ANSWER_MS / 1_000} s`)), ANSWER_MS).unref();
    });
  }

  rssKiB() {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.child.pid}/status`, 'latin1'))?.[1] ?? 0);
  }
}

function frame(type, id, payload = Buffer.alloc(0)) {
  const head = Buffer.alloc(9);
  head.writeUInt32BE(5 + payload.length);
  head[4] = type;
  head.writeUInt32BE(id >>> 0, 5);
  return Buffer.concat([head, payload]);
}

function fields(...values) {
  return Buffer.concat(
    values.flatMap((value) => {
      const bytes = Buffer.from(value);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

/** A name in the directory: no path of anybody else's can come of it. */
function path(random, directory) {
  const letters = random
    .bytes(random.below(12))
    .map((byte) => (byte === 0x2f || byte === 0x2e ? 0x78 : byte));
  const name = Buffer.concat([Buffer.from('x'), letters]);
  const at = random.pick([
    directory,
    `${directory}/d`,
    `${directory}/file`,
    `${directory}/none`,
    directory.padEnd(120, 'y'),
  ]);
  return random.oneIn(20) ? name : Buffer.concat([Buffer.from(`${at}/`), name]);
}

function argument(random, directory) {
  switch (random.below(6)) {
    case 0:
      return Buffer.from(
        String(random.pick([0, 1, 5, 511, 4_096, 65_536, 999_999_999, '1e3', '-1', ' 1', '٣'])),
      );
    case 1:
      return random.bytes(random.below(40)).map((byte) => (byte === 0x2f || byte === 0x2e ? 0x78 : byte));
    case 2:
      return Buffer.from(random.pick(['gpg-agent', 'ssh-agent', '', '1:2', 'sh']));
    default:
      return path(random, directory);
  }
}

/** An operation with arguments that fit, or nearly. */
function operation(random, directory) {
  const name = random.oneIn(10) ? random.pick(NO_OPERATIONS) : random.pick(OPERATIONS);
  if (name === 'bind' && random.oneIn(2)) {
    const socket = random.below(4);
    const type = random.pick(['gpg-agent', 'ssh-agent']);
    const temporary = `${directory}/t${socket}${random.below(1_000)}`;
    return [name, type, `${directory}/s${socket}`, temporary, '', '16', 'OK\n', random.pick(['', 'ERR 1\n'])];
  }
  if (name === 'ask' && random.oneIn(2))
    return [name, `${directory}/s${random.below(4)}`, '50', '1', '1', random.bytes(random.below(30))];
  return [name, ...Array.from({ length: random.below(7) }, () => argument(random, directory))];
}

/** One input: an operation, or a frame of any kind. Only the last of a batch may break the framing. */
function input(random, directory, streams) {
  const id = random.oneIn(3) || streams.size === 0 ? random.below(2 ** 32) : random.pick([...streams]);
  switch (random.below(10)) {
    case 0:
      return frame(DATA, id, random.bytes(random.below(2_000)));
    case 1:
      return frame(random.pick([CLOSE, 8]), id);
    case 2:
      return frame(WINDOW, id, random.bytes(random.pick([0, 3, 4, 4, 4, 5])));
    case 3:
      return frame(random.pick([0, 2, 5, 6, 9, 10, 12, 13, 14, 255]), id, random.bytes(random.below(50)));
    case 4:
      return frame(PUBKEY, id, random.bytes(random.below(500)));
    case 5: {
      // Fields that are not fields: a length that is wrong.
      const payload = fields(...operation(random, directory));
      const cut = payload.subarray(0, random.below(payload.length + 1));
      return frame(CALL, id, random.oneIn(2) ? cut : Buffer.concat([cut, random.bytes(3)]));
    }
    default:
      return frame(CALL, id, fields(...operation(random, directory)));
  }
}

/** A client of a socket that was bound, which says something and leaves. */
function visit(directory, random) {
  return new Promise((resolve) => {
    const client = connect(`${directory}/s${random.below(4)}`);
    client.on('error', () => {}).once('close', resolve);
    client.end(random.bytes(random.below(300)));
    client.resume();
    client.setTimeout(200, () => client.destroy());
  });
}

/** Fuzzes the server of one runtime until the time is over, or something is found. */
async function run(runtime, tools, { seed, seconds, work }) {
  const directory = join(work, runtime);
  mkdirSync(join(directory, 'd'), { recursive: true });
  writeFileSync(join(directory, 'file'), 'text');
  const random = new tools.Random(seed);
  const end = Date.now() + seconds * 1_000;
  let server;
  let inputs = 0;
  let question = 0x7000_0000;
  try {
    while (Date.now() < end) {
      if (!server) {
        server = new Server(runtime, tools, directory);
        await server.ready;
      }
      const batch = Array.from({ length: BATCH }, () => input(random, directory, server.streams));
      inputs += batch.length;
      const visits = Array.from({ length: random.below(4) }, () => visit(directory, random));
      if (random.oneIn(5)) {
        // Cut anywhere: the server may see half a frame.
        const bytes = Buffer.concat(batch);
        const cut = random.below(bytes.length);
        await server.send(bytes.subarray(0, cut));
        await server.send(bytes.subarray(cut));
      } else await server.send(Buffer.concat(batch));
      await server.answers(question++);
      await Promise.all(visits);
      if (server.rssKiB() > MAX_RSS_KIB) throw new Error(`it takes ${server.rssKiB()} KiB`);
      if (random.oneIn(10)) {
        // A length that no frame has is the server's end, and an orderly one.
        await server.send(
          Buffer.concat([random.pick([Buffer.alloc(4), Buffer.alloc(4, 255)]), random.bytes(20)]),
        );
        const status = await Promise.race([server.exited, late()]);
        if (status !== 1) throw new Error(`it ended with ${status} after a length that can't be`);
        inputs += 1;
        server = undefined;
      }
    }
    server?.child.stdin.end();
    return { inputs };
  } catch (error) {
    const status = server?.ended ? ` (it ended with ${await server.exited})` : '';
    server?.child.kill('SIGKILL');
    return { inputs, finding: { error: `${error.message}${status}; it said: ${server?.said}` } };
  }
}

function late() {
  return new Promise((resolve) => setTimeout(resolve, ANSWER_MS, 'no end').unref());
}

const RUNTIMES = ['perl', 'node', ...(hasNative() ? ['native'] : [])];

export const SERVER_TARGETS = RUNTIMES.map((runtime) => ({
  name: `server-${runtime}`,
  run: (options) => run(runtime, options.tools, options),
}));
