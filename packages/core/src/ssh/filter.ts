import { BridgeError } from '../errors.ts';
import type { KeyChoice } from './identities.ts';
import { blobFingerprint, fingerprint } from './key-blob.ts';
import { ListedKeys } from './listed-keys.ts';
import { FAILURE_MESSAGE, LIST_MESSAGE, MAX_MESSAGE, type SshMessage, SshMessageReader } from './messages.ts';
import { readRequest, type SshRequest } from './requests.ts';
import { ToldBinds } from './told-binds.ts';

/** One thing a client asked of the ssh-agent, for the log. */
export interface SshOperation {
  /** `list`, `sign`, `session-bind`, or the name of what was refused. */
  command: string;
  /** SHA256 fingerprint of the key, when a signature was asked for. */
  key?: string;
  /** The key's comment, if the agent lists it. */
  name?: string;
  /** `signature` of a file or a commit, and not for a login. */
  purpose?: 'signature';
  /** `refused` by the bridge, `error` from the agent, `closed` when no answer came. */
  outcome: 'ok' | 'error' | 'refused' | 'closed';
  /** Why the bridge refused it. */
  note?: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
  durationMs: number;
}

/** A request that has not been answered. */
export type PendingSshOperation = Omit<SshOperation, 'outcome' | 'note' | 'durationMs'>;

/** A signature that somebody wants, and what decides about it. */
export interface SignAttempt {
  /** Whether the agent may be asked for it; a promise keeps it and what follows it back. */
  begin(): boolean | Promise<boolean>;
  /** Whether it may still be asked after a list request that followed `begin`; it may if this is not given. */
  isAllowedStill?(): boolean;
  /**
   * It has been answered, or never will be; false if the answer must not leave. `goesOn`: the client has left, and the
   * agent is still at it.
   */
  finish(outcome: SshOperation['outcome'], durationMs: number, goesOn?: boolean): boolean;
  /** What became of such a one. */
  finishLate?(outcome: 'ok' | 'cancelled' | 'other'): void;
}

/** Options of the filter. */
export interface SshAgentFilterOptions {
  /** Decides about a signature before its request goes to the agent. */
  attemptSign?: ((operation: PendingSshOperation) => SignAttempt) | undefined;
  /** Gets the bytes that are passed on when a signature that was kept back has been decided about. */
  later?: ((passed: Passed) => void) | undefined;
  /** The session can't go on: what decides about such a signature, or what takes those bytes, has failed. */
  broken?: ((error: Error) => void) | undefined;
  /** Which of the agent's keys are listed and may sign; all if not given. */
  offers?: KeyChoice | undefined;
  /** Called when the agent's answer to a bind is not what its client was told: nothing is signed here any more. */
  onDiffering?: ((toldType: number) => void) | undefined;
  onOperation?: ((operation: SshOperation) => void) | undefined;
  now?: () => number;
}

/** The bytes that a call passes on, in each direction. */
export interface Passed {
  toAgent: Buffer[];
  toClient: Buffer[];
}

/**
 * A request whose turn to be answered has not come; `internal` ones are the filter's own question, and the client has
 * had its answer to `told` ones.
 */
interface Waiting {
  kind: 'passed' | 'refused' | 'internal' | 'told';
  /** What the client was told. */
  told?: number;
  /** The signature that an `internal` list decides about; with an `attempt` everything else is decided. */
  message?: SshMessage;
  operation: PendingSshOperation;
  refusal?: string | undefined;
  attempt?: SignAttempt | undefined;
}

/** ssh asks one thing at a time; this is far beyond what any program sends ahead. */
const MAX_PENDING = 1_024;
const MAX_HELD = 64;
const MAX_HELD_BYTES = 2 * MAX_MESSAGE;
const KEY_NOT_GRANTED = 'the target may not use this key';
/** The answer that means success, by operation. */
const SUCCESS: Partial<Record<string, number>> = { list: 12, sign: 14, 'session-bind': 6 };

/**
 * The allowlist between a client and the host's ssh-agent, which has no restricted socket of its own:
 * listing, session-bind, and signing logins and SSHSIG data with a listed key pass; everything else is answered
 * FAILURE here and never reaches the agent. Answers keep the order of the requests.
 */
export class SshAgentFilter {
  readonly #listed: ListedKeys;
  readonly #options: SshAgentFilterOptions;
  #ended = false;
  #clientEnded = false;
  readonly #onOperation: (operation: SshOperation) => void;
  readonly #now: () => number;
  readonly #fromClient = new SshMessageReader('client');
  readonly #fromAgent = new SshMessageReader('agent');
  /** Requests in the order of their answers. */
  #pending: Waiting[] = [];
  /** Messages that wait behind a signature: its key is looked up in the agent's list, or it is decided about. */
  #held: SshMessage[] | undefined;
  /** They wait for the agent's answer to a bind. */
  #awaitsBind = false;
  readonly #told = new ToldBinds();
  /** The signature that is being decided about. */
  #undecided: { operation: PendingSshOperation; attempt: SignAttempt } | undefined;

  constructor(options: SshAgentFilterOptions = {}) {
    this.#options = options;
    this.#onOperation = options.onOperation ?? (() => {});
    this.#now = options.now ?? Date.now;
    this.#listed = new ListedKeys(options.offers, this.#now);
  }

  /** What the client has waited for longest, if it waits. */
  get pending(): PendingSshOperation | undefined {
    return this.#ended ? undefined : (this.#pending[0] ?? this.#undecided)?.operation;
  }

  /** Whether the client has sent its last byte; none that waits for a signature does, unless it has gone. */
  get clientHasEnded(): boolean {
    return this.#clientEnded;
  }

  /** The client has sent its last byte. */
  clientEnded(): void {
    this.#clientEnded = true;
  }

  /** The client's next messages were answered in the target, by these entries: the payload of a TOLD frame. */
  told(note: Buffer): void {
    this.#told.add(note);
  }

  /** Takes bytes of the client; throws SSH_PROTOCOL when they are no messages. */
  fromClient(chunk: Buffer): Passed {
    const passed: Passed = { toAgent: [], toClient: [] };
    this.#fromClient.push(chunk, (message) => this.#request(message, passed));
    this.#answerRefused(passed);
    return passed;
  }

  /** Takes bytes of the agent; throws the same. An answer that nobody asked for is dropped. */
  fromAgent(chunk: Buffer): Passed {
    const passed: Passed = { toAgent: [], toClient: [] };
    this.#fromAgent.push(chunk, (message) => this.#answer(message, passed));
    return passed;
  }

  /**
   * The client has gone, and nothing more of it goes to the agent. True: the agent is signing for it, and may be asking
   * a person; what it says then is taken as before, until `isOver`.
   */
  clientLeft(): boolean {
    this.#dropUndecided();
    for (const { kind, operation, attempt } of this.#pending) {
      if (kind !== 'internal' || attempt) this.#report(operation, 'closed', attempt, kind === 'passed');
    }
    return !this.isOver;
  }

  /** Whether a client that has gone left no signature to wait for. */
  get isOver(): boolean {
    return this.#ended && !this.#pending.some(({ kind, attempt }) => kind === 'passed' && attempt);
  }

  /** The session is over: what was not answered is reported so. */
  end(): void {
    const hasLeft = this.#ended;
    const pending = this.#pending.splice(0);
    for (const { kind, operation, attempt } of pending) {
      if (hasLeft) attempt?.finishLate?.('other');
      else if (kind !== 'internal' || attempt) this.#report(operation, 'closed', attempt);
    }
    this.#dropUndecided();
  }

  #dropUndecided(): void {
    this.#ended = true;
    const undecided = this.#undecided;
    this.#undecided = undefined;
    this.#held = undefined;
    if (undecided) this.#report(undecided.operation, 'closed', undecided.attempt);
  }

  #request(message: SshMessage, passed: Passed): void {
    if (this.#unanswered >= MAX_PENDING) throw tooMuchAhead();
    if (this.#held) {
      this.#hold(message);
      return;
    }
    const request = readRequest(message);
    const operation: PendingSshOperation = { ...describe(request), startedAt: this.#now() };
    const told = this.#told.next();
    const verdict = operation.command === 'sign' ? this.#told.verdict : 'sign';
    if (told !== undefined) {
      this.#compareLater(message, operation, told, passed);
    } else if (verdict === 'wait') {
      this.#held = [];
      this.#awaitsBind = true;
      this.#hold(message);
    } else if (verdict === 'refuse') {
      this.#refuse(operation, "the ssh-agent's answer to session-bind changed");
    } else if (request.refusal !== undefined) {
      this.#refuse(operation, request.refusal);
    } else if (request.blob === undefined) {
      this.#pending.push({ kind: 'passed', operation });
      passed.toAgent.push(message.bytes);
    } else if (
      !this.#listed.isFreshAt(operation.startedAt) ||
      !this.#signWithListed(message, request.blob, operation, passed)
    ) {
      // The client did not list on this connection, or not lately, or the key was added since.
      this.#pending.push({ kind: 'internal', operation, message: message.copy() });
      this.#held = [];
      passed.toAgent.push(LIST_MESSAGE);
    }
  }

  #refuse(operation: PendingSshOperation, refusal: string, attempt?: SignAttempt): void {
    this.#pending.push({ kind: 'refused', operation, refusal, attempt });
  }

  /** Asks for a signature under the name that the agent lists its key by; false if it does not list it. */
  #signWithListed(
    message: SshMessage,
    blob: Buffer,
    operation: PendingSshOperation,
    passed: Passed,
  ): boolean {
    const listed = this.#listed.find(blob);
    if (!listed) return false;
    const name = listed.comment.toString();
    this.#sign(message, { ...operation, key: fingerprint(listed.blob), ...(name ? { name } : {}) }, passed);
    return true;
  }

  /** Passes a bind on that the client has had its answer to; anything else no target of ours tells about. */
  #compareLater(message: SshMessage, operation: PendingSshOperation, told: number, passed: Passed): void {
    if (operation.command === 'session-bind') {
      this.#told.passed();
      this.#pending.push({ kind: 'told', operation, told });
      passed.toAgent.push(message.bytes);
    } else {
      this.#told.notOurs();
      this.#report(operation, 'refused');
    }
  }

  /** Asks the agent for a signature when its turn has come. */
  #sign(message: SshMessage, operation: PendingSshOperation, passed: Passed): void {
    const attempt = this.#options.attemptSign?.(operation);
    const admitted = attempt?.begin() ?? true;
    if (attempt && admitted instanceof Promise) {
      this.#held = [];
      this.#undecided = { operation, attempt };
      const kept = message.copy();
      admitted
        .then((isAdmitted) => this.#continue(kept, { kind: 'passed', operation, attempt }, isAdmitted))
        .catch((error) => this.#options.broken?.(error));
    } else if (admitted) {
      this.#pending.push({ kind: 'passed', operation, attempt });
      passed.toAgent.push(message.bytes);
    } else {
      this.#pending.push({ kind: 'refused', operation, attempt });
    }
  }

  /** A signature has been decided about. */
  #continue(message: SshMessage, waiting: Waiting, isAdmitted: boolean): void {
    if (this.#ended) return;
    this.#undecided = undefined;
    const passed: Passed = { toAgent: [], toClient: [] };
    const isListed = this.#listed.isFreshAt(this.#now()) && this.#listed.find(readRequest(message).blob!);
    if (isAdmitted && !isListed) {
      // A decision can take minutes.
      this.#pending.push({ ...waiting, kind: 'internal', message });
      passed.toAgent.push(LIST_MESSAGE);
    } else {
      this.#pending.push(isAdmitted ? waiting : { ...waiting, kind: 'refused' });
      if (isAdmitted) passed.toAgent.push(message.bytes);
      this.#takeHeld(passed);
    }
    this.#answerRefused(passed);
    this.#options.later?.(passed);
  }

  #takeHeld(passed: Passed): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const next of held) this.#request(next, passed);
  }

  /** With those that wait: what they wait for may come when nobody is there to be told that they are too many. */
  get #unanswered(): number {
    return this.#pending.length + (this.#undecided ? 1 : 0) + (this.#held?.length ?? 0);
  }

  #hold(message: SshMessage): void {
    const held = this.#held!;
    const bytes = held.reduce((sum, { bytes }) => sum + bytes.length, message.bytes.length);
    if (held.length >= MAX_HELD || bytes > MAX_HELD_BYTES) throw tooMuchAhead();
    held.push(message.copy());
  }

  #answer(message: SshMessage, passed: Passed): void {
    const pending = this.#pending.shift();
    if (!pending) return;
    const outcome = message.type === SUCCESS[pending.operation.command] ? 'ok' : 'error';
    if (this.#ended) {
      pending.attempt?.finishLate?.(outcome === 'ok' ? 'ok' : 'cancelled');
      return;
    }
    if (pending.kind === 'internal') {
      this.#decide(pending, message, passed);
    } else if (pending.told !== undefined) {
      this.#report(pending.operation, outcome);
      if (!this.#told.answered(pending.told, message.bytes)) {
        this.#options.onDiffering?.(pending.told);
      }
      this.#goOnBehindBinds(passed);
    } else {
      const mayLeave = this.#report(pending.operation, outcome, pending.attempt);
      passed.toClient.push(mayLeave ? this.#narrowed(pending, message) : FAILURE_MESSAGE);
    }
    this.#answerRefused(passed);
  }

  /** The agent's answers to all binds are known, and decide about the signature that waited for them. */
  #goOnBehindBinds(passed: Passed): void {
    if (!this.#awaitsBind || this.#told.verdict === 'wait') return;
    this.#awaitsBind = false;
    this.#takeHeld(passed);
  }

  /** The agent has listed its keys for a signature that waits. */
  #decide({ operation, message, attempt }: Waiting, list: SshMessage, passed: Passed): void {
    this.#listed.take(list);
    const held = this.#held ?? [];
    this.#held = undefined;
    const blob = message && readRequest(message).blob;
    if (attempt && blob && this.#listed.find(blob)) {
      // An agent that asks a person about something else can take minutes for its list.
      const isAllowed = attempt.isAllowedStill?.() ?? true;
      this.#pending.push({ kind: isAllowed ? 'passed' : 'refused', operation, attempt });
      if (isAllowed) passed.toAgent.push(message.bytes);
    } else if (attempt || !blob || !this.#signWithListed(message, blob, operation, passed)) {
      const isListed = blob !== undefined && this.#listed.has(blob);
      this.#refuse(operation, isListed ? KEY_NOT_GRANTED : 'the ssh-agent does not list this key', attempt);
    }
    // Behind the signature, which may wait by now.
    for (const next of held) this.#request(next, passed);
  }

  /** Refusals whose turn has come: all in front of the first request that the agent has to answer. */
  #answerRefused(passed: Passed): void {
    while (this.#pending[0]?.kind === 'refused') {
      passed.toClient.push(FAILURE_MESSAGE);
      const { operation, attempt, refusal } = this.#pending.shift()!;
      this.#report({ ...operation, ...(refusal === undefined ? {} : { note: refusal }) }, 'refused', attempt);
    }
  }

  /** The agent's answer, with the keys that are not offered taken out of a list. */
  #narrowed({ operation }: Waiting, answer: SshMessage): Buffer {
    if (operation.command !== 'list') return answer.bytes;
    return this.#listed.take(answer)?.bytes ?? FAILURE_MESSAGE;
  }

  /** Tells what became of a request; false if its answer must not leave. */
  #report(
    operation: PendingSshOperation & Pick<SshOperation, 'note'>,
    outcome: SshOperation['outcome'],
    attempt?: SignAttempt,
    goesOn?: boolean,
  ): boolean {
    const durationMs = this.#now() - operation.startedAt;
    const mayLeave = attempt?.finish(outcome, durationMs, goesOn) ?? true;
    this.#onOperation({ ...operation, outcome: mayLeave ? outcome : 'refused', durationMs });
    return mayLeave;
  }
}

/** The log's words for a request: its name and key, nothing else of its contents. */
function describe({ command, blob, content }: SshRequest): Pick<SshOperation, 'command' | 'key' | 'purpose'> {
  if (!blob) return { command };
  const isLogin = content?.kind === 'login';
  return { command, key: blobFingerprint(blob), ...(isLogin ? {} : { purpose: 'signature' }) };
}

function tooMuchAhead(): BridgeError {
  return new BridgeError('SSH_PROTOCOL', {
    what: 'an ssh session was closed',
    why: 'its client sent too many requests without waiting for an answer',
    fix: 'Make sure that what talks to the socket is an ssh program.',
  });
}
