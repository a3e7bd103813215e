// A target that speaks the wire protocol itself and loads its host. Run: hostile-load.mjs LOAD FILE
// It is what `--exec` runs; what it is given to run is not run. The load is on while FILE exists.
//   data    120 streams that send all that their credit allows, again and again
//   idle    1,500 streams of each kind that are opened and not used
//   pairs   60,000 times OPEN and CLOSE, again and again
import { existsSync } from 'node:fs';

const [, , load, file] = process.argv;
const [DATA, OPEN, CLOSE, READY, WINDOW, CALL, RESULT] = [1, 2, 3, 5, 7, 11, 12];
const CREDIT = 262_144;
const LOOK_MS = 20;
const TYPES = ['gpg-agent', 'ssh-agent'];
/** What a stream of each type sends: comments, which no agent answers, and requests that the bridge refuses. */
const BYTES = {
  'gpg-agent': Buffer.from(`# ${'x'.repeat(997)}\n`.repeat(65)),
  'ssh-agent': Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.of(0, 0, 0, 1, 19))),
};

function frame(type, id, payload = '') {
  const body = Buffer.from(payload);
  const head = Buffer.alloc(9);
  head.writeUInt32BE(5 + body.length);
  head[4] = type;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, body]);
}

function fields(...texts) {
  return Buffer.concat(
    texts.flatMap((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(Buffer.byteLength(text));
      return [length, Buffer.from(text)];
    }),
  );
}

/** What is said to the operations of a bridge that starts: everything is as it should be. */
const RESULTS = {
  run: fields('ok', '0', 'homedir:/h/g\nagent-socket:/h/g/S.gpg-agent\n', ''),
  stat: fields('ok', '1', '2', String(0o40700), '0', '100'),
  lstat: fields('ENOENT', 'nothing'),
};

/** Resolves when the host has taken what was written so far. */
const written = (bytes) => new Promise((resolve) => process.stdout.write(bytes, resolve));
const nextLook = () => new Promise((resolve) => setTimeout(resolve, LOOK_MS));
const isOn = () => existsSync(file);

/** Credit of the streams that are open, and their types. */
const streams = new Map();
let lastId = 0;

function open(type) {
  lastId += 1;
  streams.set(lastId, { type, credit: CREDIT });
  return frame(OPEN, lastId, type);
}

const LOADS = {
  async idle() {
    await written(Buffer.concat(TYPES.flatMap((type) => Array.from({ length: 1_500 }, () => open(type)))));
    while (isOn()) await nextLook();
    await written(Buffer.concat([...streams.keys()].map((id) => frame(CLOSE, id))));
    streams.clear();
  },
  async pairs() {
    while (isOn()) {
      for (let left = 60_000; left > 0 && isOn(); left -= 1_000) {
        const pairs = Array.from({ length: 1_000 }, (_, at) => [open(TYPES[at % 2]), frame(CLOSE, lastId)]);
        streams.clear();
        await written(Buffer.concat(pairs.flat()));
      }
    }
  },
  async data() {
    while (isOn()) {
      const wanted = Array.from({ length: 120 - streams.size }, (_, at) => open(TYPES[at % 2]));
      if (wanted.length > 0) await written(Buffer.concat(wanted));
      let sent = 0;
      for (const [id, stream] of streams) {
        const bytes = BYTES[stream.type];
        if (stream.credit < bytes.length) continue;
        stream.credit -= bytes.length;
        sent += 1;
        await written(frame(DATA, id, bytes));
      }
      if (sent === 0) await nextLook();
    }
    await written(Buffer.concat([...streams.keys()].map((id) => frame(CLOSE, id))));
    streams.clear();
  },
};

let held = Buffer.alloc(0);
let isStarted = false;

function onFrame(type, id, payload) {
  if (type === CALL) {
    const name = payload.toString('latin1', 4, 4 + payload.readUInt32BE(0));
    process.stdout.write(frame(RESULT, id, RESULTS[name] ?? fields('ok')));
  }
  const stream = streams.get(id);
  if (!stream) return;
  if (type === WINDOW) stream.credit += payload.readUInt32BE(0);
  if (type === CLOSE) streams.delete(id);
  // What the agents say is read, so that they go on.
  if (type === DATA) process.stdout.write(frame(WINDOW, id, uint32(payload.length)));
}

function uint32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Takes the server away that the host sends first; true once it is all there. */
function passServer() {
  const end = held.indexOf('\n');
  if (end < 0) return false;
  const [text, settings] = held.toString('latin1', 0, end).split(' ').map(Number);
  if (held.length < end + 1 + text + settings) return false;
  const version = /protocol=(\d+)/.exec(held.toString('latin1', end + 1 + text))[1];
  held = held.subarray(end + 1 + text + settings);
  process.stdout.write(
    frame(READY, 0, `{"version":${version},"runtime":"perl","system":"linux","uid":0,"home":"/h"}`),
  );
  return true;
}

process.stdin.on('data', (bytes) => {
  held = Buffer.concat([held, bytes]);
  isStarted ||= passServer();
  if (!isStarted) return;
  let at = 0;
  while (held.length - at >= 4 && held.length - at >= 4 + held.readUInt32BE(at)) {
    const length = 4 + held.readUInt32BE(at);
    onFrame(held[at + 4], held.readUInt32BE(at + 5), held.subarray(at + 9, at + length));
    at += length;
  }
  held = held.subarray(at);
});
process.stdin.on('end', () => process.exit());
process.stdout.on('error', () => process.exit());
process.stdout.write('GPG-BRIDGE 1 perl\n');
for (;;) {
  while (!isStarted || !isOn()) await nextLook();
  await LOADS[load]();
}
