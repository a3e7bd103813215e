import { lstatSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { BridgeError } from '@gpg-bridge/core/errors';
import { BoundSocket } from '@gpg-bridge/core/fs/bound-socket';
import { lstatIdentitySync, type SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { type LogCallback, noLog } from '@gpg-bridge/core/log';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { checkPathLength } from '@gpg-bridge/core/remote/keep-path';
import { directoryUnusable, ensureSocketDirectory } from '@gpg-bridge/core/remote/socket-directory';

/** Who holds a remote's gpg socket, as the holder itself says. */
export interface OwnerInfo {
  version: string;
  pid: number;
  /** What the person calls that window. */
  window: string;
}

/** What is at the owner's path: nothing, the socket of a window that is gone, or a living owner. */
export type OwnerLookup =
  | { found: 'nobody' }
  | { found: 'gone'; identity: SocketIdentity }
  | { found: 'owner'; info: OwnerInfo; ended: Promise<void>; leave(): void; peer: OwnerPeer };

/** The line to the owner: it tells what is so, and can be asked for something. */
export interface OwnerPeer {
  /** Every line after the first; set it to hear them, those that came before included. */
  onTold(listener: (told: unknown) => void): void;
  ask(request: unknown): void;
}

/** What an owner says of itself is one line of JSON, and not longer than this. */
const LONGEST_INFO = 4_096;
/** Any other line: fifty operations are some ten thousand bytes. */
const LONGEST_LINE = 256 * 1024;
const BACKLOG = 64;
const BACKLOG_RETRY_MS = 25;

/** Connects to the owner and reads who it is; one that does not say so in time counts as gone. */
export async function findOwner(path: string, timeoutMs: number): Promise<OwnerLookup> {
  const identity = lstatIdentitySync(path);
  if (!identity) return { found: 'nobody' };
  const socket = await connect(path, timeoutMs);
  if (!socket) return { found: 'gone', identity };
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const lines = new LineReader(socket);
  const info = parseOwnerInfo(await lines.first(timeoutMs));
  if (!info) {
    socket.destroy();
    return { found: 'gone', identity };
  }
  const peer: OwnerPeer = {
    onTold: (listener) => lines.onLine((line) => tellJson(line, listener)),
    ask: (request) => void socket.write(`${JSON.stringify(request)}\n`),
  };
  return { found: 'owner', info, ended, leave: () => socket.destroy(), peer };
}

/** Undefined when nobody listens, or the listener has not accepted in time. */
async function connect(path: string, timeoutMs: number): Promise<Socket | undefined> {
  try {
    return await connectTo(path, timeoutMs);
  } catch (cause) {
    if (ABANDONED.has((cause as NodeJS.ErrnoException).code ?? '') && isSocket(path)) return undefined;
    throw new BridgeError('SOCKET_PATH_FOREIGN_FILE', {
      what: `can't find out whether another window holds the gpg socket`,
      why: `${path} is not a socket of ours (${cause instanceof Error ? cause.message : cause})`,
      fix: 'Move it away if nothing needs it, then start again.',
      cause,
    });
  }
}

/** Connects, waiting for a place in a full backlog; rejects with connect's own error. */
async function connectTo(path: string, timeoutMs: number): Promise<Socket> {
  for (let waited = 0; ; waited += BACKLOG_RETRY_MS) {
    try {
      return await new Promise<Socket>((resolve, reject) => {
        const socket = createConnection({ path });
        socket.once('error', reject).once('connect', () => {
          socket.off('error', reject).on('error', () => {}); // a reset shows as a close
          resolve(socket);
        });
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || waited >= timeoutMs) throw error;
      await delay(BACKLOG_RETRY_MS);
    }
  }
}

/** A listener that was killed, one that closed meanwhile, and one that has stopped accepting. */
const ABANDONED = new Set(['ECONNREFUSED', 'ENOENT', 'EAGAIN']);

function isSocket(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() ?? true;
}

/** The lines of a socket, from its first on; one that is too long ends the connection. */
class LineReader {
  #text = '';
  #waiting: string[] = [];
  #listener: ((line: string) => void) | undefined;
  #limit = LONGEST_INFO;

  constructor(private readonly socket: Socket) {
    // The listener is never removed: a socket that is not read does not notice its end.
    socket.setEncoding('utf8').on('data', (text: string) => this.#take(text));
  }

  /** The first line; undefined if it does not come in time, or is none. */
  first(timeoutMs: number): Promise<string | undefined> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs, undefined);
      const done = (line: string | undefined) => {
        clearTimeout(timer);
        this.#listener = undefined;
        this.#limit = LONGEST_LINE;
        resolve(line);
      };
      this.socket.once('close', () => done(undefined));
      this.#listener = done;
    });
  }

  onLine(listener: (line: string) => void): void {
    this.#listener = listener;
    for (const line of this.#waiting.splice(0)) listener(line);
  }

  #take(text: string): void {
    this.#text += text;
    for (let end: number; (end = this.#text.indexOf('\n')) >= 0; ) {
      const line = this.#text.slice(0, end);
      this.#text = this.#text.slice(end + 1);
      if (this.#listener) this.#listener(line);
      else this.#waiting = [...this.#waiting.slice(-1), line];
    }
    if (this.#text.length > this.#limit) this.socket.destroy();
  }
}

function tellJson(line: string, listener: (told: unknown) => void): void {
  let told: unknown;
  try {
    told = JSON.parse(line);
  } catch {
    return; // of another version, or no window of ours
  }
  listener(told);
}

function parseOwnerInfo(line: string | undefined): OwnerInfo | undefined {
  if (line === undefined) return undefined;
  try {
    const { version, pid, window } = JSON.parse(line) as Partial<OwnerInfo>;
    return { version: String(version), pid: Number(pid), window: String(window) };
  } catch {
    return undefined;
  }
}

/** What the owner's end does with those who connect. */
export interface OwnerSocketOptions {
  info: OwnerInfo;
  /** What is so now, for somebody who has just come. */
  told(): unknown;
  onAsked(request: unknown): void;
  log?: LogCallback | undefined;
}

/** The owner's end: tells everybody who connects who it is, and keeps the connection until it lets go. */
export class OwnerSocket {
  readonly #bound: BoundSocket;
  readonly #peers: Set<Socket>;

  private constructor(bound: BoundSocket, peers: Set<Socket>) {
    this.#bound = bound;
    this.#peers = peers;
  }

  /** Takes the place that was found empty or abandoned; undefined if somebody else was faster. */
  static async claim(
    path: string,
    finding: Exclude<OwnerLookup, { found: 'owner' }>,
    { info, told, onAsked, log = noLog }: OwnerSocketOptions,
  ): Promise<OwnerSocket | undefined> {
    const peers = new Set<Socket>();
    const operations = new DirectOperations();
    checkPathLength(path, operations.facts.system);
    await ensureSocketDirectory(operations, dirname(path), log);
    const bound = await BoundSocket.bind(path, {
      backlog: BACKLOG,
      allowHalfOpen: false,
      onError: (error) => log(`${path}: ${error.message}`, 'warn'),
      onConnection: (socket) => {
        peers.add(socket);
        socket.on('error', () => {}).on('close', () => peers.delete(socket));
        new LineReader(socket).onLine((line) => tellJson(line, onAsked));
        socket.write(`${JSON.stringify(info)}\n${JSON.stringify(told())}\n`);
      },
    }).catch((error: unknown) => {
      throw directoryUnusable(dirname(path), error);
    });
    const placed = finding.found === 'gone' ? bound.replace(finding.identity) : bound.placeIfFree();
    if (placed) return new OwnerSocket(bound, peers);
    bound.close();
    return undefined;
  }

  /** Whether others who look for the owner still find this one. */
  holdsPlace(): boolean {
    return this.#bound.holdsPlace();
  }

  /** Tells everybody who is connected what is so now. */
  tell(told: unknown): void {
    const line = `${JSON.stringify(told)}\n`;
    for (const peer of this.#peers) peer.write(line);
  }

  /** Lets go; those who stayed connected notice at once. */
  close(): void {
    this.#bound.close();
    for (const peer of this.#peers) peer.destroy();
  }
}
