import { MAX_STREAMS, PROTOCOL_VERSION } from '@gpg-bridge/core/mux/frame';
import { HEARTBEAT, type HeartbeatTimes } from '@gpg-bridge/core/mux/heartbeat';

/** What a server is told before its first frame. */
export interface ServerConfig extends HeartbeatTimes {
  /** The version of the protocol that the host speaks. */
  protocol: number;
  /** Clients served at once; more of them wait. */
  maxStreams: number;
  /** 1: every frame is told on the standard error, without what it carries; 0: none is. */
  trace: number;
}

/** The usual one. */
export const SERVER_CONFIG: ServerConfig = {
  protocol: PROTOCOL_VERSION,
  maxStreams: MAX_STREAMS,
  trace: 0,
  ...HEARTBEAT,
};

const KEYS: Readonly<Record<keyof ServerConfig, string>> = {
  protocol: 'protocol',
  maxStreams: 'max-streams',
  trace: 'trace',
  tickMs: 'tick-ms',
  maxUnanswered: 'max-unanswered',
  idleTicks: 'idle-ticks',
};

const NAMES = Object.keys(KEYS) as (keyof ServerConfig)[];

/** Lines of `key=value`, values percent-encoded: what the smallest parser of any language can read. */
export function encodeConfig(config: ServerConfig): string {
  return NAMES.map((name) => `${KEYS[name]}=${encodeURIComponent(config[name])}\n`).join('');
}

/** The configuration that `encodeConfig` wrote; keys it does not know are left out. */
export function decodeConfig(lines: string): ServerConfig {
  const values = new Map(lines.split('\n').map((line) => line.split('=', 2) as [string, string]));
  const known = NAMES.map((name) => [name, Number(decodeURIComponent(values.get(KEYS[name]) ?? ''))]);
  return Object.fromEntries(known) as ServerConfig;
}
