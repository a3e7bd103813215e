import { printable } from '../text/escape.ts';

/** Extensions of the version 1 protocol that a target announces. */
export const FEATURES = { WINDOW: 'window', MORE_KEYS: 'pubkey-more' } as const;

/** Of features, sockets or warnings; a target could fill a person's terminal with them. */
const MAX_ITEMS = 32;

/** What a target says about itself when it listens. */
export interface ReadyInfo {
  version: number;
  features: readonly string[];
  sockets: readonly { type: string; path: string }[];
  runtime?: string;
  /** What did not work, in words for a person. */
  warnings: readonly string[];
}

/** The payload of a READY frame. */
export function encodeReady(info: ReadyInfo): Buffer {
  return Buffer.from(JSON.stringify(info));
}

/**
 * What a READY payload says: empty is a version 1 target, anything but a JSON object gives undefined. The
 * target is not trusted: unfit fields are dropped, and every text is made fit for a terminal.
 */
export function parseReady(payload: Buffer): ReadyInfo | undefined {
  if (payload.length === 0) return { version: 1, features: [], sockets: [], warnings: [] };
  let value: unknown;
  try {
    value = JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { version, features, sockets, runtime, warnings } = value as Record<string, unknown>;
  return {
    version: typeof version === 'number' ? version : 1,
    features: texts(features),
    sockets: list(sockets).flatMap((socket) => {
      const { type, path } = (socket ?? {}) as Record<string, unknown>;
      return typeof type === 'string' && typeof path === 'string'
        ? [{ type: printable(type), path: printable(path) }]
        : [];
    }),
    ...(typeof runtime === 'string' ? { runtime: printable(runtime) } : {}),
    warnings: texts(warnings),
  };
}

function texts(value: unknown): string[] {
  return list(value).flatMap((text) => (typeof text === 'string' ? [printable(text)] : []));
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value.slice(0, MAX_ITEMS) : [];
}
