import { GET_PASSPHRASE } from '@gpg-bridge/core/assuan/private-key-commands';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { GpgGrant } from '@gpg-bridge/core/host/gpg-grant';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import type { KeyUse, KeyUseRecord } from '@gpg-bridge/core/host/key-use-record';
import { PromptPace } from '@gpg-bridge/core/host/prompt-pace';
import { UseRecordFile } from '@gpg-bridge/core/host/use-record-file';
import type { LogCallback } from '@gpg-bridge/core/log';
import { spanSeconds } from '@gpg-bridge/core/text/time-span';
import type { NarrowedKeys } from '../bridge/narrowed-keys.ts';
import type { BridgeOptions } from '../bridge-options.ts';
import { Lifetime, type LifetimeOptions } from './lifetime.ts';
import { ensureStateDirectory } from './make-state-dir.ts';
import { currentPause, pausedError, pausePath } from './pause.ts';
import { type BridgeFiles, recordDirectory, stateDirectory, useRecordPath } from './state-dir.ts';
import { TerminalHolds } from './terminal-holds.ts';

/** What the uses of a bridge's keys depend on. */
export interface KeyUsesOptions extends Pick<LifetimeOptions, 'lastUse' | 'end'> {
  /** As they are by now. */
  options(): BridgeOptions;
  files: BridgeFiles;
  /** The target as a person names it. */
  target: string;
  log: LogCallback;
  /** Why no key may be used as far as what is stored for the target says. */
  held(): BridgeError | undefined;
  /** Why one must not be used yet. */
  forbids(use: KeyUse): BridgeError | undefined;
}

/** What a bridge's target may use keys for and until when, as its options say, and where that is recorded. */
export class KeyUses {
  readonly use: TargetUse;
  readonly lifetime: Lifetime;
  readonly terminals: TerminalHolds;
  readonly #options: () => BridgeOptions;
  readonly #log: LogCallback;
  /** Fingerprints of the only SSH keys, where the grant was narrowed since the bridge came up. */
  #sshKeys: ReadonlySet<string> | undefined;

  constructor({ options, files, target, log, held, forbids, lastUse, end }: KeyUsesOptions) {
    this.#options = options;
    this.#log = log;
    const { until, idle = 'none', confirm } = options();
    this.lifetime = new Lifetime({ until, idleSeconds: spanSeconds(idle), lastUse, end });
    this.terminals = new TerminalHolds(stateDirectory(), log);
    const path = pausePath(); // once: each use of a key looks there several times
    this.use = {
      pace: new PromptPace(confirm ? { maxAtOnce: 1 } : {}),
      record: this.#openRecord(files, target),
      suspended: () => {
        const pause = currentPause(Date.now(), path);
        return pause ? pausedError(pause) : (held() ?? this.lifetime.over);
      },
      holdTerminals: () => this.terminals.hold(),
      forbidden: (use) => forbids(use) ?? (this.#isGranted(use) ? undefined : notGranted()),
    };
  }

  /** The keys that were chosen have been looked up. */
  grant(keygrips: GpgGrant['keygrips'], sshFingerprints: ReadonlySet<string> | undefined): GpgGrant {
    const { decrypt, ssh, allowPassphrase } = this.#options();
    const login = ssh === false ? false : sshFingerprints;
    const grant = { keygrips, decrypt, login, passphrase: allowPassphrase };
    this.use.grant = grant;
    // A bridge that attaches again has asked its agents for the keys of the options as they are now.
    this.#sshKeys = undefined;
    this.use.sshKeys = undefined;
    return grant;
  }

  /** The options have become narrower: these keys were named in them. */
  narrow({ gpg, ssh }: NarrowedKeys): void {
    const { confirm, until, idle = 'none' } = this.#options();
    this.use.narrowings = (this.use.narrowings ?? 0) + 1;
    const sshKeys = ssh ?? this.#sshKeys;
    const { grant } = this.use;
    const login = typeof grant?.login === 'object' ? grant.login : undefined;
    if (grant) this.grant(gpg ?? grant.keygrips, sshKeys ?? login);
    this.#sshKeys = sshKeys;
    this.use.sshKeys = sshKeys && [...sshKeys];
    if (confirm) this.use.pace.oneAtATime();
    this.lifetime.renew(until);
    this.lifetime.endsWhenIdle(spanSeconds(idle));
  }

  /** Whether a use is one that the target may make by now. */
  #isGranted({ command, key = '', another = key }: KeyUse): boolean {
    const { gpg, ssh } = this.#options();
    if (command === 'sign') return ssh !== false && this.#sshKeys?.has(key) !== false;
    const { keygrips, decrypt, passphrase } = this.use.grant ?? {};
    if (gpg === false) return false;
    if (command === GET_PASSPHRASE) return passphrase === true;
    if (command === 'PKDECRYPT' && decrypt === false) return false;
    return !keygrips || (keygrips.has(key) && keygrips.has(another));
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

function notGranted(): BridgeError {
  return new BridgeError('NOT_GRANTED', {
    what: 'the key was not used',
    why: 'the target may not use it so any more',
    fix: 'See `gpg-bridge status` on the host for what it may do.',
  });
}
