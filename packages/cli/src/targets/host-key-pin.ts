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
 * Options with which ssh runs a check for the key of a host (`%I` is HOSTNAME, `%f` the key's fingerprint, `%t` its
 * type) in addition to the known hosts, to which it adds none. A certificate has the fingerprint of the key in it, which
 * stays when it is renewed. The first connection leaves its key in a file, since what ssh prints also has words of a jump
 * host. With another key ssh gives up later connections, and a first one whose key can't be kept. A jump host is reached
 * by a separate ssh, which is not given these options.
 */
export const HOST_KEY_CHECK: readonly string[] = [
  '-o',
  'FingerprintHash=sha256',
  '-o',
  // Without braces: ssh itself would take those for a variable that has to be set.
  `KnownHostsCommand=/bin/sh -c '[ "$1" = HOSTNAME ] || exit 0; ` +
    `[ -z "$${KEY_VARIABLE}" ] || [ "$${KEY_VARIABLE}" = "$2" ] || { echo "${OTHER_HOST_KEY}" >&2; exit 1; }; ` +
    `[ -z "$${FILE_VARIABLE}" ] || echo "$2 $3" > "$${FILE_VARIABLE}"' sh %I %f %t`,
];

/** A connection that is about to be made. */
export interface PinnedConnection {
  /** For ssh's environment. */
  variables: Record<string, string>;
  /** For its command line. */
  options: readonly string[];
  /** To be called when it has ended. */
  over(): void;
}

interface HostKey {
  fingerprint: string;
  type: string;
}

/** The host key of the first connection to a machine, which all later ones have to have. */
export class HostKeyPin {
  readonly #algorithms: readonly string[];
  #key: HostKey | undefined;
  /** Takes what earlier connections have left, those that still run included. */
  readonly #pending = new Set<() => void>();

  /** `algorithms`: those that the person's ssh takes host keys of, by preference. */
  constructor(algorithms: readonly string[] = []) {
    this.#algorithms = algorithms;
  }

  connecting(): PinnedConnection {
    for (const take of this.#pending) take();
    if (this.#key) {
      const { fingerprint, type } = this.#key;
      return { variables: { [KEY_VARIABLE]: fingerprint }, options: this.#preferring(type), over() {} };
    }
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
    return { variables: { [FILE_VARIABLE]: file }, options: [], over };
  }

  /** A machine can have a key of each type, and ssh prefers another one as soon as it is among the known hosts, too. */
  #preferring(type: string): string[] {
    const isOfType = (algorithm: string) => keyType(algorithm) === keyType(type);
    const first = this.#algorithms.filter(isOfType);
    if (first.length === 0) return [];
    const others = this.#algorithms.filter((algorithm) => !isOfType(algorithm));
    return ['-o', `HostKeyAlgorithms=${[...first, ...others].join(',')}`];
  }
}

/** The type of the keys of an algorithm, for certificates that of the key in them. */
function keyType(algorithm: string): string {
  return algorithm.replace(/(?:-cert-v01)?@openssh\.com$/, '').replace(/^rsa-sha2-(?:256|512)$/, 'ssh-rsa');
}

/** The key that a check has left; undefined as long as it is not there as a whole. */
function keyIn(file: string): HostKey | undefined {
  try {
    const [, fingerprint, type] = /^(\S+) (\S+)\n$/.exec(readFileSync(file, 'latin1')) ?? [];
    return fingerprint && type ? { fingerprint, type } : undefined;
  } catch {
    return undefined;
  }
}
