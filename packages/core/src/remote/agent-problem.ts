import { errorValueOf } from '../assuan/error-codes.ts';
import type { SocketType } from '../socket-type.ts';
import { printable } from '../text/escape.ts';
import { errorCode, type Question, type TargetOperations } from './operations.ts';

/** How long the host's agent may take for a question that asks no person. */
const ANSWER_TIMEOUT_MS = 2_000;
const MAX_REASON = 500;

type AgentQuestion = Pick<Question, 'bytes' | 'count' | 'lines'>;

/** The greeting, the answer, and the last word before the agent closes. A restricted one says OK to the question. */
const GPG_QUESTION: AgentQuestion = {
  bytes: Buffer.from('GETINFO restricted\nBYE\n'),
  count: 1,
  lines: 3,
};
/** SSH_AGENTC_REQUEST_IDENTITIES: length 1, type 11. An answer has a length of four bytes and its type. */
const SSH_QUESTION: AgentQuestion = { bytes: Buffer.from([0, 0, 0, 1, 11]), count: 5, lines: 0 };
const SSH_IDENTITIES_ANSWER = 12;

/**
 * Asks the host's agent something through a socket in the target, as a client there would. Resolves to why that
 * does not work, in words for a person, or to undefined if it does.
 */
export async function agentProblem(
  operations: TargetOperations,
  path: string,
  type: SocketType,
): Promise<string | undefined> {
  const question = type === 'gpg-agent' ? GPG_QUESTION : SSH_QUESTION;
  try {
    const { bytes, reason } = await operations.ask(path, { ...question, timeoutMs: ANSWER_TIMEOUT_MS });
    const problem = type === 'gpg-agent' ? gpgProblem(bytes) : sshProblem(bytes);
    return problem && reason === 'timeout'
      ? `no answer came within ${ANSWER_TIMEOUT_MS / 1000} s`
      : printable(problem ?? '', MAX_REASON) || undefined;
  } catch (error) {
    return printable(`nobody answers there (${errorCode(error) || (error as Error).message})`, MAX_REASON);
  }
}

function gpgProblem(bytes: Buffer): string | undefined {
  const lines = bytes
    .toString()
    .split('\n')
    .slice(0, -1)
    .filter((line) => !line.startsWith('#'));
  const [greeting = '', answer = ''] = lines;
  if (/^OK\b/.test(greeting) && /^OK\b/.test(answer)) return undefined;
  if (errorValueOf(answer) === undefined) return 'what answers there does not speak as gpg-agent does';
  // `ERR 67108941 No agent running <GPG Agent> - REASON` is the bridge's own answer.
  return / - (.*)$/.exec(answer)?.[1] ?? "the target's own gpg-agent answers there";
}

function sshProblem(bytes: Buffer): string | undefined {
  if (bytes[4] === SSH_IDENTITIES_ANSWER) return undefined;
  return bytes.length === 0
    ? "the host's ssh-agent is unavailable"
    : "the host's ssh-agent does not list its keys";
}
