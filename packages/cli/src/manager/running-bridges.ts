import type { BridgeError } from '@gpg-bridge/core/errors';
import type { BridgeSelector } from '../bridge-options.ts';
import {
  askDaemon,
  type CheckRequest,
  type ControlRequest,
  type DaemonStatus,
  type NamedTarget,
} from '../daemon/control.ts';
import { matchesTarget } from '../daemon/match-target.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  bridgeLocks,
  checkStateDirectory,
  controlSockets,
  filesBeside,
} from '../daemon/state-dir.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { isSameTarget, locateKnown, resolveKnown } from './look-up.ts';

const LIST_TIMEOUT_MS = 5_000;

/** The bridges whose daemons run, found by asking those. */
export class RunningBridges {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Where the bridges' files are, looked at before anything in it is believed. */
  get directory(): string {
    checkStateDirectory(this.#directory);
    return this.#directory;
  }

  /** The files of the bridge with a key. */
  files(key: string): BridgeFiles {
    return bridgeFiles(this.directory, key);
  }

  /** The files of every bridge that has a control socket, whether its daemon answers or not, or is being started. */
  allFiles(): BridgeFiles[] {
    const { directory } = this;
    const stems = [...controlSockets(directory), ...bridgeLocks(directory)].map(stemOf);
    return [...new Set(stems)].map((stem) => filesBeside(`${stem}.pid`));
  }

  /** Tells every daemon something that it need not answer; one that does not is none. */
  async tellAll(news: 'pause'): Promise<DaemonStatus[]> {
    return this.askAll(news, LIST_TIMEOUT_MS);
  }

  /** The answers of all daemons that give one; a control socket that another bridge's daemon holds does not count. */
  async askAll(request: ControlRequest, timeoutMs?: number, argument?: NamedTarget): Promise<DaemonStatus[]> {
    const answers = await Promise.all(
      controlSockets(this.directory).map(async (control) => {
        const status = await askDaemon(control, request, timeoutMs, argument).catch(() => undefined);
        return status && this.files(status.key).control === control ? status : undefined;
      }),
    );
    return answers.filter((status) => status !== undefined);
  }

  /** Every running bridge's status, by target and user. */
  async list(): Promise<DaemonStatus[]> {
    return inOrder(await this.askAll('status'));
  }

  /**
   * The same after a look at every socket in the targets, with the daemons that do not answer: of those only the
   * process and the target are known.
   */
  async listChecked(): Promise<DaemonStatus[]> {
    const statuses = await Promise.all(
      controlSockets(this.directory).map((control) => this.#checked(control).catch(() => undefined)),
    );
    return inOrder(statuses.filter((status) => status !== undefined));
  }

  /** The bridge to a target, after a look at its sockets; one that does not answer as in `listChecked`. */
  async findChecked(spec: string | undefined, selector: BridgeSelector): Promise<DaemonStatus | undefined> {
    const target = await resolveKnown(spec, selector);
    const there = target && (await this.#checked(this.files(bridgeKey(target)).control));
    if (there) return there;
    const found = await this.#findNamed(spec, selector, target);
    return found && this.#checked(this.files(found.key).control);
  }

  /**
   * The running bridge to a target. Where that can't be looked up, because the engine has stopped, the container
   * was removed or the cluster does not answer, a bridge is found by the name it has in that same place.
   */
  async find(spec: string | undefined, selector: BridgeSelector): Promise<DaemonStatus | undefined> {
    const target = await resolveKnown(spec, selector);
    const running = target && (await this.#at(target));
    return running ?? this.#findNamed(spec, selector, target);
  }

  /** The running bridges to a target, whoever their user is. */
  async findAll(spec: string | undefined, selector: BridgeSelector): Promise<DaemonStatus[]> {
    return this.#named(spec, selector, await resolveKnown(spec, selector));
  }

  /** The bridge to a target, or one that follows the name by which it is meant and has not got there yet. */
  async findFollowing(target: Target): Promise<DaemonStatus | undefined> {
    const running = await this.#at(target);
    if (running || !target.byName) return running;
    return (await this.list()).find(
      ({ followsName, options, state, key, target: name, place, user }) =>
        followsName &&
        (target.kind === 'k8s' || (options.restart && state === 'waiting-for-target')) &&
        key.startsWith(`${target.kind}\n`) &&
        name === target.name &&
        place === target.place &&
        user === target.user,
    );
  }

  /** The key that the files of a target's bridge are named after, whether it runs or not. */
  async keyOf(spec: string | undefined, selector: BridgeSelector): Promise<string | undefined> {
    // One that does not answer has the key of its target all the same.
    const running = await this.find(spec, selector).catch(() => undefined);
    return running ? running.key : this.targetKey(spec, selector);
  }

  /** The same from the target alone, without asking any daemon. */
  async targetKey(spec: string | undefined, selector: BridgeSelector): Promise<string | undefined> {
    const target = await resolveKnown(spec, selector);
    return target && bridgeKey(target);
  }

  /** The daemon behind a target's control socket, if it is alive and really is this target's. */
  async #at(target: Target): Promise<DaemonStatus | undefined> {
    const key = bridgeKey(target);
    const status = await askDaemon(this.files(key).control, 'status');
    return status?.key === key ? status : undefined;
  }

  /**
   * What the daemon behind a control socket says after a look at its sockets. Of one that does not answer it is what its
   * process shows; rejects if that is not proven to be the bridge's.
   */
  async #checked(control: string): Promise<DaemonStatus | undefined> {
    const check: CheckRequest = { mend: false };
    try {
      // A daemon of an older version knows no check.
      const status =
        (await askDaemon(control, 'check', LIST_TIMEOUT_MS, check)) ??
        (await askDaemon(control, 'status', LIST_TIMEOUT_MS));
      return status && this.files(status.key).control === control ? status : undefined;
    } catch (error) {
      const { notAnswering } = await import('../daemon/daemon-process.ts');
      const known = notAnswering(filesOf(control), (error as BridgeError).why);
      if (!known) throw error;
      return known;
    }
  }

  /** The only bridge to a target for a user, found by the name it has there. */
  async #findNamed(
    spec: string | undefined,
    selector: BridgeSelector,
    target: Target | undefined,
  ): Promise<DaemonStatus | undefined> {
    const named = (await this.#named(spec, selector, target)).filter(
      ({ user, options }) => user === target?.user || (options.user ?? '') === (selector.user ?? ''),
    );
    return named.length === 1 ? named[0] : undefined;
  }

  /** The bridges to a target, found by its ID if it is known, and else by its name. */
  async #named(
    spec: string | undefined,
    selector: BridgeSelector,
    target: Target | undefined,
  ): Promise<DaemonStatus[]> {
    const name = await locateKnown(spec, selector);
    const located = name && target?.place !== undefined ? { ...name, place: target.place } : name;
    const found = (await this.list()).filter(
      (status) =>
        (target !== undefined && isSameTarget(status, target)) || (located && matchesTarget(status, located)),
    );
    return found;
  }
}

/** The files that go with a control socket. */
function filesOf(control: string): BridgeFiles {
  return filesBeside(`${stemOf(control)}.pid`);
}

/** What the names of a bridge's files have in common. */
function stemOf(path: string): string {
  return path.replace(/\.[a-z]+$/, '');
}

function inOrder(statuses: DaemonStatus[]): DaemonStatus[] {
  const name = ({ target, user, pid }: DaemonStatus) => `${target}\0${user}\0${pid}`;
  return statuses.sort((a, b) => (name(a) < name(b) ? -1 : 1));
}
