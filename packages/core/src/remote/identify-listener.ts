import { setTimeout as delay } from 'node:timers/promises';
import { percentDecode } from '../assuan/percent.ts';
import type { SocketType } from '../socket-type.ts';
import { errorCode, type Question, type Reply, type TargetOperations } from './operations.ts';

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

/** How a line of an agent begins. */
const AGENT_LINE = /^(?:(?:OK|ERR|INQUIRE|S|D|END)(?: |$)|#|$)/;
const LAST_OF_RESPONSE = /^(?:OK|ERR|INQUIRE)\b/;
/** A greeting or a response may have comment lines before it; one with more than this is no agent's. */
const MOST_LINES = 64;

/** SSH_AGENTC_REQUEST_IDENTITIES: length 1, type 11. Every agent answers it, and no person is asked. */
const SSH_QUESTION = Buffer.from([0, 0, 0, 1, 11]);
/** uint32 length, then the type. */
const SSH_HEAD_BYTES = 5;
/** SSH_AGENT_FAILURE and SSH_AGENT_IDENTITIES_ANSWER. */
const SSH_ANSWERS = new Set([5, 12]);

/** A full backlog passes by itself, unless the listener hangs. */
const BACKLOG_RETRY_MS = 50;

const IDENTIFY: Record<
  SocketType,
  (operations: TargetOperations, path: string, options: IdentifyOptions) => Promise<ListenerIdentity>
> = { 'gpg-agent': identifyGpgAgent, 'ssh-agent': identifySshAgent };

/** Connects to a socket and finds out what listens there; rejects with connect's own error. */
export function identifyListener(
  operations: TargetOperations,
  path: string,
  type: SocketType,
  options: IdentifyOptions,
): Promise<ListenerIdentity> {
  return IDENTIFY[type](operations, path, options);
}

async function identifyGpgAgent(
  operations: TargetOperations,
  path: string,
  options: IdentifyOptions,
): Promise<ListenerIdentity> {
  const first = await converse(operations, path, ['GETINFO restricted'], 1, options);
  if (first === 'nothing' || first === 'nonsense') return { answers: first };
  const code = Number(/^ERR (\d+)/.exec(first[0]!.at(-1)!)?.[1]);
  // Any other error is a bridge's whose host is away: no agent of the target's own answers so.
  if ((code & CODE_MASK) !== FALSE) return { answers: 'forwarded' };
  const about = await converse(operations, path, ['GETINFO pid', 'GETINFO socket_name'], 2 + 2, options);
  if (about === 'nothing' || about === 'nonsense') return { answers: 'forwarded' };
  return { answers: 'unrestricted', pid: Number(dataIn(about[0]!)), socketName: dataIn(about[1]!) };
}

/**
 * Sends commands to an Assuan listener; resolves to the lines of its responses, or to what it says instead. An agent
 * answers with so many lines, or has comments before them.
 */
async function converse(
  operations: TargetOperations,
  path: string,
  commands: readonly string[],
  answerLines: number,
  options: IdentifyOptions,
): Promise<string[][] | 'nothing' | 'nonsense'> {
  const bytes = Buffer.from(commands.map((command) => `${command}\n`).join(''));
  for (let expected = 1 + answerLines; ; expected *= 2) {
    const reply = await askPatiently(operations, path, { bytes, count: 1, lines: expected }, options);
    // What follows the last LF is not a line yet.
    const lines = reply.bytes.toString('latin1').split('\n').slice(0, -1);
    const greeting = lines.findIndex((line) => !line.startsWith('#'));
    if (greeting >= 0 && !lines[greeting]!.startsWith('OK')) return 'nonsense';
    const rest = greeting < 0 ? [] : lines.slice(greeting + 1);
    if (!rest.every((line) => AGENT_LINE.test(line))) return 'nonsense';
    const responses = responsesIn(rest);
    if (responses.length >= commands.length) return responses;
    if (reply.reason !== 'enough' || expected > MOST_LINES) return 'nothing';
  }
}

async function identifySshAgent(
  operations: TargetOperations,
  path: string,
  options: IdentifyOptions,
): Promise<ListenerIdentity> {
  const question = { bytes: SSH_QUESTION, count: SSH_HEAD_BYTES, lines: 0 };
  const { bytes } = await askPatiently(operations, path, question, options);
  if (bytes.length < SSH_HEAD_BYTES) return { answers: 'nothing' };
  return { answers: SSH_ANSWERS.has(bytes[4]!) ? 'forwarded' : 'nonsense' };
}

/** Asks, waiting for a place in a full backlog. */
async function askPatiently(
  operations: TargetOperations,
  path: string,
  question: Pick<Question, 'bytes' | 'count' | 'lines'>,
  { timeoutMs, signal }: IdentifyOptions,
): Promise<Reply> {
  for (let waited = 0; ; waited += BACKLOG_RETRY_MS) {
    signal?.throwIfAborted();
    try {
      return await operations.ask(path, { ...question, timeoutMs, signal });
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN' || waited >= timeoutMs) throw error;
      await delay(BACKLOG_RETRY_MS, undefined, signal && { signal });
    }
  }
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

function dataIn(response: readonly string[]): string {
  const data = response.filter((line) => line.startsWith('D ')).map((line) => line.slice(2));
  return percentDecode(Buffer.from(data.join(''), 'latin1')).toString();
}
