import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { posix } from 'node:path';
import { BridgeError } from '../errors.ts';

/**
 * What a file at the place of a socket can hold:
 *
 *     windows    PORT LF NONCE                    what libassuan writes; NONCE is 16 raw bytes
 *                HOST LF PORT LF NONCE            the same with a loopback HOST before it
 *     cygwin     !<socket >PORT s XXXXXXXX-XXXXXXXX-XXXXXXXX-XXXXXXXX NUL
 *     redirect   %Assuan% LF socket=PATH LF       PATH may hold ${VAR}
 */
export type SocketFile =
  | { kind: 'windows' | 'cygwin'; host: string; port: number; nonce: Buffer }
  | { kind: 'redirect'; path: string };

/** No form is longer; libassuan itself reads at most 511 bytes of a redirect. */
export const MAX_SOCKET_FILE = 4096;

const NONCE_LENGTH = 16;
const LOOPBACK = '127.0.0.1';
const CYGWIN_MARK = '!<socket >';
const REDIRECT_MARK = '%Assuan%';
const REDIRECT_KEY = 'socket=';

/**
 * Reads a socket file. The reasons it gives for a malformed one never quote the file: any of its bytes
 * may belong to the nonce, wherever they stand.
 */
export function parseSocketFile(path: string, bytes: Buffer, env: NodeJS.ProcessEnv = {}): SocketFile {
  if (bytes.length === 0) throw malformed(path, 'it is empty');
  if (bytes.length > MAX_SOCKET_FILE) throw malformed(path, `it is longer than ${MAX_SOCKET_FILE} bytes`);
  const text = bytes.toString('latin1');
  if (text.startsWith(CYGWIN_MARK)) return parseCygwin(path, text.slice(CYGWIN_MARK.length));
  if (text.startsWith(REDIRECT_MARK)) return parseRedirect(path, bytes.toString(), env);
  return parsePortAndNonce(path, bytes);
}

function parsePortAndNonce(path: string, bytes: Buffer): SocketFile {
  const [first, afterFirst] = splitLine(path, bytes, 'its first line');
  if (isDecimal(first)) {
    return {
      kind: 'windows',
      host: LOOPBACK,
      port: parsePort(path, first),
      nonce: nonceOf(path, afterFirst),
    };
  }
  const host = loopbackAddress(first);
  if (host === undefined) {
    throw malformed(path, 'its first line is neither a decimal port nor a loopback host');
  }
  const [second, afterSecond] = splitLine(path, afterFirst, 'its second line, the port,');
  if (!isDecimal(second)) throw malformed(path, 'its second line is not a decimal port');
  return { kind: 'windows', host, port: parsePort(path, second), nonce: nonceOf(path, afterSecond) };
}

function parseCygwin(path: string, text: string): SocketFile {
  const fields = /^(\d+) ([a-z]) (.*)$/s.exec(text);
  if (!fields) throw malformed(path, 'no port and socket type follow its Cygwin mark');
  const [, port = '', type, rest = ''] = fields;
  if (type !== 's') throw malformed(path, 'it stands for a Cygwin socket that is not a stream');
  if (!rest.endsWith('\0')) throw malformed(path, 'it is a Cygwin socket file without its final NUL');
  if (!/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{8}){3}\0$/.test(rest)) {
    throw malformed(path, 'its Cygwin nonce is not four groups of eight hexadecimal digits');
  }
  const nonce = Buffer.alloc(NONCE_LENGTH);
  // Each word is little-endian on the wire, since Cygwin sends its memory as it is.
  for (const [index, word] of rest.slice(0, -1).split('-').entries()) {
    nonce.writeUInt32LE(Number.parseInt(word, 16), index * 4);
  }
  return { kind: 'cygwin', host: LOOPBACK, port: parsePort(path, port), nonce };
}

function parseRedirect(path: string, text: string, env: NodeJS.ProcessEnv): SocketFile {
  const [mark, line = '', ...rest] = text.split('\n');
  if (mark !== REDIRECT_MARK || !line.startsWith(REDIRECT_KEY)) {
    throw malformed(path, `no line socket=PATH follows its ${REDIRECT_MARK} line`);
  }
  if (rest.length === 0) throw malformed(path, 'its socket=PATH line has no line end');
  const target = line.slice(REDIRECT_KEY.length).replace(/\$\{([^}]*)\}/g, (_, name: string) => {
    const value = env[name];
    if (value === undefined) throw malformed(path, `it names the variable ${name}, which is not set`);
    return value;
  });
  if (!posix.isAbsolute(target)) throw malformed(path, 'it does not lead to an absolute path');
  return { kind: 'redirect', path: target };
}

function splitLine(path: string, bytes: Buffer, name: string): [line: string, rest: Buffer] {
  const end = bytes.indexOf(0x0a);
  if (end < 0) throw malformed(path, `${name} has no line end`);
  return [bytes.toString('latin1', 0, end), bytes.subarray(end + 1)];
}

function isDecimal(text: string): boolean {
  return /^\d+$/.test(text);
}

function parsePort(path: string, digits: string): number {
  const port = Number(digits);
  if (port >= 1 && port <= 65_535) return port;
  throw malformed(path, 'its port is not in 1–65535');
}

function nonceOf(path: string, bytes: Buffer): Buffer {
  if (bytes.length === NONCE_LENGTH) return Buffer.from(bytes);
  throw malformed(path, `its nonce has ${bytes.length} bytes instead of ${NONCE_LENGTH}`);
}

function loopbackAddress(host: string): string | undefined {
  if (host === 'localhost') return LOOPBACK; // libassuan listens on IPv4 alone
  if (host === '::1') return host;
  return isIPv4(host) && host.startsWith('127.') ? host : undefined;
}

/** Reads the file at a socket's path; a test may replace it for a state that can't be provoked. */
export interface SocketFileSystem {
  /** At most `limit` bytes of a regular file, or what else is there. Rejects as Node's `stat` does. */
  read(path: string, limit: number): Promise<Buffer | 'socket' | 'other'>;
}

/** Reads the real file system. */
export const nodeFileSystem: SocketFileSystem = {
  async read(path, limit) {
    const facts = await stat(path);
    if (facts.isSocket()) return 'socket';
    if (!facts.isFile()) return 'other';
    // O_NONBLOCK (not on Windows): if a FIFO took the file's place meanwhile, opening must not wait for a writer.
    const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(limit), 0, limit, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  },
};

/** The error for a file that is at a socket's place and is none. */
export function malformed(path: string, why: string): BridgeError {
  return new BridgeError('AGENT_SOCKET_FILE_MALFORMED', {
    what: `the socket file ${path} can't be used`,
    why,
    fix: 'Restart the agent with `gpgconf --kill gpg-agent` and `gpgconf --launch gpg-agent`; it writes the file anew.',
  });
}
