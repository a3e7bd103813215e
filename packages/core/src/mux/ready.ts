import { printable } from '../text/escape.ts';

/** What a socket server says about itself and the target in its first frame. */
export interface ReadyInfo {
  version: number;
  runtime: string;
  /** Node's word for the platform. */
  system: string;
  uid: number;
  /** The user's home directory. */
  home: string;
  /** The running kernel, where it has a name for itself. */
  boot?: string;
}

/** The payload of a READY frame. */
export function encodeReady(info: ReadyInfo): Buffer {
  return Buffer.from(JSON.stringify(info));
}

/**
 * What a READY payload says; undefined for anything but a JSON object. The target is not trusted: every
 * text that a person may see is made fit for a terminal.
 */
export function parseReady(payload: Buffer): ReadyInfo | undefined {
  let value: unknown;
  try {
    value = JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { version, runtime, system, uid, home, boot } = value as Record<string, unknown>;
  return {
    version: typeof version === 'number' ? version : 0,
    runtime: printable(typeof runtime === 'string' ? runtime : 'unknown'),
    system: printable(typeof system === 'string' ? system : 'unknown'),
    uid: typeof uid === 'number' ? uid : -1,
    home: typeof home === 'string' && home.startsWith('/') ? home : '/',
    ...(typeof boot === 'string' ? { boot: printable(boot) } : {}),
  };
}
