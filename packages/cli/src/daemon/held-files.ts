import { type FSWatcher, rmSync, watch } from 'node:fs';
import type net from 'node:net';
import { dirname } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { Target } from '../targets/target.ts';
import { type Claim, claim } from './claim.ts';
import { readPid, writePid } from './pid-file.ts';
import { type BridgeFiles, unusableState } from './state-dir.ts';

/** What a daemon does with its files. */
export interface HeldFilesOptions {
  /** Where they are going to be. */
  files: BridgeFiles;
  /** Serves a connection to the control socket. */
  onConnection(socket: net.Socket): void;
  /** The control socket has gone. */
  onLost(): void;
  log: LogCallback;
}

/** Files that may be beside the control socket, and that every use of a key writes to. */
const OF_LOGS = /\.(?:log|uses)(?:\.1)?$/;

/** The files by which a daemon is found: the control socket that proves it is alive, and the PID file. */
export class HeldFiles {
  #files: BridgeFiles;
  readonly #options: HeldFilesOptions;
  #control: Claim | undefined;
  #watcher: FSWatcher | undefined;

  constructor(options: HeldFilesOptions) {
    this.#files = options.files;
    this.#options = options;
  }

  /** Where the files are, or are going to be. */
  get files(): BridgeFiles {
    return this.#files;
  }

  /** Whether the control socket has been claimed. */
  get isClaimed(): boolean {
    return this.#control !== undefined;
  }

  /** Whether the control socket was claimed, and its name no longer leads to it. */
  get isLost(): boolean {
    return this.#control?.holds() === false;
  }

  /** Takes the control socket of these files, and lets go of the one it had. */
  async claim(files: BridgeFiles, target: Target): Promise<void> {
    const control = await claim(files.control, (socket) => this.#options.onConnection(socket));
    if (!control) throw alreadyRunning(target);
    const before = { control: this.#control, files: this.#files };
    this.#control = control;
    this.#files = files;
    this.#watcher?.close();
    this.#watcher = this.#watch(control);
    if (before.control) release(before.control, before.files);
  }

  /** A state directory without room for it is of no use; half a file says nothing, and goes. */
  writeFirstPid(): void {
    try {
      writePid(this.#files.pid);
    } catch (error) {
      throw unusableState(dirname(this.#files.pid), error as Error);
    }
  }

  /** Somebody may have changed the PID file. */
  checkPid(): void {
    if (readPid(this.#files.pid) !== process.pid) this.rewritePid();
  }

  /** Writes the PID file again. It proves nothing, so a bridge goes on if it can't be written. */
  rewritePid(): void {
    try {
      writePid(this.#files.pid);
    } catch (error) {
      this.#options.log(`can't write ${this.#files.pid}: ${(error as Error).message}`, 'warn');
    }
  }

  /** Removes what is held. */
  release(): void {
    this.#watcher?.close();
    if (this.#control) release(this.#control, this.#files);
  }

  /** A daemon whose control socket is gone (a runtime directory that was removed) can't be found any more. */
  #watch(control: Claim): FSWatcher | undefined {
    try {
      const watcher = watch(dirname(this.#files.control), (_event, name) => {
        if (name !== null && OF_LOGS.test(name)) return;
        if (!control.holds()) this.#options.onLost();
      });
      return watcher.on('error', () => {});
    } catch {
      return undefined; // the machine has no watches left: a removed socket then goes unnoticed
    }
  }
}

/** Removes the files that go with a control socket; a PID file that another daemon wrote stays. */
function release(control: Claim, files: BridgeFiles): void {
  if (readPid(files.pid) === process.pid) rmSync(files.pid, { force: true });
  control.release();
}

/** The error of a daemon that finds another one for the same target. */
export function alreadyRunning(target: Target): BridgeError {
  return new BridgeError('BRIDGE_EXISTS', {
    what: `can't start a bridge to ${target.name}`,
    why: 'another one runs already',
    fix: 'Use that one, or end it with `gpg-bridge down`.',
  });
}
