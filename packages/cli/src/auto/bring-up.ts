import { BridgeError, type ErrorCode, toBridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { ContainerDetails, Engine, EngineKind } from '../engine/engine.ts';
import type { BridgeInfo, EnsureOptions } from '../manager/types.ts';
import { KeyedQueue } from './keyed-queue.ts';
import { judge, type Verdict, withoutInherited } from './matching.ts';
import { type Rule, ruleName } from './rules.ts';
import { noteWaiting } from './waiting.ts';

/** What bringing bridges up needs. */
export interface BringUpOptions {
  /** The rules as they are now. */
  rules: () => readonly Rule[];
  ensureBridge: (target: string, options: EnsureOptions) => Promise<BridgeInfo>;
  log: LogCallback;
  /** Tells the person, who may not read a log, that something waits. */
  notice: (text: string) => void;
  /** Nothing is tried again once it is aborted. */
  signal: AbortSignal;
}

/** A bridge that is being started is a process of Node here and one in the container: a few at a time. */
const AT_ONCE = 4;
/** Pauses before further attempts: what keeps a bridge from coming up often passes. */
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000];

/** After so many attempts a bridge from before a container's start would have noticed that. */
const SETTLED_ATTEMPTS = 3;

/** What does not pass by itself. */
const LASTING: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'USAGE',
  'TARGET_NOT_FOUND',
  'TARGET_NO_RUNTIME',
  'SOCKET_HELD_BY_FORWARD',
  'SOCKET_IS_HOST_AGENT',
  'TIME_OVER',
  'GRANT_UNREADABLE',
]);

/** Gives containers that a rule is for their bridges. */
export class BringUp {
  readonly #options: BringUpOptions;
  readonly #queue = new KeyedQueue(AT_ONCE);
  /** When the containers were started that need nothing more, by engine and ID. */
  readonly #done = new Map<string, number | undefined>();
  readonly #retries = new Map<string, NodeJS.Timeout>();

  constructor(options: BringUpOptions) {
    this.#options = options;
  }

  /** A container was started, or is seen for the first time. */
  look(kind: EngineKind, engine: Engine, id: string, attempt = 0): void {
    const key = `${kind}:${id}`;
    clearTimeout(this.#retries.get(key));
    this.#retries.delete(key);
    this.#queue.add(key, () => this.#handle(kind, engine, id, attempt));
  }

  /** These are the containers of an engine that run; what is known of others is forgotten. */
  lookAtAll(kind: EngineKind, engine: Engine, ids: readonly string[]): void {
    const running = new Set(ids.map((id) => `${kind}:${id}`));
    for (const key of this.#done.keys()) {
      if (key.startsWith(`${kind}:`) && !running.has(key)) this.#done.delete(key);
    }
    for (const id of ids) this.look(kind, engine, id);
  }

  /** A container has ended; its bridge sees that by itself. */
  forget(kind: EngineKind, id: string): void {
    this.#done.delete(`${kind}:${id}`);
  }

  /** Begins nothing more, and resolves when what is being done is over. */
  async close(): Promise<void> {
    for (const retry of this.#retries.values()) clearTimeout(retry);
    await this.#queue.close();
  }

  async #handle(kind: EngineKind, engine: Engine, id: string, attempt: number): Promise<void> {
    const key = `${kind}:${id}`;
    let name = id.slice(0, 12);
    try {
      if (this.#options.rules().length === 0) return;
      const details = await engine.describeContainer(id);
      name = details.name;
      const { startedAt } = details;
      if (!details.running || (this.#done.has(key) && this.#done.get(key) === startedAt)) return;
      const verdict = await this.#judge(kind, engine, details);
      if (verdict.kind === 'none') return;
      if (verdict.kind === 'waiting') return this.#note(kind, details, verdict);
      const { rule } = verdict;
      const info = await this.#options.ensureBridge(key, {
        ...rule.options,
        rule: ruleName(rule),
        keep: true,
      });
      // One that still works later on attaches again by itself.
      if (isOlder(info, details) && attempt < SETTLED_ATTEMPTS) throw endingBridge(info);
      this.#done.set(key, startedAt);
      const how = info.result === 'new' ? 'is up' : 'was up already';
      this.#options.log(`${kind}:${name}: the bridge ${how} (rule ${ruleName(rule)})`, 'info');
    } catch (error) {
      this.#failed(kind, engine, id, name, attempt, error);
    }
  }

  async #judge(kind: EngineKind, engine: Engine, details: ContainerDetails): Promise<Verdict> {
    const rules = this.#options.rules();
    // An image is only asked about if its labels can matter.
    const matter = details.labels.size > 0 && rules.some(({ selector }) => selector.kind !== 'name');
    const ownLabels = matter ? await this.#ownLabels(kind, engine, details) : new Map<string, string>();
    return judge(rules, { engine: kind, details, ownLabels });
  }

  /** None where the image can't be looked at: then nobody knows which of them it brought. */
  async #ownLabels(
    kind: EngineKind,
    engine: Engine,
    { name, labels, image }: ContainerDetails,
  ): Promise<ReadonlyMap<string, string>> {
    try {
      return withoutInherited(labels, await engine.imageLabels(image));
    } catch (error) {
      const why = toBridgeError(error, 'its image has no description').message;
      this.#options.log(`${kind}:${name}: its labels count for nothing: ${why}`, 'warn');
      return new Map();
    }
  }

  #note(
    engine: EngineKind,
    { name, imageName }: ContainerDetails,
    { rule, origin }: Extract<Verdict, { kind: 'waiting' }>,
  ): void {
    const waiting = { rule: ruleName(rule), engine, container: name, imageName, ...origin };
    if (!noteWaiting({ ...waiting, since: new Date().toISOString() }, this.#options.rules())) return;
    const from = origin.directory === undefined ? 'its image' : 'its image or its directory';
    this.#options.log(
      `${engine}:${name} waits: ${from} is new to the rule ${ruleName(rule)}; see gpg-bridge auto approve`,
      'warn',
    );
    this.#options.notice(`${engine}:${name} waits for you: gpg-bridge auto approve`);
  }

  #failed(kind: EngineKind, engine: Engine, id: string, name: string, attempt: number, error: unknown): void {
    const failure = toBridgeError(error, 'no bridge');
    if (this.#options.signal.aborted) return; // what was being started has been given up
    if (failure.code === 'TARGET_NOT_FOUND') return; // it has been removed already
    const pause = LASTING.has(failure.code) ? undefined : RETRY_MS[attempt];
    const next =
      pause === undefined
        ? 'it is tried again when the container starts again'
        : `next attempt in ${pause / 1_000} s`;
    this.#options.log(`${kind}:${name}: ${failure.message} (${next})`, 'warn');
    if (pause === undefined) return;
    this.#retries.set(
      `${kind}:${id}`,
      setTimeout(() => this.look(kind, engine, id, attempt + 1), pause),
    );
  }
}

/** Whether a bridge is from before the container's last start: it is about to notice that this has ended. */
function isOlder({ result, started }: BridgeInfo, { startedAt }: ContainerDetails): boolean {
  return result !== 'new' && startedAt !== undefined && Date.parse(started) < startedAt;
}

function endingBridge({ target }: BridgeInfo): BridgeError {
  return new BridgeError('BRIDGE_BROKEN', {
    what: `the bridge to ${target} is about to end`,
    why: 'it is from before the container was started again',
    fix: 'Another one is started after it.',
  });
}
