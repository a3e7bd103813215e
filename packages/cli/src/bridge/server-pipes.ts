import { randomInt } from 'node:crypto';
import { closeSync, readSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { ViewSocket } from '@gpg-bridge/core/io/view-socket';
import type { LogCallback } from '@gpg-bridge/core/log';
import { makesPipes, type Runtime } from '@gpg-bridge/socket-server';
import type { ExecStream, ExitInfo } from '../engine/engine.ts';
import type { HeldProcess, PipeName } from '../engine/held-process.ts';
import { readOpening } from './read-opening.ts';

/** `no` has everything go through what carries a command's streams. */
const VARIABLE = 'GPG_BRIDGE_PIPES';
const MAX_TOKEN = 2 ** 48 - 1;
const MARK = 'PIPES ';
const LINE = /^PIPES (\d{1,7}):(\d{1,15}) (\d{1,7}):(\d{1,15})$/;
const LINE_BYTES = 64;
const ANSWERS = { accept: 'y', decline: 'n' } as const;
/** How long an engine may take to tell which process the server is: it knows, or does not answer at all. */
const PROCESS_MS = 2_000;
/** How long bytes that a server wrote at its end may take, counted from when its engine tells of the end. */
const LAST_BYTES_MS = 500;

/**
 * The way past an engine: the server in a container and the daemon may run on the same kernel, and then two pipes can
 * join them, which the server makes and the daemon opens. Each byte spares the engine's two processes so.
 */
export interface PipeOffer {
  /** By which the server proves that pipes are its own; goes to it with its settings. */
  token: number;
  /** The server's process, if it is to be had. */
  process: Promise<HeldProcess | undefined>;
}

/** Asks for pipes, where the server can make them and its process may be one of this machine. */
export function askForPipes(exec: ExecStream, runtime: Runtime): PipeOffer | undefined {
  if (!exec.process || !makesPipes(runtime) || process.env[VARIABLE] === 'no') return undefined;
  return { token: randomInt(1, MAX_TOKEN), process: exec.process().catch(() => undefined) };
}

/** Waits for the server's pipes and opens them, if they can be opened; returns what carries the frames then. */
export async function joinByPipes(
  exec: ExecStream,
  offer: PipeOffer,
  signal: AbortSignal,
  log: LogCallback,
): Promise<ExecStream> {
  try {
    const printed = await readOpening(exec.stdout, parsePipesLine, signal);
    // Whoever prints something else is no server, which is said when it sends no frames.
    if (Buffer.isBuffer(printed) || !printed.pipes) return exec;
    const held = await Promise.race([offer.process, nothingBy(PROCESS_MS), aborted(signal)]);
    const pipes = held && openPipes(held, printed.pipes, offer.token, log);
    exec.stdin.write(pipes ? ANSWERS.accept : ANSWERS.decline);
    return pipes ? new PipedExecStream(exec, pipes) : exec;
  } finally {
    void offer.process.then((held) => held?.release());
  }
}

/** Resolves to nothing after this time. */
function nothingBy(timeMs: number): Promise<undefined> {
  return new Promise((resolve) => void setTimeout(resolve, timeMs, undefined).unref());
}

/** Rejects when the signal comes. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = () => reject(signal.reason);
    if (signal.aborted) giveUp();
    else signal.addEventListener('abort', giveUp);
  });
}

interface PipeNames {
  toTarget: PipeName;
  fromTarget: PipeName;
}

/** Looks for the line in which a server names its pipes; without `pipes` if what comes is something else. */
function parsePipesLine(printed: Buffer): { pipes?: PipeNames; rest: Buffer } | undefined {
  const end = printed.indexOf('\n');
  const isBegun = MARK.startsWith(printed.toString('latin1', 0, MARK.length));
  if (end < 0 && printed.length < LINE_BYTES && isBegun) return undefined;
  const numbers = LINE.exec(printed.toString('latin1', 0, end))
    ?.slice(1)
    .map(Number);
  if (!numbers) return { rest: printed };
  const [write, writeInode, read, readInode] = numbers as [number, number, number, number];
  return {
    pipes: {
      toTarget: { descriptor: write, inode: writeInode },
      fromTarget: { descriptor: read, inode: readInode },
    },
    rest: printed.subarray(end + 1),
  };
}

/** Descriptors of this process. */
interface OpenPipes {
  toTarget: number;
  fromTarget: number;
}

function openPipes(
  held: HeldProcess,
  names: PipeNames,
  token: number,
  log: LogCallback,
): OpenPipes | undefined {
  const opened: number[] = [];
  const open = (name: PipeName, direction: 'read' | 'write') => {
    const descriptor = held.openPipe(name, direction);
    opened.push(descriptor);
    return descriptor;
  };
  try {
    const fromTarget = open(names.fromTarget, 'read');
    checkToken(fromTarget, token);
    return { fromTarget, toTarget: open(names.toTarget, 'write') };
  } catch (error) {
    for (const descriptor of opened) closeSync(descriptor);
    log(
      `its pipes can't be opened from here, so all goes through the engine: ${(error as Error).message}`,
      'debug',
    );
    return undefined;
  }
}

/**
 * An engine elsewhere may name a process here that has nothing to do with it, and a target pipes that it has only seen:
 * one that the server itself has written to is the server's.
 */
function checkToken(descriptor: number, token: number): void {
  const expected = Buffer.from(`${token}\n`);
  const found = Buffer.alloc(expected.length);
  readSync(descriptor, found);
  if (!found.equals(expected)) throw new Error('what is in the pipe is not from the server');
}

/** A command whose bytes come and go by pipes; what it prints as errors, and its end, are told as before. */
class PipedExecStream implements ExecStream {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<ExitInfo>;

  constructor(
    private readonly exec: ExecStream,
    pipes: OpenPipes,
  ) {
    this.stdin = new Socket({ fd: pipes.toTarget, readable: false, writable: true });
    this.stdout = new ViewSocket({ fd: pipes.fromTarget, readable: true, writable: false });
    this.stdin.on('error', () => {}); // whoever uses it hears of it, too; nobody does before that
    this.stderr = exec.stderr;
    this.exited = exec.exited;
    // An engine that has lost the command has lost this one, too: pipes that others keep open do not count.
    exec.stdout.once('end', () => {
      if (this.stdout.destroyed) return;
      const late = setTimeout(() => this.stdout.destroy(), LAST_BYTES_MS);
      this.stdout.once('close', () => clearTimeout(late));
    });
    // Nothing comes there, and what does would keep the errors back.
    exec.stdout.resume();
  }

  kill(): void {
    this.exec.kill();
    this.stdin.destroy();
    this.stdout.destroy();
  }
}
