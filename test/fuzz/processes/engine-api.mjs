// The client of an engine's API, against an engine on a real socket that answers anything.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';

const ID = 'a'.repeat(64);
const AT_ONCE = 20;
const LATE_MS = 30_000;
/** How a call may fail. */
const CODES = ['ENGINE_FAILED', 'ENGINE_UNREACHABLE', 'TARGET_NOT_FOUND', 'TARGET_NOT_RUNNING'];

const body = (text) => `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
const INSPECTED = JSON.stringify({ Id: ID, Name: '/box', State: { Running: true }, Config: { User: '' } });
const SEEDS = [
  `HTTP/1.1 200 OK\r\n${body(INSPECTED)}`,
  `HTTP/1.1 404 Not Found\r\n${body('{"message":"no such container"}')}`,
  `HTTP/1.1 201 Created\r\n${body('{"Id":"abc"}')}`,
  'HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n\x01\x00\x00\x00\x00\x00\x00\x02hi',
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e\r\n{"Type":"container","Action":"die","Actor":{"ID":"x"}}\n\r\n0\r\n\r\n`,
].map((text) => Buffer.from(text, 'latin1'));
const WORDS = [
  'HTTP/1.1 ',
  '200',
  '101',
  '500',
  '\r\n\r\n',
  'Content-Length: ',
  'Transfer-Encoding: chunked\r\n',
  '"Id":',
  '"Name":"/\\u001b"',
  '\x01\x00\x00\x00',
  '{}',
  'null',
  '99999999',
].map((text) => Buffer.from(text, 'latin1'));
const CALLS = [
  (engine) => engine.inspectContainer('box'),
  (engine) => engine.ping(),
  (engine) => engine.readFile('box', '/etc/passwd'),
  async (engine) => {
    const stream = await engine.exec('box', ['sh']);
    stream.stdout.resume();
    stream.stderr.resume();
    stream.stdin.end();
    await stream.exited;
  },
  async (engine) => {
    const events = await engine.events({ container: ID, actions: ['die'] });
    await once(events.resume(), 'close').catch(() => {});
  },
];

function late() {
  return new Promise((_, reject) =>
    setTimeout(reject, LATE_MS, new Error(`it takes longer than ${LATE_MS / 1_000} s`)).unref(),
  );
}

async function run({ seed, seconds, work, tools }) {
  const random = new tools.Random(seed);
  const path = join(work, 'engine.sock');
  let answer = SEEDS[0];
  const next = () => {
    const input = random.pick(SEEDS);
    return random.oneIn(4) ? input : tools.mutate(input, random.pick(SEEDS), random, WORDS, 2_000);
  };
  const server = createServer((socket) => {
    socket.on('error', () => {}).once('data', () => socket.end((answer = next())));
  }).listen(path);
  await once(server, 'listening');
  let unhandled;
  const onUnhandled = (error) => {
    unhandled = error;
  };
  process.on('unhandledRejection', onUnhandled).on('uncaughtException', onUnhandled);
  const engine = new tools.ApiEngine('docker', path, { answerTimeoutMs: 5_000 });
  const end = Date.now() + seconds * 1_000;
  let inputs = 0;
  try {
    while (Date.now() < end) {
      const calls = Array.from({ length: AT_ONCE }, () => random.pick(CALLS)(engine));
      inputs += calls.length;
      for (const settled of await Promise.race([Promise.allSettled(calls), late()])) {
        const error = settled.status === 'rejected' ? settled.reason : undefined;
        if (error && !CODES.includes(error.code)) throw error;
        if (error && /[\x00-\x1f\x7f-\x9f]/.test(error.message))
          throw new Error('an error would move a cursor');
      }
      if (unhandled) throw unhandled;
    }
    return { inputs };
  } catch (error) {
    return {
      inputs,
      finding: {
        error: `${error.stack ?? error}\nan answer near it: ${JSON.stringify(answer.toString('latin1'))}`,
      },
    };
  } finally {
    process.off('unhandledRejection', onUnhandled).off('uncaughtException', onUnhandled);
    server.close();
  }
}

export const ENGINE_API_TARGET = { name: 'engine-api', run };
