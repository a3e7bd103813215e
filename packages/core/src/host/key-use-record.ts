/** A use of a private key, or of a person's passphrase, that is about to begin. */
export interface KeyUse {
  /** Milliseconds since the epoch. */
  time: number;
  /** The client session. */
  session: number | string;
  /** PKSIGN, PKDECRYPT, … or `sign` for an SSH key. */
  command: string;
  /** Keygrip of an OpenPGP key, or fingerprint of an SSH key. */
  key?: string | undefined;
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
