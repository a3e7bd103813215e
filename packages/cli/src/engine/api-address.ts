import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { ViewSocket } from '@gpg-bridge/core/io/view-socket';
import { MessagePipe } from './message-pipe.ts';

/** What a connection over TLS proves itself with, and is checked against. */
export interface TlsMaterial {
  /** Without it the authorities that Node knows count. */
  ca?: Buffer;
  cert?: Buffer;
  /** A secret. */
  key?: Buffer;
  /** Whether the engine has to prove who it is. */
  verify: boolean;
}

/** Where an engine's API listens. */
export type ApiAddress =
  | { kind: 'socket'; path: string }
  | { kind: 'pipe'; path: string }
  | { kind: 'tcp'; host: string; port: number; tls?: TlsMaterial };

/** Ports that the engines use by custom. */
const PLAIN_PORT = 2375;
const TLS_PORT = 2376;

/** Names of the files in a directory of certificates. */
const FILES = { ca: 'ca.pem', cert: 'cert.pem', key: 'key.pem' } as const;

/** Where the API is by an engine's own notation; undefined for what only its command can reach, such as ssh. */
export function parseApiAddress(host: string, tls?: TlsMaterial): ApiAddress | undefined {
  const unix = /^unix:\/\/(\/.*)$/.exec(host);
  if (unix) return { kind: 'socket', path: unix[1]! };
  const pipe = /^npipe:\/\/(\/\/\.\/pipe\/.+)$/.exec(host);
  if (pipe) return { kind: 'pipe', path: pipe[1]!.replaceAll('/', '\\') };
  const tcp = /^tcp:\/\/(?:\[([0-9a-f:.]+)\]|([^/:@[\]?#]+))(?::(\d{1,5}))?\/?$/i.exec(host);
  if (!tcp) return undefined;
  const port = tcp[3] === undefined ? (tls ? TLS_PORT : PLAIN_PORT) : Number(tcp[3]);
  if (port < 1 || port > 65_535) return undefined;
  return { kind: 'tcp', host: tcp[1] ?? tcp[2]!, port, ...(tls ? { tls } : {}) };
}

/** The certificates in a directory; undefined if there are none. */
export function readCertificates(directory: string, verify: boolean): TlsMaterial | undefined {
  const found = Object.entries(FILES).flatMap(([name, file]) => {
    const content = readIfThere(join(directory, file));
    return content ? [[name, content]] : [];
  });
  return found.length === 0 ? undefined : { ...Object.fromEntries(found), verify };
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new BridgeError('ENGINE_UNREACHABLE', {
      what: `${path} can't be read`,
      why: (cause as Error).message,
      fix: 'Make the certificates readable for you, or name another directory with DOCKER_CERT_PATH.',
      cause,
    });
  }
}

/** An address in words. */
export function describeAddress(address: ApiAddress): string {
  return address.kind === 'tcp' ? `${address.host}:${address.port}` : address.path;
}

/** Loads what an address needs, and returns what starts to connect to it. */
export async function connectorTo(address: ApiAddress): Promise<() => Socket> {
  // A connection may come to carry a bridge, so it is one that hands over views of what it reads, where it can.
  if (address.kind === 'socket') return () => ViewSocket.to({ path: address.path });
  if (address.kind === 'pipe') return () => MessagePipe.to({ path: address.path });
  const { host, port, tls } = address;
  // Small frames have to leave at once, and a line that dies without a word has to be noticed while nothing is sent.
  const options = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 };
  if (!tls) return () => ViewSocket.to(options);
  const { connect } = await import('node:tls'); // loaded late: it takes long
  const { verify, ...material } = tls;
  return () => connect({ ...options, ...material, rejectUnauthorized: verify, ALPNProtocols: ['http/1.1'] });
}
