import { setTimeout as delay } from 'node:timers/promises';
import { percentDecode } from '../assuan/percent.ts';
import type { SocketType } from '../socket-type.ts';
import { errorCode, type Reply, type TargetOperations } from './operations.ts';

/** What listens at a path, by the way it answers. */
export type ListenerIdentity =
  /** gpg-agent's main socket; with its process and its own name for the socket. */
  | { answers: 'unrestricted'; pid: number; socketName: string }
  /** gpg-agent's extra socket, or an ssh-agent. */
  | { answers: 'forwarded' }
  /** Not as an agent does. */
  | { answers: 'nonsense' }
  | { answers: 'nothing' };

/** How long to try, and what ends it early. */
export interface IdentifyOptions {
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** `ERR 67109120 False`: source 4 in the upper byte, code 256. */
const FALSE = 256;
const CODE_MASK = 0xffff;

/** BYE makes an agent close, so that nothing has to be known about what it says before. */
const GPG_QUESTION = Buffer.from('GETINFO restricted\nGETINFO pid\nGETINFO socket_name\nBYE\n');
const GPG_LAST_WORDS = 'OK closing connection';
/** How a line of an agent begins. */
const AGENT_LINE = /^(?:(?:OK|ERR|INQUIRE|S|D|END)(?: |$)|#|$)/;
const LAST_OF_RESPONSE = /^(?:OK|ERR|INQUIRE)\b/;

/** SSH_AGENTC_REQUEST_IDENTITIES: length 1, type 11. Every agent answers it, and no person is asked. */
const SSH_QUESTION = Buffer.from([0, 0, 0, 1, 11]);
/** uint32 length, then the type. */
const SSH_HEAD_BYTES = 5;
/** SSH_AGENT_FAILURE and SSH_AGENT_IDENTITIES_ANSWER. */
const SSH_ANSWERS = new Set([5, 12]);

/** A full backlog passes by itself, unless the listener hangs. */
const BACKLOG_RETRY_MS = 50;

interface Conversation {
  bytes: Buffer;
  count: number;
  text: string;
  understand(reply: Reply): ListenerIdentity;
}

const CONVERSATIONS: Record<SocketType, Conversation> = {
  'gpg-agent': { bytes: GPG_QUESTION, count: 1, text: GPG_LAST_WORDS, understand: understandGpgAgent },
  'ssh-agent': { bytes: SSH_QUESTION, count: SSH_HEAD_BYTES, text: '', understand: understandSshAgent },
};

/** Connects to a socket and finds out what listens there; rejects with connect's own error. */
export async function identifyListener(
  operations: TargetOperations,
  path: string,
  type: SocketType,
  { timeoutMs, signal }: IdentifyOptions,
): Promise<ListenerIdentity> {
  const { understand, ...question } = CONVERSATIONS[type];
  for (let waited = 0; ; waited += BACKLOG_RETRY_MS) {
    signal?.throwIfAborted();
    try {
      return understand(await operations.ask(path, { ...question, timeoutMs, signal }));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN' || waited >= timeoutMs) throw error;
      await delay(BACKLOG_RETRY_MS, undefined, signal && { signal });
    }
  }
}

function understandGpgAgent({ bytes }: Reply): ListenerIdentity {
  // What follows the last LF is not a line yet.
  const lines = bytes.toString('latin1').split('\n').slice(0, -1);
  const greeting = lines.findIndex((line) => !line.startsWith('#'));
  if (greeting < 0) return { answers: 'nothing' };
  if (!lines[greeting]!.startsWith('OK')) return { answers: 'nonsense' };
  const [restricted, pid, socketName] = responsesIn(lines.slice(greeting + 1));
  if (!restricted) {
    const isAgent = lines.slice(greeting + 1).every((line) => AGENT_LINE.test(line));
    return { answers: isAgent ? 'nothing' : 'nonsense' };
  }
  const code = Number(/^ERR (\d+)/.exec(restricted.at(-1)!)?.[1]);
  // Any other error is a bridge's whose host is away: no agent of the target's own answers so.
  if ((code & CODE_MASK) !== FALSE) return { answers: 'forwarded' };
  return { answers: 'unrestricted', pid: Number(dataIn(pid)), socketName: dataIn(socketName) };
}

function responsesIn(lines: readonly string[]): string[][] {
  const responses: string[][] = [];
  let current: string[] = [];
  for (const line of lines) {
    current.push(line);
    if (!LAST_OF_RESPONSE.test(line)) continue;
    responses.push(current);
    current = [];
  }
  return responses;
}

function dataIn(response: readonly string[] = []): string {
  const data = response.filter((line) => line.startsWith('D ')).map((line) => line.slice(2));
  return percentDecode(Buffer.from(data.join(''), 'latin1')).toString();
}

function understandSshAgent({ bytes }: Reply): ListenerIdentity {
  if (bytes.length < SSH_HEAD_BYTES) return { answers: 'nothing' };
  return { answers: SSH_ANSWERS.has(bytes[4]!) ? 'forwarded' : 'nonsense' };
}
