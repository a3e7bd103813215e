import type { AheadReply, OnceEntry, ToldBlock } from '../assuan/answer-table.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { isKeyUse } from '../assuan/private-key-commands.ts';
import { toBridgeError } from '../errors.ts';
import type { LogCallback } from '../log.ts';
import {
  type AgentChannel,
  type ChannelAnswer,
  type CommandExecutor,
  type KeptLines,
  type OpenedSession,
  turnAfter,
  unavailableChannel,
  unusable,
} from './agent-channel.ts';
import type { AheadTable } from './told-lines.ts';

/** What a channel to the host needs. */
export interface CarrierChannelOptions {
  executor: CommandExecutor;
  table: AheadTable;
  /** Waits for a session that is being opened, but not for ever. */
  within<T>(opening: Promise<T>, giveBack: (late: T) => void): Promise<T>;
  log: LogCallback;
  /** Told the id of the session on the host. */
  onSession?(sessionId: string): void;
}

const NOTHING_KEPT: KeptLines = { told: [], lines: '' };

/**
 * A client's session on the host. Where the client was greeted from the table it is opened with the first command that
 * waits, and lines that were answered ahead travel with the next one.
 */
export class CarrierChannel implements AgentChannel {
  readonly #options: CarrierChannelOptions;
  #sessionId: string | undefined;
  /** The host could not be reached: every command is answered with why. */
  #unavailable: AgentChannel | undefined;
  #isClosed = false;
  /** What has to be there before the session is ended. */
  #last: Promise<unknown> | undefined;

  constructor(options: CarrierChannelOptions) {
    this.#options = options;
  }

  /** Opens the session at once, and returns the agent's greeting; for a client that has to wait for it. */
  async open(): Promise<string> {
    const { greeting } = await this.#open(NOTHING_KEPT);
    if (typeof greeting === 'string' && turnAfter(greeting) === 'OK') return greeting;
    this.close();
    throw unusable('its greeting is not an OK');
  }

  async send(block: Block, kept: KeptLines = NOTHING_KEPT): Promise<ChannelAnswer> {
    if (this.#unavailable) return this.#unavailable.send(block);
    const text = block.bytes.toString('latin1');
    try {
      // A use of a key may wait for a person, and is a call of its own: the other end shows that it waits.
      if (!this.#sessionId && isKeyUse(block.word.toUpperCase())) await this.#open(NOTHING_KEPT);
      if (!this.#sessionId) return this.#answer(await this.#open(kept, text));
    } catch (error) {
      const failure = toBridgeError(error, "can't reach the host's gpg-agent");
      this.#options.log(`answering in place of the host's gpg-agent: ${failure.message}`, 'warn');
      // The next clients get the host's own word: what it does not let use any more is not answered in its place.
      this.#options.table.set();
      this.#unavailable = unavailableChannel(failure);
      return this.#unavailable.send(block);
    }
    return this.#answer(
      await this.#options.executor.sendCommands(this.#sessionId, text, this.#toldBlock(kept)),
    );
  }

  /** Sends lines that were answered to a client which has gone: every command reaches the agent. */
  passOn(kept: KeptLines): void {
    if (this.#unavailable || kept.told.length === 0) return;
    const { executor } = this.#options;
    this.#last = this.#sessionId
      ? executor.sendCommands(this.#sessionId, '', this.#toldBlock(kept))
      : this.#open(kept, '');
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    void this.#end();
  }

  async #end(): Promise<void> {
    try {
      await this.#last;
      if (this.#sessionId) await this.#options.executor.disconnectAgent(this.#sessionId);
    } catch {
      // The host has often ended the session by itself (after a BYE, with its agent): nothing is left to do.
    }
  }

  async #open(kept: KeptLines, block?: string): Promise<OpenedSession> {
    const { executor, within } = this.#options;
    const first = { ...this.#toldBlock(kept), ...(block === undefined ? {} : { block }) };
    const opened: Partial<OpenedSession> | undefined = await within(
      executor.connectAgent(first),
      ({ sessionId }) => void executor.disconnectAgent(sessionId).catch(() => {}),
    );
    if (typeof opened?.sessionId !== 'string') throw unusable('it opened a session without an id');
    this.#sessionId = opened.sessionId;
    this.#options.onSession?.(opened.sessionId);
    this.#takeTable(opened.ahead);
    return opened as OpenedSession;
  }

  #toldBlock({ told, lines }: KeptLines): ToldBlock {
    return { table: this.#options.table.version, told, lines };
  }

  /** What comes back is checked: the other end may be of another version. */
  #answer(answer: { response?: unknown; ahead?: AheadReply | undefined } | undefined): ChannelAnswer {
    const { response, ahead } = answer ?? {};
    if (typeof response !== 'string') throw unusable('it answered a command with nothing');
    this.#takeTable(ahead);
    const along: readonly OnceEntry[] = ahead?.along ?? [];
    return { response, along };
  }

  #takeTable(ahead: AheadReply | undefined): void {
    if (ahead?.table) this.#options.table.set(ahead.table, ahead.table.version);
  }
}
