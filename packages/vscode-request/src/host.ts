import type { AheadReply, ToldBlock } from '@gpg-bridge/core/assuan/answer-table';
import { AssuanObserver } from '@gpg-bridge/core/assuan/observer';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { CommandExecutor, OpenedSession } from '@gpg-bridge/core/remote/agent-channel';
import {
  type CheckPurpose,
  type ExportedKeys,
  HOST_COMMANDS,
  type HostFacts,
  type KeyRequest,
  type Reply,
  unwrap,
} from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { PrivateKeyWatch, type WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import { assertCompatible } from '@gpg-bridge/vscode-shared/versions';

/** What runs a command of another extension, wherever that extension is. */
export type ExecuteCommand = (command: string, ...args: unknown[]) => Thenable<unknown>;

/** What the host's extension is called with. */
export interface HostOptions {
  execute: ExecuteCommand;
  version: string;
  /** The token of this remote's grant, if it has one. */
  token(): string | undefined;
  keepToken(token: string): void;
  /** Called when an operation waits for the person; returns what ends that. */
  onWaiting(use: WaitingUse): () => void;
  /** Told of every command that the agent has answered. */
  onOperation(operation: Operation): void;
}

/** What a client's first command brings with it. */
type FirstBlock = ToldBlock & { block?: string };

/** Errors that the host's half reported; all others are this side's. */
const FROM_HOST = new WeakSet<BridgeError>();

/** Whether an error is about the person's computer, and not about this remote. */
export function isFromHost(error: BridgeError): boolean {
  return FROM_HOST.has(error);
}

/** The host's extension as seen from the remote. */
export class Host implements CommandExecutor {
  readonly #options: HostOptions;
  readonly #watch: PrivateKeyWatch;
  readonly #observers = new Map<string, AssuanObserver>();

  constructor(options: HostOptions) {
    this.#options = options;
    this.#watch = new PrivateKeyWatch((use) => options.onWaiting(use));
  }

  /** Opens a session with the host's gpg-agent; the person is asked if they have not decided yet. */
  async connectAgent(first?: FirstBlock): Promise<OpenedSession> {
    try {
      return await this.#connect(first);
    } catch (error) {
      if (!(error instanceof BridgeError) || error.code !== 'CONSENT_REQUIRED') throw error;
      await this.check('program-asks');
      return this.#connect(first);
    }
  }

  async #connect(first: FirstBlock | undefined): Promise<OpenedSession> {
    const opened = await this.#call<OpenedSession>(
      'connectAgent',
      this.#options.token(),
      ...(first ? [first] : []),
    );
    const observer = new AssuanObserver((operation) => this.#options.onOperation(operation));
    observer.fromAgent(Buffer.from(opened.greeting, 'latin1'));
    this.#observers.set(opened.sessionId, observer);
    if (first) observeTold(observer, first.lines);
    if (first?.block) observer.fromClient(Buffer.from(first.block, 'latin1'));
    if (opened.response) observer.fromAgent(Buffer.from(opened.response, 'latin1'));
    return opened;
  }

  /** Sends one command or inquiry block of a session, behind the lines that were answered here. */
  async sendCommands(
    sessionId: string,
    block: string,
    told?: ToldBlock,
  ): Promise<{ response: string; ahead?: AheadReply }> {
    const observer = this.#observers.get(sessionId);
    if (told && observer) observeTold(observer, told.lines);
    observer?.fromClient(Buffer.from(block, 'latin1'));
    const send = () =>
      this.#call<{ response: string; ahead?: AheadReply }>(
        'sendCommands',
        sessionId,
        block,
        ...(told ? [told] : []),
      );
    const answer = await this.#watch.exchange(sessionId, block, send, told?.lines);
    observer?.fromAgent(Buffer.from(answer.response, 'latin1'));
    return answer;
  }

  /** Ends a session. */
  async disconnectAgent(sessionId: string): Promise<void> {
    this.#watch.forget(sessionId);
    this.#observers.get(sessionId)?.end();
    this.#observers.delete(sessionId);
    await this.#call('disconnectAgent', sessionId);
  }

  /** Public keys of the host. */
  exportPublicKeys(wanted: KeyRequest): Promise<ExportedKeys> {
    return this.#call('exportPublicKeys', wanted, this.#options.token());
  }

  /** What the host says about itself and this remote, after asking the person if that is the purpose. */
  async check(purpose: CheckPurpose = 'look'): Promise<HostFacts> {
    const { version, token, keepToken } = this.#options;
    const facts = await this.#call<HostFacts>('checkVersion', version, token(), purpose);
    if (typeof facts.token === 'string') keepToken(facts.token);
    return facts;
  }

  /** The same; throws VERSION_MISMATCH unless its extension fits ours. */
  async meet(): Promise<HostFacts> {
    const facts = await this.check();
    assertCompatible(facts.version, this.#options.version);
    return facts;
  }

  /** Runs a command of the host's extension that is there for people; throws if that extension is missing. */
  async run(command: string, ...args: unknown[]): Promise<unknown> {
    try {
      return await this.#options.execute(command, ...args);
    } catch (error) {
      throw carrierFailed(command, error);
    }
  }

  async #call<T>(name: keyof typeof HOST_COMMANDS, ...args: unknown[]): Promise<T> {
    const answer = await this.run(HOST_COMMANDS[name], ...args);
    try {
      return unwrap(answer as Reply<T>);
    } catch (error) {
      if (error instanceof BridgeError) FROM_HOST.add(error);
      throw error;
    }
  }
}

/** Lines that were answered here count as carried out: a key that one of them chose is what the next use is made with. */
function observeTold(observer: AssuanObserver, lines: string): void {
  for (const line of lines.split('\n').slice(0, -1)) {
    observer.fromClient(Buffer.from(`${line}\n`, 'latin1'));
    observer.fromAgent(Buffer.from('OK\n'));
  }
}

/** A problem that the host told of in its facts. */
export function problemOf({ problem }: HostFacts): BridgeError | undefined {
  if (problem === undefined) return undefined;
  const error = BridgeError.fromJSON(problem);
  FROM_HOST.add(error);
  return error;
}

/** A command that fails without a reply never reached the host's extension. */
function carrierFailed(command: string, cause: unknown): BridgeError {
  // VS Code gives no code for this; the message is the only way to tell.
  if (cause instanceof Error && cause.message.includes(`'${command}' not found`)) {
    return new BridgeError('HOST_EXTENSION_MISSING', {
      what: t("can't reach the keys of your computer"),
      why: t('the extension "Local GPG Bridge" is not installed or not enabled there'),
      fix: t('Install it on your computer, or enable it in the Extensions view under "Local".'),
      cause,
    });
  }
  return new BridgeError('CARRIER_FAILED', {
    what: t("can't reach the keys of your computer"),
    why: toBridgeError(cause, '').why,
    fix: t('Check the connection to your computer, then reload the window.'),
    cause,
  });
}
