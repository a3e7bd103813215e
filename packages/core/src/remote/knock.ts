import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { ask } from '../assuan/ask.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { percentDecode } from '../assuan/percent.ts';
import { BridgeError, type ErrorCode } from '../errors.ts';
import type { SocketType } from '../socket-type.ts';

/**
 * How a listener answers: as gpg-agent's main socket (`unrestricted`), as its extra socket or an
 * ssh-agent (`forwarded`), with something else, or not at all.
 */
export type Answer = 'unrestricted' | 'forwarded' | 'nonsense' | 'silence';

/** How long to try, and what ends it early. */
export interface KnockOptions {
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** `ERR 67109120 False`: source 4 in the upper byte, code 256. */
const FALSE = 256;
const CODE_MASK = 0xffff;

/** SSH_AGENTC_REQUEST_IDENTITIES: length 1, type 11. Every agent answers it, and no person is asked. */
const REQUEST_IDENTITIES = Buffer.from([0, 0, 0, 1, 11]);
/** SSH_AGENT_FAILURE and SSH_AGENT_IDENTITIES_ANSWER. */
const SSH_ANSWERS = new Set([5, 12]);

/** Errors of a conversation that mean silence; any other is an answer, if not an agent's. */
const SILENCE: ReadonlySet<ErrorCode> = new Set([
  'AGENT_CLOSED',
  'AGENT_GREETING_TIMEOUT',
  'AGENT_RESPONSE_TIMEOUT',
]);

/** A full backlog passes by itself, unless the listener hangs. */
const BACKLOG_RETRY_MS = 25;

const CONVERSATIONS: Record<SocketType, (socket: Socket, timeoutMs: number) => Promise<Answer>> = {
  'gpg-agent': askGpgAgent,
  'ssh-agent': askSshAgent,
};

/** Connects to a socket and finds out how it answers; rejects with connect's own error. */
export async function knock(path: string, kind: SocketType, options: KnockOptions): Promise<Answer> {
  const socket = await connectTo(path, options);
  return converse(socket, options, async () => {
    try {
      return await CONVERSATIONS[kind](socket, options.timeoutMs);
    } catch (error) {
      if (!(error instanceof BridgeError)) throw error;
      return SILENCE.has(error.code) ? 'silence' : 'nonsense';
    }
  });
}

/** What an unrestricted gpg-agent says about itself. */
export async function askWhoYouAre(
  path: string,
  options: KnockOptions,
): Promise<{ pid: number; socketName: string }> {
  const socket = await connectTo(path, options);
  return converse(socket, options, async () => {
    const { responses } = await ask(socket, ['GETINFO pid', 'GETINFO socket_name'], options);
    const [pid, socketName] = responses.map(dataOf);
    return { pid: Number(pid), socketName: socketName ?? '' };
  });
}

/** Connects, waiting for a place in a full backlog; rejects with connect's own error. */
export async function connectTo(path: string, { timeoutMs, signal }: KnockOptions): Promise<Socket> {
  for (let waited = 0; ; waited += BACKLOG_RETRY_MS) {
    signal?.throwIfAborted();
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
      await delay(BACKLOG_RETRY_MS, undefined, signal && { signal });
    }
  }
}

async function converse<T>(socket: Socket, { signal }: KnockOptions, talk: () => Promise<T>): Promise<T> {
  const hangUp = () => socket.destroy();
  signal?.addEventListener('abort', hangUp);
  try {
    signal?.throwIfAborted();
    const result = await talk();
    signal?.throwIfAborted();
    return result;
  } finally {
    signal?.removeEventListener('abort', hangUp);
    hangUp();
  }
}

async function askGpgAgent(socket: Socket, timeoutMs: number): Promise<Answer> {
  const { responses } = await ask(socket, ['GETINFO restricted'], { timeoutMs });
  const code = Number(/^ERR (\d+)/.exec(lastLine(responses[0]!))?.[1]);
  // Any other error is a bridge's that can't reach its host: no agent of the target's own answers so.
  return (code & CODE_MASK) === FALSE ? 'unrestricted' : 'forwarded';
}

function askSshAgent(socket: Socket, timeoutMs: number): Promise<Answer> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, timeoutMs, 'silence');
    const answered = (answer: Answer) => {
      clearTimeout(timer);
      resolve(answer);
    };
    let head = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      // uint32 length, then the type
      if (head.length < 5) head = Buffer.concat([head, chunk.subarray(0, 5 - head.length)]);
      if (head.length === 5) answered(SSH_ANSWERS.has(head[4]!) ? 'forwarded' : 'nonsense');
    });
    socket.once('end', () => answered('silence')).once('close', () => answered('silence'));
    socket.write(REQUEST_IDENTITIES);
  });
}

function lastLine(block: Block): string {
  return block.bytes.toString('latin1').trimEnd().split('\n').at(-1) ?? '';
}

function dataOf(block: Block): string {
  const lines = block.bytes.toString('latin1').split('\n');
  const data = lines.filter((line) => line.startsWith('D ')).map((line) => line.slice(2));
  return percentDecode(Buffer.from(data.join(''), 'latin1')).toString();
}
