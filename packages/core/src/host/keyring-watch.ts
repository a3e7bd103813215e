import { type FSWatcher, statSync, watch } from 'node:fs';
import { join } from 'node:path';

/** What in a GNUPGHOME tells that there are other public keys, or that one more has its secret half there. */
const KEPT_KEYS = ['pubring.kbx', 'pubring.gpg', 'public-keys.d/pubring.db', 'private-keys-v1.d'];
/** The directories whose entries these are. */
const DIRECTORIES = ['', 'public-keys.d', 'private-keys-v1.d'];
/** gpg writes a keyring several times for one command. */
const SETTLED_MS = 500;

/** A watch that goes on until it is closed. */
export interface KeyringWatch {
  close(): void;
}

/** Calls `changed` a moment after the keys in a GNUPGHOME have changed. */
export function watchKeyring(
  home: string,
  changed: () => void,
  { settledMs = SETTLED_MS } = {},
): KeyringWatch {
  const watchers = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | undefined;
  let before = stamp(home);
  const look = () => {
    arm(); // a directory may be there by now
    const now = stamp(home);
    if (now === before) return;
    before = now;
    changed();
  };
  const arm = () => {
    for (const name of DIRECTORIES) {
      if (watchers.has(name)) continue;
      try {
        const watcher = watch(join(home, name), { persistent: false }, () => {
          clearTimeout(timer);
          timer = setTimeout(look, settledMs).unref();
        });
        watchers.set(
          name,
          watcher.on('error', () => {}),
        );
      } catch {
        // It is not there, or the machine has no watches left: keys can be synchronised by hand.
      }
    }
  };
  arm();
  return {
    close() {
      clearTimeout(timer);
      for (const watcher of watchers.values()) watcher.close();
    },
  };
}

/** Changes with the keys. */
function stamp(home: string): string {
  return stampOf(home, KEPT_KEYS);
}

/** Changes with these files and directories of a GNUPGHOME. */
export function stampOf(home: string, names: readonly string[]): string {
  return names
    .map((name) => {
      const { ino, mtimeMs, size } = statSync(join(home, name), { throwIfNoEntry: false }) ?? {};
      return `${ino} ${mtimeMs} ${size}`;
    })
    .join();
}
