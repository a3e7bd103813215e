import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { CheckPurpose, Permission, StopScope } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { ConfirmedSettings } from './confirmed-settings.ts';
import type { GrantStore, KeptDecision } from './grant-store.ts';
import type { Remote } from './remote-authority.ts';

/** What a person can answer when a remote asks; `forMs` makes Allow end by itself. */
export type ConsentAnswer = { is: 'allow'; forMs?: number } | { is: 'only-now' } | { is: 'never' };

/** The questions about remotes that only a person on the host can answer. */
export interface ConsentDialogs {
  /** Undefined when the dialog was closed without an answer. */
  ask(remote: Remote): Promise<ConsentAnswer | undefined>;
  /** Whether it shall go on after a person's Stop. */
  confirmStart(what: string): Promise<boolean>;
}

/** Where answers are kept, and how the person is asked. */
export interface ConsentOptions {
  store: GrantStore;
  dialogs: ConsentDialogs;
  settings: ConfirmedSettings;
  /** Told when an answer was given or changed in this window. */
  onChanged?(): void;
  now?(): number;
}

/** One remote that the person has decided about. */
export interface Decision extends Remote {
  answer: 'allow' | 'only-now' | 'never' | undefined;
  until?: number | undefined;
  off: boolean;
}

/** How a remote stands, and until when. */
export interface Standing {
  permission: Permission;
  until?: number | undefined;
}

/** How long a dialog that was closed stays closed, however often programs ask; longer each time. */
const QUIET_MS = [10_000, 60_000, 10 * 60_000] as const;
const TOKEN_BYTES = 32;
/** A remote whose files were deleted asks again and gets another token; the oldest are dropped. */
const MOST_TOKENS = 8;

/**
 * Who may use the host's keys: decided by the person on the host and kept there. A lasting permission rests
 * on the remote's authority and on a token that only that remote's half was given.
 */
export class Consent {
  readonly #options: ConsentOptions;
  readonly #now: () => number;
  /** Given in this window, for as long as it lives. */
  #onlyNow = false;
  /** Stopped in this window, where its remote has no certain name. */
  #windowOff = false;
  #asking: Promise<string | undefined> | undefined;
  #closed = { times: 0, at: 0 };

  constructor(options: ConsentOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /**
   * What the remote may do now; nobody is asked. That the computer is stopped is told to those alone who would
   * be allowed otherwise.
   */
  standing(remote: Remote, token: unknown): Standing {
    const granted = this.#granted(remote, token);
    const { stopped } = this.#options.store.read();
    if (granted.permission !== 'allowed' || !this.isStopped()) return granted;
    const { until } = stopped!;
    return until === undefined ? { permission: 'stopped' } : { permission: 'paused', until };
  }

  #granted(remote: Remote, token: unknown): Standing {
    const { remotes } = this.#options.store.read();
    const kept = Object.hasOwn(remotes, remote.authority) ? remotes[remote.authority]! : undefined;
    if (this.#windowOff || kept?.off) return { permission: 'off' };
    if (kept?.answer === 'never') return { permission: 'refused' };
    if (this.#onlyNow) return { permission: 'allowed' };
    if (remote.certain) {
      const { until } = kept ?? {};
      const granted = kept?.answer === 'allow' && !this.#isOver(until) && knows(kept, token);
      if (granted) return until === undefined ? { permission: 'allowed' } : { permission: 'allowed', until };
      if (this.#options.settings.always()) return { permission: 'allowed' };
    }
    return { permission: 'undecided' };
  }

  /** Throws unless the remote is allowed. */
  assertAllowed(remote: Remote, token: unknown): void {
    const { permission } = this.standing(remote, token);
    if (permission !== 'allowed') throw notAllowed(permission, remote);
  }

  /**
   * Has the person asked if nothing is decided; returns the token of a lasting permission that they gave.
   * Clients that come while the dialog is open wait for the same answer.
   */
  async ask(remote: Remote, token: unknown, purpose: CheckPurpose): Promise<string | undefined> {
    const { permission } = this.standing(remote, token);
    const personAsks = purpose === 'person-asks';
    if (permission === 'allowed' && personAsks)
      await this.#options.settings.confirm(undefined, { personAsks });
    const asks = permission === 'undecided' || (permission === 'refused' && personAsks);
    if (!asks) return undefined;
    if (purpose === 'program-asks' && (this.#isQuiet() || this.isStopped())) return undefined;
    this.#asking ??= this.#ask(remote, token, personAsks).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** Everything that was decided, the answer for this window alone included. */
  decisions(here: Remote | undefined): Decision[] {
    const { remotes } = this.#options.store.read();
    const kept = Object.entries(remotes).map(([authority, { label, answer, until, off = false }]) => ({
      authority,
      label,
      certain: true,
      answer: this.#isOver(until) ? undefined : answer,
      until,
      off,
    }));
    const others = kept.filter(({ authority }) => authority !== here?.authority);
    const known = kept.find(({ authority }) => authority === here?.authority);
    if (!here) return sorted(kept);
    const answer = this.#onlyNow ? ('only-now' as const) : known?.answer;
    const off = this.#windowOff || (known?.off ?? false);
    return [{ ...here, answer, until: this.#onlyNow ? undefined : known?.until, off }, ...sorted(others)];
  }

  /** Keeps an answer that the person gave, in place of an earlier one; returns the token, if it needs one. */
  decide(remote: Remote, answer: ConsentAnswer, shown?: unknown): string | undefined {
    const { authority, label } = remote;
    this.#closed = { times: 0, at: 0 };
    this.#onlyNow = answer.is === 'only-now' || (answer.is === 'allow' && !remote.certain);
    this.#windowOff = false;
    let given: string | undefined;
    this.#options.store.update(({ remotes }) => {
      const { [authority]: former, ...others } = remotes;
      if (answer.is === 'never') return { remotes: { ...others, [authority]: { label, answer: 'never' } } };
      if (this.#onlyNow) return { remotes: others };
      // One remote has one token, whatever the names that it is reached by.
      const isKnown = Object.values(remotes).some((kept) => knows(kept, shown));
      given = isKnown ? String(shown) : randomBytes(TOKEN_BYTES).toString('base64url');
      const tokens = [hashOf(given), ...(former?.tokens ?? [])];
      const until = answer.is === 'allow' && answer.forMs ? this.#now() + answer.forMs : undefined;
      const kept: KeptDecision = {
        label,
        answer: 'allow',
        tokens: [...new Set(tokens)].slice(0, MOST_TOKENS),
        until,
      };
      return { remotes: { ...others, [authority]: kept } };
    });
    this.#options.onChanged?.();
    return given;
  }

  /** Forgets what was decided, so that the remote has to ask again. */
  forget(authority: string, isHere: boolean): void {
    if (isHere) this.#onlyNow = false;
    this.#closed = { times: 0, at: 0 };
    this.#options.store.update(({ remotes: { [authority]: _former, ...remotes } }) => ({ remotes }));
    this.#options.onChanged?.();
  }

  /** Serves no remote, or not this one, until the person starts it again, or for a time. */
  stop(scope: StopScope, remote: Remote | undefined, forMs?: number): void {
    if (scope === 'computer') {
      const stopped = forMs === undefined ? {} : { until: this.#now() + forMs };
      this.#options.store.update(() => ({ stopped }));
    } else if (!remote?.certain) this.#windowOff = true;
    else this.#setOff(remote, true);
    this.#options.onChanged?.();
  }

  /** Goes on after a Stop, if the person confirms it: any extension can ask for it. */
  async start(remote: Remote | undefined): Promise<boolean> {
    const { store, dialogs } = this.#options;
    const { remotes } = store.read();
    const isStopped = this.isStopped();
    const isOff =
      remote !== undefined &&
      (this.#windowOff || (Object.hasOwn(remotes, remote.authority) && remotes[remote.authority]!.off));
    if (!isStopped && !isOff) return true;
    const what = isStopped
      ? t('GPG Bridge is stopped on this computer.')
      : t('GPG Bridge is stopped for "{0}".', remote!.label);
    if (!(await dialogs.confirmStart(what))) return false;
    if (isStopped) store.update(() => ({ stopped: undefined }));
    this.#windowOff = false;
    if (remote && isOff) this.#setOff(remote, false);
    this.#options.onChanged?.();
    return true;
  }

  /** When something ends by itself, next. */
  nextEnd(): number | undefined {
    const { stopped, remotes } = this.#options.store.read();
    const ends = [stopped?.until, ...Object.values(remotes).map(({ until }) => until)];
    const coming = ends.filter((until) => until !== undefined && until > this.#now());
    return coming.length === 0 ? undefined : Math.min(...(coming as number[]));
  }

  #setOff({ authority, label }: Remote, off: boolean): void {
    this.#options.store.update(({ remotes }) => {
      const { [authority]: former = { label }, ...others } = remotes;
      const { off: _off, ...rest } = former;
      const kept = off ? { ...rest, off } : rest;
      return {
        remotes: off || rest.answer !== undefined ? { ...others, [authority]: kept } : others,
      };
    });
  }

  async #ask(remote: Remote, token: unknown, personAsks: boolean): Promise<string | undefined> {
    const { dialogs, settings } = this.#options;
    await settings.confirm(['consent'], { personAsks });
    let given: string | undefined;
    if (this.standing(remote, token).permission !== 'allowed') {
      const answer = await dialogs.ask(remote);
      if (answer) given = this.decide(remote, answer, token);
      else this.#closed = { times: this.#closed.times + 1, at: this.#now() };
    }
    if (this.standing(remote, given ?? token).permission === 'allowed') {
      // A directory that is refused is told of as a problem of the host.
      await settings.confirm(['gpgBinDir'], { personAsks }).catch(() => {});
      this.#options.onChanged?.();
    }
    return given;
  }

  /** Whether no remote is served at the moment. */
  isStopped(): boolean {
    const { stopped } = this.#options.store.read();
    return stopped !== undefined && !this.#isOver(stopped.until);
  }

  #isQuiet(): boolean {
    const { times, at } = this.#closed;
    if (times === 0) return false;
    return this.#now() - at < QUIET_MS[Math.min(times, QUIET_MS.length) - 1]!;
  }

  #isOver(until: number | undefined): boolean {
    return until !== undefined && until <= this.#now();
  }
}

function sorted(decisions: Decision[]): Decision[] {
  return decisions.sort((a, b) => a.label.localeCompare(b.label));
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function knows({ tokens = [] }: KeptDecision, token: unknown): boolean {
  if (typeof token !== 'string' || token === '') return false;
  const shown = Buffer.from(hashOf(token), 'hex');
  return tokens.some((hash) => {
    const kept = Buffer.from(hash, 'hex');
    return kept.length === shown.length && timingSafeEqual(kept, shown);
  });
}

function notAllowed(permission: Exclude<Permission, 'allowed'>, { label }: Remote): BridgeError {
  const what = t('the keys of your computer are not available here');
  switch (permission) {
    case 'stopped':
    case 'paused':
      return new BridgeError('HOST_TURNED_OFF', {
        what,
        why:
          permission === 'paused'
            ? t('you paused GPG Bridge on your computer')
            : t('GPG Bridge is stopped on your computer'),
        fix: t('Choose Start in the GPG Bridge menu in the status bar.'),
      });
    case 'off':
      return new BridgeError('HOST_TURNED_OFF', {
        what,
        why: t('you stopped GPG Bridge for {0}', label),
        fix: t('Choose Start in the GPG Bridge menu in the status bar.'),
      });
    case 'refused':
      return new BridgeError('CONSENT_DENIED', {
        what,
        why: t('you chose never to allow {0} to use them', label),
        fix: t('To change that, choose Allow… in the GPG Bridge menu in the status bar.'),
      });
    case 'undecided':
      return new BridgeError('CONSENT_REQUIRED', {
        what,
        why: t('you have not allowed {0} to use them', label),
        fix: t('Choose Allow… in the GPG Bridge menu in the status bar.'),
      });
  }
}
