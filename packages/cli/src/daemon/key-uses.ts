import { toBridgeError } from '@gpg-bridge/core/errors';
import type { GpgGrant } from '@gpg-bridge/core/host/gpg-grant';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import type { KeyUseRecord } from '@gpg-bridge/core/host/key-use-record';
import { PromptPace } from '@gpg-bridge/core/host/prompt-pace';
import { UseRecordFile } from '@gpg-bridge/core/host/use-record-file';
import type { LogCallback } from '@gpg-bridge/core/log';
import { spanSeconds } from '@gpg-bridge/core/text/time-span';
import type { BridgeOptions } from '../bridge-options.ts';
import { Lifetime, type LifetimeOptions } from './lifetime.ts';
import { ensureStateDirectory } from './make-state-dir.ts';
import { currentPause, pausedError, pausePath } from './pause.ts';
import { type BridgeFiles, recordDirectory, useRecordPath } from './state-dir.ts';

/** What the uses of a bridge's keys depend on. */
export interface KeyUsesOptions extends Pick<LifetimeOptions, 'lastUse' | 'end'> {
  options: BridgeOptions;
  files: BridgeFiles;
  /** The target as a person names it. */
  target: string;
  log: LogCallback;
}

/** What a bridge's target may use keys for and until when, as its options say, and where that is recorded. */
export class KeyUses {
  readonly use: TargetUse;
  readonly lifetime: Lifetime;
  readonly #options: BridgeOptions;
  readonly #log: LogCallback;

  constructor({ options, files, target, log, lastUse, end }: KeyUsesOptions) {
    this.#options = options;
    this.#log = log;
    const { until, idle = 'none' } = options;
    this.lifetime = new Lifetime({ until, idleSeconds: spanSeconds(idle), lastUse, end });
    const path = pausePath(); // once: each use of a key looks there several times
    this.use = {
      pace: new PromptPace(options.confirm ? { maxAtOnce: 1 } : {}),
      record: this.#openRecord(files, target),
      suspended: () => {
        const pause = currentPause(Date.now(), path);
        return pause ? pausedError(pause) : this.lifetime.over;
      },
    };
  }

  /** The keys that were chosen have been looked up. */
  grant(keygrips: GpgGrant['keygrips']): void {
    const { decrypt, allowPassphrase } = this.#options;
    this.use.grant = { keygrips, decrypt, passphrase: allowPassphrase };
  }

  /** The bridge leads to another target now, which has a record of its own. */
  moveTo(files: BridgeFiles, target: string): void {
    this.use.record = this.#openRecord(files, target);
  }

  /** Without a record nothing is signed or decrypted; everything else works, and says why. */
  #openRecord(files: BridgeFiles, target: string): KeyUseRecord {
    try {
      ensureStateDirectory(recordDirectory());
      return new UseRecordFile(useRecordPath(files), target);
    } catch (error) {
      const failure = toBridgeError(error, "the record of key uses can't be opened");
      this.#log(failure.message, 'error');
      return {
        begin() {
          throw failure;
        },
      };
    }
  }
}
