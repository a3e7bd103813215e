import { BridgeError } from '@gpg-bridge/core/errors';
import type { Memento } from 'vscode';
import type { Remote } from './remote-authority.ts';

/** What a person can answer when a remote asks for the first time. */
export type ConsentAnswer = 'allow' | 'only-now' | 'never';

/** How a remote stands: an answer, or `ask` while there is none. */
export type Standing = ConsentAnswer | 'ask';

/** One remote that the person has decided about. */
export interface Decision extends Remote {
  answer: ConsentAnswer;
}

/** The questions that only a person on the host can answer. */
export interface ConsentDialogs {
  /** Undefined when the dialog was closed without an answer. */
  ask(remote: Remote): Promise<ConsentAnswer | undefined>;
  /** Whether every remote may really use the keys, as the setting says. */
  confirmAlways(): Promise<boolean>;
}

/** Where answers are kept, and how the person is asked. */
export interface ConsentOptions {
  store: Memento;
  dialogs: ConsentDialogs;
  /** Whether the setting says that every remote is allowed. */
  always(): boolean;
  /** Told when an answer was given or changed. */
  onChanged?(): void;
  now?(): number;
}

const DECISIONS_KEY = 'consent';
const ALWAYS_KEY = 'consent.alwaysConfirmed';
/** A dialog that was closed is not opened again at once, however often a remote asks. */
const QUIET_MS = 10_000;

type Kept = Record<string, { label: string; answer: 'allow' | 'never' }>;

/** Who may use the host's keys: decided by the person on the host and kept there, by remote authority. */
export class Consent {
  readonly #options: ConsentOptions;
  readonly #onlyNow = new Map<string, Remote>();
  readonly #asking = new Map<string, Promise<void>>();
  readonly #closedAt = new Map<string, number>();

  constructor(options: ConsentOptions) {
    this.#options = options;
  }

  /** Returns if the remote may use the keys, after asking if need be; throws CONSENT_DENIED otherwise. */
  async require(remote: Remote): Promise<void> {
    this.#forgetAlways();
    if (this.standingOf(remote) === 'ask') await this.#askOnce(remote);
    this.assertAllowed(remote);
  }

  /** The same without asking, for a session that is already open. */
  assertAllowed(remote: Remote): void {
    const standing = this.standingOf(remote);
    if (standing === 'ask') throw notAnswered(remote);
    if (standing === 'never') throw refused(remote);
  }

  /** What the person has answered about a remote, or what follows from the settings. */
  standingOf({ authority }: Remote): Standing {
    const kept = this.#kept;
    if (Object.hasOwn(kept, authority)) return kept[authority]!.answer;
    if (this.#onlyNow.has(authority)) return 'only-now';
    return this.#options.always() && this.#options.store.get(ALWAYS_KEY, false) ? 'allow' : 'ask';
  }

  /** Everything that was decided, those for this window alone included. */
  decisions(): Decision[] {
    const kept = Object.entries(this.#kept).map(([authority, entry]) => ({ authority, ...entry }));
    const now = [...this.#onlyNow.values()].map((remote) => ({ ...remote, answer: 'only-now' as const }));
    return [...kept, ...now].sort((a, b) => a.label.localeCompare(b.label));
  }

  /** Keeps an answer that the person gave, in place of an earlier one. */
  async decide(remote: Remote, answer: ConsentAnswer): Promise<void> {
    const { authority, label } = remote;
    this.#closedAt.delete(authority);
    this.#onlyNow.delete(authority);
    if (answer === 'only-now') this.#onlyNow.set(authority, remote);
    const { [authority]: _former, ...others } = this.#kept;
    await this.#keep(answer === 'only-now' ? others : { ...others, [authority]: { label, answer } });
  }

  /** Forgets what was decided, so that the remote has to ask again. */
  async forget(authority: string): Promise<void> {
    this.#onlyNow.delete(authority);
    this.#closedAt.delete(authority);
    const { [authority]: _former, ...others } = this.#kept;
    await this.#keep(others);
  }

  get #kept(): Kept {
    return this.#options.store.get<Kept>(DECISIONS_KEY, {});
  }

  async #keep(kept: Kept): Promise<void> {
    await this.#options.store.update(DECISIONS_KEY, kept);
    this.#options.onChanged?.();
  }

  /** Once the setting is changed back, its confirmation does not count any more. */
  #forgetAlways(): void {
    const { always, store } = this.#options;
    if (!always() && store.get(ALWAYS_KEY, false)) void store.update(ALWAYS_KEY, undefined);
  }

  /** Clients that come while the dialog is open wait for the same answer. */
  #askOnce(remote: Remote): Promise<void> {
    const { authority } = remote;
    const asking =
      this.#asking.get(authority) ?? this.#ask(remote).finally(() => this.#asking.delete(authority));
    this.#asking.set(authority, asking);
    return asking;
  }

  async #ask(remote: Remote): Promise<void> {
    const { always, dialogs, store, now = Date.now } = this.#options;
    const closedAt = this.#closedAt.get(remote.authority);
    if (closedAt !== undefined && now() - closedAt < QUIET_MS) return;
    // Extensions in a remote can write the person's settings through VS Code, so the setting alone
    // opens nothing: it has to be confirmed once.
    if (always() && (await dialogs.confirmAlways())) {
      await store.update(ALWAYS_KEY, true);
      return;
    }
    const answer = await dialogs.ask(remote);
    if (answer) await this.decide(remote, answer);
    else this.#closedAt.set(remote.authority, now());
  }
}

function refused({ label }: Remote): BridgeError {
  return new BridgeError('CONSENT_DENIED', {
    what: 'the keys of your computer are not available here',
    why: `you chose never to allow ${label} to use them`,
    fix: 'To change that, open the GPG Bridge menu in the status bar and choose "What is allowed".',
  });
}

function notAnswered({ label }: Remote): BridgeError {
  return new BridgeError('CONSENT_DENIED', {
    what: 'the keys of your computer are not available here',
    why: `you have not allowed ${label} to use them`,
    fix: 'Try again and choose Allow, or open the GPG Bridge menu in the status bar.',
  });
}
