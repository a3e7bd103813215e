import { type FSWatcher, mkdtempSync, readFileSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Carries the fingerprint of the host key of the first connection to the check. */
const KEY_VARIABLE = 'GPG_BRIDGE_HOST_KEY';
/** Where the check of the first connection leaves it. */
const FILE_VARIABLE = 'GPG_BRIDGE_HOST_KEY_FILE';
const FILE = 'key';

/** What the check says of another key. */
export const OTHER_HOST_KEY = 'the machine has another host key than when the bridge was started';

/**
 * Options with which ssh runs a check for the key of a host (`%I` is HOSTNAME, `%f` the key's fingerprint), beside
 * looking into the known hosts; it adds none to them. A certificate has the fingerprint of the key in it, which stays
 * when it is renewed. The first connection leaves its key in a file: what ssh prints has words of a jump host's, too.
 * With another key later connections are given up by ssh, as is a first one whose key can't be kept. A jump host is
 * reached by an ssh of its own, which is not given these options.
 */
export const HOST_KEY_CHECK: readonly string[] = [
  '-o',
  'FingerprintHash=sha256',
  '-o',
  // Without braces: ssh itself would take those for a variable that has to be set.
  `KnownHostsCommand=/bin/sh -c '[ "$1" = HOSTNAME ] || exit 0; ` +
    `[ -z "$${KEY_VARIABLE}" ] || [ "$${KEY_VARIABLE}" = "$2" ] || { echo "${OTHER_HOST_KEY}" >&2; exit 1; }; ` +
    `[ -z "$${FILE_VARIABLE}" ] || echo "$2" > "$${FILE_VARIABLE}"' sh %I %f`,
];

/** A connection that is about to be made. */
export interface PinnedConnection {
  /** For ssh's environment. */
  variables: Record<string, string>;
  /** To be called when it has ended. */
  over(): void;
}

/** The host key of the first connection to a machine, which all later ones have to have. */
export class HostKeyPin {
  #key: string | undefined;
  /** Takes what earlier connections have left, those that still run included. */
  readonly #pending = new Set<() => void>();

  connecting(): PinnedConnection {
    for (const take of this.#pending) take();
    if (this.#key !== undefined) return { variables: { [KEY_VARIABLE]: this.#key }, over() {} };
    const directory = mkdtempSync(join(tmpdir(), 'gpg-bridge-'));
    const file = join(directory, FILE);
    let watcher: FSWatcher | undefined;
    const take = () => {
      const key = keyIn(file);
      this.#key ??= key;
      if (key !== undefined) over();
    };
    const over = () => {
      if (!this.#pending.delete(take)) return;
      this.#key ??= keyIn(file);
      watcher?.close();
      rmSync(directory, { recursive: true, force: true });
    };
    this.#pending.add(take);
    try {
      // The file need not stay for as long as the connection does.
      watcher = watch(directory, { persistent: false }, take).on('error', () => {});
    } catch {
      // no watches left: it is read at the end of the connection, or before the next one
    }
    return { variables: { [FILE_VARIABLE]: file }, over };
  }
}

/** The key that a check has left; undefined as long as it is not there as a whole. */
function keyIn(file: string): string | undefined {
  try {
    return /^(\S+)\n$/.exec(readFileSync(file, 'latin1'))?.[1];
  } catch {
    return undefined;
  }
}
