/** A use of a private key, or of a person's passphrase, that is about to begin. */
export interface KeyUse {
  /** Milliseconds since the epoch. */
  time: number;
  /** The client session. */
  session: number | string;
  /** PKSIGN, PKDECRYPT, … or `sign` for an SSH key. */
  command: string;
  /** `signature` for an SSH signature that is not a login. */
  purpose?: 'signature' | undefined;
  /** Keygrip of an OpenPGP key, or fingerprint of an SSH key. */
  key?: string | undefined;
  /** Keygrip of the second key of a decryption. */
  another?: string | undefined;
  /** The comment of an SSH key, as the agent lists it. */
  name?: string | undefined;
  /** What the key can do apart from what the command is called. */
  note?: string | undefined;
}

/** A use that is on record. */
export interface RecordedUse {
  /** Adds how it ended. */
  finish(outcome: string, durationMs: number): void;
}

/** Keeps what a target used the host's keys for. */
export interface KeyUseRecord {
  /** Writes the beginning of a use down; throws if it can't, and then the use must not begin. */
  begin(use: KeyUse): RecordedUse;
}

/** For sessions whose uses nobody records, as in a demonstration. */
export const NO_RECORD: KeyUseRecord = { begin: () => ({ finish: () => {} }) };
