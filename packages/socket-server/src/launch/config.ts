import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
/** What a server is told before its first frame. */
export interface ServerConfig {
  gpg?: boolean;
  ssh?: boolean;
  /** Takes the place of another forward. */
  takeover?: boolean;
  /** Fingerprints of the keys that get ultimate ownertrust. */
  trust?: readonly string[];
  /** The host agent's own sockets, which are never replaced. */
  hostSockets?: readonly SocketIdentity[];
  /** The directory of the ssh socket, if it is not ~/.ssh. */
  sshDir?: string;
  backlog?: number;
  maxStreams?: number;
  /** How long whatever is at a socket's path has to answer, in ms. */
  probeMs?: number;
  /** How often a server that the system tells nothing looks whether its socket was replaced, in ms. */
  watchMs?: number;
}

/** One setting: its key on the wire, and how its values get there and back. */
interface Setting<T> {
  key: string;
  write(value: T): readonly string[];
  read(values: readonly string[]): T;
}

type Settings = { [Name in keyof ServerConfig]-?: Setting<NonNullable<ServerConfig[Name]>> };

const flag = (key: string): Setting<boolean> => ({
  key,
  write: (value) => (value ? ['1'] : []),
  read: (values) => values.at(-1) === '1',
});
const text = (key: string): Setting<string> => ({
  key,
  write: (value) => [value],
  read: (values) => values.at(-1) ?? '',
});
const number = (key: string): Setting<number> => ({
  key,
  write: (value) => [String(value)],
  read: (values) => Number(values.at(-1)),
});

const SETTINGS: Settings = {
  gpg: flag('gpg'),
  ssh: flag('ssh'),
  takeover: flag('takeover'),
  trust: { key: 'trust', write: (fingerprints) => fingerprints, read: (values) => values },
  hostSockets: {
    key: 'host-socket',
    write: (sockets) => sockets.map(({ dev, ino, boot }) => [dev, ino, ...(boot ? [boot] : [])].join(':')),
    read: (values) =>
      values.map((value) => {
        const [dev = '', ino = '', boot] = value.split(':');
        return { dev, ino, ...(boot ? { boot } : {}) };
      }),
  },
  sshDir: text('ssh-dir'),
  backlog: number('backlog'),
  maxStreams: number('max-streams'),
  probeMs: number('probe-ms'),
  watchMs: number('watch-ms'),
};

const NAMES = Object.keys(SETTINGS) as (keyof ServerConfig)[];

/** Lines of `key=value`, values percent-encoded: what the smallest parser of any language can read. */
export function encodeConfig(config: ServerConfig): string {
  return NAMES.flatMap((name) => {
    const { key, write } = SETTINGS[name] as Setting<unknown>;
    const value = config[name];
    return value === undefined ? [] : write(value).map((item) => `${key}=${encodeURIComponent(item)}\n`);
  }).join('');
}

/** The configuration that `encodeConfig` wrote; keys it does not know are left out. */
export function decodeConfig(lines: string): ServerConfig {
  const values = new Map<string, string[]>();
  for (const line of lines.split('\n')) {
    const at = line.indexOf('=');
    if (at < 0) continue;
    const key = line.slice(0, at);
    values.set(key, [...(values.get(key) ?? []), decodeURIComponent(line.slice(at + 1))]);
  }
  const known = NAMES.flatMap((name) => {
    const { key, read } = SETTINGS[name] as Setting<unknown>;
    const given = values.get(key);
    return given ? [[name, read(given)]] : [];
  });
  return Object.fromEntries(known) as ServerConfig;
}
