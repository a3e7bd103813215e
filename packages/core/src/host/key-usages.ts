import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError, toBridgeError } from '../errors.ts';
import { type CertifiedKey, listOpenPgpKeys, listX509Keys } from '../gnupg/certificate-usage.ts';
import { listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type LogCallback, noLog } from '../log.ts';
import { type AgentKey, listAgentKeys } from './agent-keys.ts';
import { type GrantWord, type KeyUsage, UNKNOWN_USAGE, wordsOf } from './key-usage.ts';
import { stampOf } from './keyring-watch.ts';

/** Where the usage of keys is looked up. */
export interface KeyUsagesOptions extends GnupgOptions {
  log?: LogCallback | undefined;
  now?: () => number;
}

/** What was found at one time. */
interface Found {
  usages: ReadonlyMap<string, KeyUsage>;
  /** Undefined if the lookup failed before it was known. */
  home: string | undefined;
  stamp: string;
  at: number;
  /** Why the lookup failed, if it did. */
  problem?: string;
}

/** Keyrings, which hold the certificates of gpg and of gpgsm. */
const KEYRINGS = ['pubring.kbx', 'public-keys.d/pubring.db'];
/** What changes with the usage of a known key: agents from 2.4 on say in a key's file whether it is used for SSH. */
const CHANGES_USAGE = [...KEYRINGS, 'pubring.gpg', 'sshcontrol', 'private-keys-v1.d'];
/** A key that nobody knows, or a lookup that fails, does not make every use wait for another lookup. */
const FRESH_MS = 5_000;
/** Lookups in a row while the keyring changes. */
const MOST_LOOKUPS = 3;

/**
 * What the host's private keys can be used for: the union over all certificates of gpg and gpgsm, and what gpg-agent
 * offers over SSH. Looked up again when these have changed and when an unknown key is asked about.
 */
export class KeyUsages {
  readonly #options: KeyUsagesOptions;
  readonly #log: LogCallback;
  readonly #now: () => number;
  #found: Found | undefined;
  #looking: Promise<Found> | undefined;

  constructor(options: KeyUsagesOptions = {}) {
    this.#options = options;
    this.#log = options.log ?? noLog;
    this.#now = options.now ?? Date.now;
  }

  /** The usage of a key, at once if it is known; a key that can't be looked up is of unknown usage. */
  of(keygrip: string | undefined): KeyUsage | Promise<KeyUsage> {
    if (keygrip === undefined) return UNKNOWN_USAGE;
    const found = this.#found;
    if (found && found.stamp === stampIn(found.home)) {
      const usage = found.usages.get(keygrip);
      if (usage?.known) return usage;
      if (this.#isRecent(found)) return usage ?? UNKNOWN_USAGE;
    }
    return this.refresh().then((usages) => usages.get(keygrip) ?? UNKNOWN_USAGE);
  }

  /**
   * Whether the key that an ssh-agent offers under this fingerprint also signs, as far as the last lookup tells, and is
   * none of those with these keygrips.
   */
  alsoSigns(sshFingerprint: string, except?: ReadonlySet<string>): boolean {
    for (const [keygrip, { ssh, known, words }] of this.#found?.usages ?? []) {
      if (ssh === sshFingerprint && known && words.has('sign') && !except?.has(keygrip)) return true;
    }
    return false;
  }

  /**
   * Whether the last lookup has that key, and as one that does not sign. One that no certificate names may sign, and any
   * may where something has changed since: it is being looked up then.
   */
  onlyLogsIn(sshFingerprint: string): boolean {
    if (this.#isStale) {
      void this.upToDate();
      return false;
    }
    const found = [...(this.#found?.usages.values() ?? [])].filter(({ ssh }) => ssh === sshFingerprint);
    return found.length > 0 && found.every(({ known, words }) => known && !words.has('sign'));
  }

  /** Why the last lookup failed, if it did. */
  get problem(): string | undefined {
    return this.#found?.problem;
  }

  /** Looks everything up if that was not done, or if something has changed since. */
  async upToDate(): Promise<void> {
    const found = this.#found;
    const mayHelp = found?.problem !== undefined && !this.#isRecent(found);
    if (this.#isStale || mayHelp) await this.refresh();
  }

  get #isStale(): boolean {
    return !this.#found || this.#found.stamp !== stampIn(this.#found.home);
  }

  /** Looks everything up, unless that was done or is being done: so that the first use does not wait for it. */
  prepare(): void {
    if (!this.#found) void this.refresh();
  }

  /** Looks everything up; all keys are of unknown usage if that fails. */
  async refresh(): Promise<ReadonlyMap<string, KeyUsage>> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    const found = await this.#looking;
    this.#found = found;
    return found.usages;
  }

  #isRecent({ at }: Found): boolean {
    const age = this.#now() - at;
    return age >= 0 && age < FRESH_MS;
  }

  async #look(): Promise<Found> {
    let home: string | undefined;
    try {
      home = await listDir('homedir', this.#options);
      for (let lookup = 1; ; lookup++) {
        const stamp = stampIn(home);
        const usages = await lookUp(home, this.#options);
        if (stamp === stampIn(home) || lookup === MOST_LOOKUPS)
          return { usages, home, stamp, at: this.#now() };
      }
    } catch (error) {
      const { message } = toBridgeError(error, 'the lookup failed');
      this.#log(`the host doesn't know what its keys are for: ${message}`, 'warn');
      return { usages: new Map(), home, stamp: stampIn(home), at: this.#now(), problem: message };
    }
  }
}

function stampIn(home: string | undefined): string {
  return home === undefined ? '' : stampOf(home, CHANGES_USAGE);
}

async function lookUp(home: string, options: GnupgOptions): Promise<Map<string, KeyUsage>> {
  // gpgsm would make a keybox where there is none.
  const hasKeybox = KEYRINGS.some((name) => existsSync(join(home, name)));
  const [openPgp, x509, inAgent] = await Promise.all([
    listOpenPgpKeys(options, notListed),
    hasKeybox ? listX509Keys(options, notListed) : [],
    listAgentKeys(options),
  ]);
  return joinUsages([...openPgp, ...x509], inAgent);
}

/** The usage of each key of gpg-agent and of certificates; one that no certificate has a use for is of unknown usage. */
export function joinUsages(
  certified: readonly CertifiedKey[],
  inAgent: readonly AgentKey[],
): Map<string, KeyUsage> {
  const words = new Map<string, Set<GrantWord>>();
  for (const { keygrip, capabilities } of certified) {
    words.set(keygrip, new Set([...(words.get(keygrip) ?? []), ...wordsOf(capabilities)]));
  }
  for (const { keygrip, canDecrypt } of certified) {
    if (!canDecrypt) words.get(keygrip)!.delete('decrypt');
  }
  const agentKeys = new Map(inAgent.map((key) => [key.keygrip, key]));
  const usages = new Map<string, KeyUsage>();
  for (const keygrip of new Set([...words.keys(), ...agentKeys.keys()])) {
    const { ssh, isOfferedOverSsh = false } = agentKeys.get(keygrip) ?? {};
    const ofKey = words.get(keygrip);
    if (!ofKey?.size) {
      usages.set(keygrip, { ...UNKNOWN_USAGE, ssh });
      continue;
    }
    if (isOfferedOverSsh) ofKey.add('login');
    usages.set(keygrip, { words: ofKey, known: true, ssh });
  }
  return usages;
}

function notListed(why: string, cause?: unknown): BridgeError {
  return new BridgeError('GPG_KEY_UNKNOWN', {
    what: "can't find out what the host's keys are for",
    why,
    fix: 'Check that `gpg --list-keys` and `gpgsm --list-keys` work on the host.',
    cause,
  });
}
