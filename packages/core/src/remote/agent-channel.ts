import type { Block } from '../assuan/block-scanner.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import { BYE_ANSWER, errLine } from '../assuan/unavailable-agent.ts';
import { BridgeError, type ErrorCode } from '../errors.ts';

/** A client session's way to an agent: one block out, one response back. */
export interface AgentChannel {
  send(block: Block): Promise<string>;
  close(): void;
}

/** A channel that was opened, and the words to greet its client with; they are always an OK. */
export interface OpenedChannel {
  channel: AgentChannel;
  greeting: string;
}

/** The host's AgentProxy as the target sees it, whatever carries the calls. */
export interface CommandExecutor {
  connectAgent(): Promise<{ sessionId: string; greeting: string }>;
  sendCommands(sessionId: string, block: string): Promise<{ response: string }>;
  disconnectAgent(sessionId: string): Promise<void>;
}

/** Opens a session on the host. What comes back is checked: the other end may be of another version. */
export async function openCarrierChannel(executor: CommandExecutor): Promise<OpenedChannel> {
  const opened: Partial<Awaited<ReturnType<CommandExecutor['connectAgent']>>> | undefined =
    await executor.connectAgent();
  if (typeof opened?.sessionId !== 'string') throw unusable('it opened a session without an id');
  const channel = carrierChannel(executor, opened.sessionId);
  const { greeting } = opened;
  if (typeof greeting === 'string' && turnAfter(greeting) === 'OK') return { channel, greeting };
  channel.close();
  throw unusable('its greeting is not an OK');
}

function carrierChannel(executor: CommandExecutor, sessionId: string): AgentChannel {
  return {
    async send(block) {
      const answer: { response?: unknown } | undefined = await executor.sendCommands(
        sessionId,
        block.bytes.toString('latin1'),
      );
      if (typeof answer?.response === 'string') return answer.response;
      throw unusable('it answered a command with nothing');
    },
    close: () => void disconnect(executor, sessionId),
  };
}

async function disconnect(executor: CommandExecutor, sessionId: string): Promise<void> {
  try {
    await executor.disconnectAgent(sessionId);
  } catch {
    // The host has often ended the session by itself (after a BYE, with its agent): nothing is left to do.
  }
}

/** A channel without a host behind it: every command is answered with why the host's agent is unavailable. */
export function unavailableChannel(error: BridgeError): AgentChannel {
  const refusal = errorLine(error);
  return {
    send: async (block) => (isBye(block) ? BYE_ANSWER : refusal).toString('latin1'),
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
