import type { BridgeError } from '@gpg-bridge/core/errors';
import { ofKernel, type SocketIdentity, sameIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeptPath } from '@gpg-bridge/core/remote/keep-path';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import { type ServedSockets, type SocketSetup, serveSockets } from '@gpg-bridge/core/remote/serve-sockets';
import { SOCKET_TYPES, type SocketType } from '@gpg-bridge/core/socket-type';
import { printable } from '@gpg-bridge/core/text/escape';
import { type CheckReport, checkSockets, inTime, type MendOptions } from './check-sockets.ts';
import type { GitSetup } from './git-setup.ts';

/** What a bridge made in its target. */
export interface MadeInTarget {
  runtime: string;
  sockets: { type: SocketType; path: string }[];
  /** What did not work, in words for a person. */
  warnings: string[];
  /** What was done there beside the sockets. */
  notes: string[];
}

/** What the sockets of a target are looked after with. */
export interface TargetSocketsParts {
  operations: TargetOperations;
  /** What they were made with, for those that could not be made. */
  setup: SocketSetup;
  served: ServedSockets;
  runtime: string;
  git: GitSetup | undefined;
}

/** A message about a target, which may quote it. */
const MAX_WARNING = 1_000;

/** The sockets of a bridge in its target, those that could not be made, and what is told of both. */
export class TargetSockets {
  readonly #operations: TargetOperations;
  readonly #setup: SocketSetup;
  readonly #kept: KeptPath[];
  /** Sockets that could not be made. */
  #missing: SocketType[];
  #info: MadeInTarget;
  /** What holds as long as the sockets do, beside what could not be made. */
  readonly #ownWarnings: string[];
  #failures: string[];

  constructor({ operations, setup, served, runtime, git }: TargetSocketsParts) {
    const { kept, missing, warnings, lasting, failures } = served;
    this.#operations = operations;
    this.#setup = setup;
    this.#kept = kept;
    this.#missing = missing;
    this.#info = {
      runtime,
      sockets: shownSockets(kept),
      warnings: [...warnings, ...(git?.warnings ?? [])],
      notes: git?.notes ?? [],
    };
    this.#ownWarnings = lasting;
    this.#failures = told(failures);
  }

  /** What a person is told of them. */
  get info(): MadeInTarget {
    return this.#info;
  }

  /** What is known to keep clients from a socket, without asking. */
  get problems(): string[] {
    return this.#kept.flatMap(({ problem }) => problem ?? []);
  }

  /** The types of the sockets which that keeps clients from. */
  get broken(): SocketType[] {
    return this.#kept.flatMap(({ type, problem }) => (problem === undefined ? [] : [type]));
  }

  /** Why sockets could not be made, in words for a person. */
  get failures(): readonly string[] {
    return this.#failures;
  }

  /** Whether there are sockets that could not be made. */
  get isIncomplete(): boolean {
    return this.#missing.length > 0;
  }

  /** Forgets the warnings about what happened at the start: they have been told. */
  forgetEvents(): void {
    this.#info = { ...this.#info, warnings: [...this.#ownWarnings, ...this.#failures], notes: [] };
  }

  /**
   * Checks every socket from end to end, as a client in the target would find it. With `mend` it does for what is
   * not right what the start of a bridge would do.
   */
  async check(mend?: MendOptions): Promise<CheckReport> {
    const made = mend ? await this.#makeMissing(mend) : [];
    const report = await checkSockets(this.#operations, this.#kept, mend);
    return { ...report, mended: [...made, ...report.mended] };
  }

  /** The types of the sockets whose paths lead to this bridge, as far as the target tells: silence counts as yes. */
  async inPlace(): Promise<SocketType[]> {
    const kept = this.#kept;
    const found = await Promise.all(
      kept.map((socket) =>
        inTime(
          socket.isInPlace().catch(() => false),
          true,
        ),
      ),
    );
    return kept.filter((_socket, i) => found[i]).map(({ type }) => type);
  }

  /** Whether one of them is this one. */
  async holds(socket: SocketIdentity): Promise<boolean> {
    const operations = this.#operations;
    if (ofKernel(operations.facts.boot, [socket]).length === 0) return false;
    const own = await Promise.all(
      this.#kept.map(async (one) => ((await one.isInPlace()) ? operations.lstat(one.path) : undefined)),
    );
    return own.some((facts) => facts && sameIdentity(facts.identity, socket));
  }

  /** Until `resume`, the sockets' paths are left to a bridge that takes this one's place. */
  pause(): void {
    for (const socket of this.#kept) socket.pause();
  }

  /** Takes the paths back, if they were taken. */
  resume(): void {
    for (const socket of this.#kept) socket.resume();
  }

  /** Tries the sockets again that could not be made; resolves to what was mended. */
  async #makeMissing({ takeover, log }: MendOptions): Promise<string[]> {
    const [missing, info] = [this.#missing, this.#info];
    if (missing.length === 0) return [];
    const again = await serveSockets(this.#operations, {
      ...this.#setup,
      keys: undefined, // they may be others by now, and follow when the socket is there
      gpg: missing.includes('gpg-agent'),
      ssh: missing.includes('ssh-agent'),
      takeover,
      log,
    });
    this.#kept.push(...again.kept);
    this.#missing = again.missing;
    this.#failures = told(again.failures);
    for (const { type } of again.kept) this.#setup.onClaimedAgain?.(type);
    const warnings = [...new Set([...this.#ownWarnings, ...again.lasting, ...this.#failures])];
    this.#info = { ...info, sockets: shownSockets(this.#kept), warnings };
    return again.sockets.map(({ path }) => `made the socket ${printable(path)}, which was missing`);
  }
}

/** Why sockets were not made, in words for a person. */
function told(failures: readonly BridgeError[]): string[] {
  return failures.map(({ message }) => printable(message, MAX_WARNING));
}

/** Always in the same order, whichever was made first. */
function shownSockets(kept: readonly KeptPath[]): MadeInTarget['sockets'] {
  return SOCKET_TYPES.flatMap((wanted) =>
    kept.filter(({ type }) => type === wanted).map(({ type, path }) => ({ type, path: printable(path) })),
  );
}
