import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from './support.mjs';

const PROGRAMS = ['client', 'agent', 'floor'];

/** Compiles the programs in C; static, so that they also run in a container. */
export async function compile(directory, { runOk }) {
  const paths = {};
  for (const name of PROGRAMS) {
    paths[name] = join(directory, name);
    const files = [`${name}.c`, 'wire.c'].map((source) => join(ROOT, 'bench', source));
    await runOk('cc', ['-O2', '-Wall', '-Wextra', '-static', '-pthread', '-o', paths[name], ...files]);
  }
  return paths;
}

/** The doubles that a client printed. */
export function samplesOf(stdout) {
  const bytes = Uint8Array.from(stdout); // aligned, unlike a view of a pool
  return [...new Float64Array(bytes.buffer)];
}

/** Runs the client to its end and returns its samples. */
export async function runClient(program, words, env = process.env) {
  const child = startClient(program, words, env);
  child.process.stdin.end();
  return child.done;
}

/** Starts the client; `done` resolves with its samples, `said` when it prints on its standard error. */
export function startClient(program, words, env = process.env) {
  const child = spawn(program, words.map(String), { env, stdio: 'pipe' });
  const chunks = [];
  let complaint = '';
  child.stdout.on('data', (chunk) => chunks.push(chunk));
  child.stderr.on('data', (chunk) => {
    complaint += chunk;
  });
  const done = once(child, 'close').then(([status]) => {
    if (status === 0) return samplesOf(Buffer.concat(chunks));
    throw new Error(`client ${words.join(' ')} ended with ${status}: ${complaint.trim().slice(-500)}`);
  });
  return { process: child, done, said: Promise.race([once(child.stderr, 'data'), done]) };
}
