/*
 * The host's end of the least bridge, in Node: what floor.c does there, and no more. A frame is taken to
 * arrive whole, as a small one does.
 *
 *   node floor.mjs host AGENT -- COMMAND…          runs COMMAND with a socket as its standard input and output
 *   node floor.mjs exec AGENT SOCKET ID [ahead]    the same over an exec stream of an engine's API
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DATA = 1;
const OPEN = 2;
const CLOSE = 3;
const HEADER = 9;
const LF = 10;
const [, , mode, agentPath, ...rest] = process.argv;
const shared = Buffer.allocUnsafeSlow(65_536);
const out = Buffer.allocUnsafeSlow(65_536 + HEADER);
const ahead = mode === 'exec' && rest[2] === 'ahead';
let carrier;
let agent;
let stream = 0;

/** Sends a frame whose payload is in `out` already, behind the place of its header. */
function sendFrame(type, length) {
  out.writeUInt32BE(5 + length, 0);
  out[4] = type;
  out.writeUInt32BE(stream, 5);
  writeSync(carrier._handle.fd, out, 0, HEADER + length);
}

/** Of the agent: how many answers are owed that nobody waits for, and what the line that comes begins with. */
let owed = 0;
let first = 0;
/** What waits for those. */
let waiting = Buffer.alloc(0);

/** Takes answers to lines that were answered ahead; the line that waits for the last of them follows it. */
function dropAnswers(bytes) {
  for (const byte of bytes) {
    first ||= byte;
    if (byte !== LF) continue;
    if (first === 0x4f || first === 0x45) owed--; // OK or ERR
    first = 0;
  }
  if (owed === 0 && waiting.length > 0) sendLines();
}

/** Sends the lines that were answered ahead, or, when they have been answered, the one that waits. */
function sendLines() {
  const told = waiting.lastIndexOf(LF, waiting.length - 2) + 1;
  const end = told || waiting.length;
  for (let at = 0; at < told; at++) if (waiting[at] === LF) owed++;
  writeSync(agent._handle.fd, waiting, 0, end);
  waiting = waiting.subarray(end);
}

function open() {
  owed = ahead ? 1 : 0; // the greeting
  first = 0;
  waiting = waiting.subarray(0, 0);
  const socket = connect({
    path: agentPath,
    onread: {
      buffer: shared,
      callback(length) {
        if (agent !== socket) return true;
        if (owed > 0) {
          dropAnswers(shared.subarray(0, length));
          return true;
        }
        shared.copy(out, HEADER, 0, length);
        sendFrame(DATA, length);
        return true;
      },
    },
  });
  agent = socket;
  socket.on('error', () => {});
  socket.once('close', () => {
    if (agent !== socket) return;
    agent = undefined;
    sendFrame(CLOSE, 0);
  });
}

function take(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32BE(at);
    const type = bytes[at + 4];
    const of = bytes.readUInt32BE(at + 5);
    if (type === OPEN) {
      stream = of;
      open();
    } else if (of !== stream) {
      // one that has ended here already
    } else if (type === DATA && agent && ahead) {
      waiting = Buffer.from(bytes.subarray(at + HEADER, end));
      if (owed === 0) sendLines();
    } else if (type === DATA && agent) {
      if (agent.connecting) agent.write(Buffer.from(bytes.subarray(at + HEADER, end)));
      else writeSync(agent._handle.fd, bytes, at + HEADER, end - at - HEADER);
    } else if (type === CLOSE) {
      const left = agent;
      agent = undefined;
      left?.destroy();
    }
    at = end;
  }
}

/** An engine puts 8 bytes before each piece of output. */
function takePieces(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const end = at + 8 + bytes.readUInt32BE(at + 4);
    take(bytes.subarray(at + 8, end));
    at = end;
  }
}

/** Connects so that what is read is handed to `sink` from the shared buffer. */
function reading(path, sink) {
  const socket = connect({
    path,
    onread: { buffer: shared, callback: (length) => sink(shared.subarray(0, length)) ?? true },
  });
  socket.once('end', () => process.exit());
  return socket;
}

if (mode === 'host') {
  const [, program, ...words] = rest;
  const directory = mkdtempSync(join(tmpdir(), 'gbf-'));
  const path = join(directory, 's');
  const server = createServer({ pauseOnConnect: true }).listen(path);
  await once(server, 'listening');
  carrier = reading(path, take);
  const [far] = await once(server, 'connection');
  server.close();
  rmSync(directory, { recursive: true });
  const child = spawn(program, words, { stdio: [far, far, 'inherit'] });
  far.destroy();
  process.once('SIGTERM', () => {
    child.kill();
    process.exit();
  });
} else {
  const [socketPath, id] = rest;
  const body = '{"Detach":false,"Tty":false}';
  let head = '';
  carrier = reading(socketPath, (bytes) => {
    if (head.endsWith('\r\n\r\n')) takePieces(bytes);
    else head += bytes.toString('latin1');
  });
  carrier.write(
    `POST /exec/${id}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
}
