/** What a server is told before its first frame. */
export interface ServerConfig {
  /** The version of the protocol that the host speaks. */
  protocol: number;
  /** Clients served at once; more of them wait. */
  maxStreams?: number;
  /** How often a server that the system tells nothing looks whether its socket was replaced, in ms. */
  watchMs?: number;
}

const KEYS: Readonly<Record<keyof ServerConfig, string>> = {
  protocol: 'protocol',
  maxStreams: 'max-streams',
  watchMs: 'watch-ms',
};

const NAMES = Object.keys(KEYS) as (keyof ServerConfig)[];

/** Lines of `key=value`, values percent-encoded: what the smallest parser of any language can read. */
export function encodeConfig(config: ServerConfig): string {
  return NAMES.flatMap((name) => {
    const value = config[name];
    return value === undefined ? [] : [`${KEYS[name]}=${encodeURIComponent(value)}\n`];
  }).join('');
}

/** The configuration that `encodeConfig` wrote; keys it does not know are left out. */
export function decodeConfig(lines: string): ServerConfig {
  const values = new Map(lines.split('\n').map((line) => line.split('=', 2) as [string, string]));
  const known = NAMES.flatMap((name) => {
    const value = values.get(KEYS[name]);
    return value === undefined ? [] : [[name, Number(decodeURIComponent(value))]];
  });
  return { protocol: 0, ...Object.fromEntries(known) } as ServerConfig;
}
