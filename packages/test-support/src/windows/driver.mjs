// Runs in Node for Windows and does there what a test asks for: one request of JSON a connection, one answer. Output of
// programs can't be had otherwise: under Wine, Node can't write to pipes of the machine around it.
import { spawn } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';

const [portFile] = process.argv.slice(2);
const relays = new Map();
/** Wine sometimes starts no program for a moment, which Node calls UNKNOWN. */
const START_ATTEMPTS = 5;
const START_PAUSE_MS = 500;

/** Runs a program to its end. */
function run({ program = process.execPath, args, env, input = '', cwd }) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env: { ...process.env, ...env }, cwd, windowsHide: true });
    const output = { stdout: [], stderr: [] };
    for (const name of ['stdout', 'stderr']) child[name].on('data', (bytes) => output[name].push(bytes));
    child.once('error', reject);
    child.once('close', (status) => {
      const text = (name) => Buffer.concat(output[name]).toString();
      resolve({ status, stdout: text('stdout'), stderr: text('stderr') });
    });
    child.stdin.on('error', () => {}); // one that reads nothing
    child.stdin.end(input);
  });
}

/** What can be asked for, by name. */
const ACTIONS = {
  run: async (what) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run(what);
      } catch (error) {
        if (error.code !== 'UNKNOWN' || attempt === START_ATTEMPTS) throw error;
        await new Promise((resolve) => setTimeout(resolve, START_PAUSE_MS));
      }
    }
  },

  /** Kills a process as Windows does: it gets no word of it. */
  kill: ({ pid }) => process.kill(pid, 'SIGKILL'),

  isRunning: ({ pid }) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  },

  /** Joins a named pipe with a port. */
  relay: ({ pipe, port }) =>
    new Promise((resolve, reject) => {
      const server = createServer({ allowHalfOpen: true }, (near) => {
        const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
        for (const [from, to] of [
          [near, far],
          [far, near],
        ]) {
          from.on('error', () => to.destroy());
          from.pipe(to);
          from.once('close', () => to.destroySoon());
        }
      });
      server.once('error', reject);
      server.listen(pipe, () => resolve(true));
      relays.set(pipe, server);
    }),

  exit: () => setImmediate(() => process.exit()) && true,
};

const server = createServer((socket) => {
  let text = '';
  socket.on('error', () => {}); // a test that ended
  socket.setEncoding('utf8');
  socket.on('data', async (piece) => {
    text += piece;
    if (!text.endsWith('\n')) return;
    const { action, ...argument } = JSON.parse(text);
    text = '';
    try {
      socket.end(`${JSON.stringify({ value: await ACTIONS[action](argument) })}\n`);
    } catch (error) {
      socket.end(`${JSON.stringify({ error: String(error) })}\n`);
    }
  });
});

server.listen(0, '127.0.0.1', () => {
  // Renamed, so that whoever waits for the file never reads half of it.
  writeFileSync(`${portFile}.new`, String(server.address().port));
  renameSync(`${portFile}.new`, portFile);
});
