import type { AheadReply, OnceEntry, ToldBlock } from '../assuan/answer-table.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import { BYE_ANSWER, errLine } from '../assuan/unavailable-agent.ts';
import { BridgeError, type ErrorCode } from '../errors.ts';

/** A client session's way to an agent: one block out, one response back. */
export interface AgentChannel {
  /** Sends a block, and with it the lines ahead of it that the client was given answers to. */
  send(block: Block, kept?: KeptLines): Promise<ChannelAnswer>;
  /** Sends such lines for a client that sends no more. */
  passOn?(kept: KeptLines): void;
  close(): void;
}

/** Lines that were answered ahead of a block, and the entries of the table by which. */
export interface KeptLines {
  told: readonly number[];
  lines: string;
}

/** A response, and answers to what the client may ask next. */
export interface ChannelAnswer {
  response: string;
  along?: readonly OnceEntry[];
}

/** A channel that was opened, and the words to greet its client with; they are always an OK. */
export interface OpenedChannel {
  channel: AgentChannel;
  greeting: string;
}

/** A session that the host opened. */
export interface OpenedSession {
  sessionId: string;
  greeting: string;
  /** The response to the first block, if one was sent along. */
  response?: string;
  ahead?: AheadReply;
}

/** The host's AgentProxy as the target sees it, whatever carries the calls. */
export interface CommandExecutor {
  connectAgent(first?: ToldBlock & { block?: string }): Promise<OpenedSession>;
  sendCommands(
    sessionId: string,
    block: string,
    told?: ToldBlock,
  ): Promise<{ response: string; ahead?: AheadReply }>;
  disconnectAgent(sessionId: string): Promise<void>;
}

/** A channel without a host behind it: every command is answered with why the host's agent is unavailable. */
export function unavailableChannel(error: BridgeError): AgentChannel {
  const refusal = errorLine(error);
  return {
    send: async (block) => ({ response: (isBye(block) ? BYE_ANSWER : refusal).toString('latin1') }),
    close: () => {},
  };
}

/** Whether a block asks for the end of the connection; gpg-agent takes commands in either case. */
export function isBye(block: Block): boolean {
  return block.word.toUpperCase() === 'BYE';
}

/** The word that ends a response and says whose turn it is; undefined if it is not a whole response. */
export function turnAfter(response: string): 'OK' | 'ERR' | 'INQUIRE' | undefined {
  if (!response.endsWith('\n')) return undefined;
  const lastLine = response.lastIndexOf('\n', response.length - 2) + 1;
  return LAST_WORDS.find((word) => response.startsWith(word, lastLine));
}

const LAST_WORDS = ['OK', 'ERR', 'INQUIRE'] as const;

/**
 * The libgpg-error code that gpg is given for each of our errors. gpg shows the code's own words and not
 * our text, so the code has to say it; without a better one it is "No agent running".
 */
const GPG_ERRORS: { readonly [code in ErrorCode]?: number } = {
  LINE_TOO_LONG: 263,
  BLOCK_TOO_LARGE: 273,
  CONSENT_DENIED: GPG_ERROR.CANCELED,
  CONSENT_REQUIRED: GPG_ERROR.CANCELED,
};

/** The `ERR` line that tells a client of an error of ours. */
export function errorLine(error: BridgeError): Buffer {
  const code = GPG_ERRORS[error.code] ?? GPG_ERROR.NO_AGENT;
  return errLine(code, error.message);
}

/** The host's side answered with something that no version of it should. */
export function unusable(why: string): BridgeError {
  return new BridgeError('CARRIER_FAILED', {
    what: "the host's answer can't be used",
    why,
    fix: 'Update both ends to the same version.',
  });
}
