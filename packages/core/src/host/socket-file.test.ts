import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { tempDir } from '@gpg-bridge/test-support/temp';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BridgeError } from '../errors.ts';
import { nodeFileSystem, parseSocketFile } from './socket-file.ts';

const PATH = '/home/u/.gnupg/S.gpg-agent.extra';
const nonce = Buffer.from('0a0d00ff310a253a7e20c3a90d0a0a00', 'hex');
const bytes = (...parts: (string | Buffer)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)));

describe('forms', () => {
  test('port and nonce, split at the first LF alone', () => {
    const file = bytes('52431\n', nonce);
    expect(file.length).toBe(22);
    expect(parseSocketFile(PATH, file)).toEqual({ kind: 'windows', host: '127.0.0.1', port: 52431, nonce });
  });

  test.each([
    ['127.0.0.1', '127.0.0.1'],
    ['127.9.8.7', '127.9.8.7'],
    ['localhost', '127.0.0.1'],
    ['::1', '::1'],
  ])('loopback host %s before the port', (given, host) => {
    expect(parseSocketFile(PATH, bytes(`${given}\n1\n`, nonce))).toEqual({
      kind: 'windows',
      host,
      port: 1,
      nonce,
    });
  });

  test('Cygwin, each word of the nonce little-endian', () => {
    const file = bytes('!<socket >52431 s 00112233-DEADBEEF-0000000A-ffffffff\0');
    expect(file.length).toBe(54);
    expect(parseSocketFile(PATH, file)).toEqual({
      kind: 'cygwin',
      host: '127.0.0.1',
      port: 52431,
      nonce: Buffer.from('33221100efbeadde0a000000ffffffff', 'hex'),
    });
  });

  test('redirect, with variables and bytes beyond ASCII', () => {
    const file = Buffer.from(`%Assuan%\nsocket=\${ROOT}/é:%20/\${NAME}.$x\nignored\n`);
    const env = { ROOT: '/run/user/0', NAME: 'S' };
    expect(parseSocketFile(PATH, file, env)).toEqual({ kind: 'redirect', path: '/run/user/0/é:%20/S.$x' });
  });

  test('any port and any nonce come out as they went in', () => {
    const anyNonce = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((array) => Buffer.from(array));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 65_535 }), anyNonce, (port, raw) => {
        expect(parseSocketFile(PATH, bytes(`${port}\n`, raw))).toMatchObject({ port, nonce: raw });
        expect(parseSocketFile(PATH, bytes(`localhost\n${port}\n`, raw))).toMatchObject({ port, nonce: raw });
      }),
    );
  });
});

const cygwin = '00112233-DEADBEEF-0000000A-ffffffff';
const malformed: [name: string, file: Buffer, why: string][] = [
  ['empty', bytes(), 'it is empty'],
  ['too long', Buffer.alloc(4097, 0x31), 'it is longer than 4096 bytes'],
  ['no newline', bytes('52431'), 'its first line has no line end'],
  ['a nonce alone', Buffer.alloc(16, 0x41), 'its first line has no line end'],
  ['no nonce', bytes('52431\n'), 'its nonce has 0 bytes instead of 16'],
  ['short nonce', bytes('52431\n', nonce.subarray(1)), 'its nonce has 15 bytes instead of 16'],
  ['long nonce', bytes('52431\n', nonce, '\n'), 'its nonce has 17 bytes instead of 16'],
  ['port 0', bytes('0\n', nonce), 'its port is not in 1–65535'],
  ['port too high', bytes('65536\n', nonce), 'its port is not in 1–65535'],
  ['endless port', bytes(`${'9'.repeat(400)}\n`, nonce), 'its port is not in 1–65535'],
  ...['-1', '0x50', '80.5', ' 80', '80\r', '8080 ', '', '١'].map((port): [string, Buffer, string] => [
    `port ${JSON.stringify(port)}`,
    Buffer.concat([Buffer.from(`${port}\n`), nonce]),
    'its first line is neither a decimal port nor a loopback host',
  ]),
  ...['192.168.0.1', 'example.org', '127.0.0.1.example.org', '127.1', '0.0.0.0', '::', '127.0.0.1\r'].map(
    (host): [string, Buffer, string] => [
      `host ${JSON.stringify(host)}`,
      bytes(`${host}\n52431\n`, nonce),
      'its first line is neither a decimal port nor a loopback host',
    ],
  ),
  ['host and nothing', bytes('127.0.0.1\n'), 'its second line, the port, has no line end'],
  ['host, bad port', bytes('127.0.0.1\nx\n', nonce), 'its second line is not a decimal port'],
  ['host, port 0', bytes('127.0.0.1\n0\n', nonce), 'its port is not in 1–65535'],
  ['host, short nonce', bytes('::1\n80\n', nonce.subarray(2)), 'its nonce has 14 bytes instead of 16'],
  ['Cygwin mark alone', bytes('!<socket >'), 'no port and socket type follow its Cygwin mark'],
  [
    'Cygwin without port',
    bytes(`!<socket > s ${cygwin}\0`),
    'no port and socket type follow its Cygwin mark',
  ],
  ['Cygwin port 0', bytes(`!<socket >0 s ${cygwin}\0`), 'its port is not in 1–65535'],
  [
    'Cygwin datagram',
    bytes(`!<socket >80 d ${cygwin}\0`),
    'it stands for a Cygwin socket that is not a stream',
  ],
  [
    'Cygwin without NUL',
    bytes(`!<socket >80 s ${cygwin}`),
    'it is a Cygwin socket file without its final NUL',
  ],
  ...[cygwin.slice(1), `${cygwin}0`, cygwin.slice(9), cygwin.replaceAll('-', ' '), ''].map(
    (text): [string, Buffer, string] => [
      `Cygwin nonce ${JSON.stringify(text)}`,
      bytes(`!<socket >80 s ${text}\0`),
      'its Cygwin nonce is not four groups of eight hexadecimal digits',
    ],
  ),
  ['redirect mark alone', bytes('%Assuan%'), 'no line socket=PATH follows its %Assuan% line'],
  ['redirect, other mark', bytes('%Assuan%x\nsocket=/a\n'), 'no line socket=PATH follows its %Assuan% line'],
  ['redirect, other key', bytes('%Assuan%\nSocket=/a\n'), 'no line socket=PATH follows its %Assuan% line'],
  ['redirect without end', bytes('%Assuan%\nsocket=/a'), 'its socket=PATH line has no line end'],
  ['redirect to nothing', bytes('%Assuan%\nsocket=\n'), 'it does not lead to an absolute path'],
  ['relative redirect', bytes('%Assuan%\nsocket=a/b\n'), 'it does not lead to an absolute path'],
  ['unset variable', bytes(`%Assuan%\nsocket=/a/\${NO}\n`), 'it names the variable NO, which is not set'],
];

describe('malformed files', () => {
  test.each(malformed)('%s', (_, file, why) => {
    const error = thrownBy(() => parseSocketFile(PATH, file, {}));
    expect(error).toBeInstanceOf(BridgeError);
    expect(error).toMatchObject({ code: 'AGENT_SOCKET_FILE_MALFORMED', why });
    expect((error as Error).message).toContain(`${PATH} can't be used: ${why}. `);
    expectNoSecret(nonce, error);
  });

  test('none quotes the nonce, wherever the file puts it', () => {
    const secret = Buffer.from('S3cr3tN0nce-text');
    for (const file of [
      bytes(secret),
      bytes(secret, '\n'),
      bytes(secret, '\n52431\n'),
      bytes('52431 ', secret, '\n'),
      bytes('localhost\n', secret, '\n52431'),
      bytes('52431\n', secret, secret),
      bytes('!<socket >80 s ', secret, '\0'),
    ]) {
      expectNoSecret(
        secret,
        thrownBy(() => parseSocketFile(PATH, file, {})),
      );
    }
  });
});

describe('reading', () => {
  test('no more than the limit of a file', async () => {
    const path = join(await tempDir(), 'f');
    await writeFile(path, 'abcdef');
    expect(await nodeFileSystem.read(path, 4)).toEqual(Buffer.from('abcd'));
    expect(await nodeFileSystem.read(path, 40)).toEqual(Buffer.from('abcdef'));
  });

  test('says what else is there, and never waits for a FIFO', async () => {
    const dir = await tempDir();
    await mkdir(join(dir, 'd'));
    execFileSync('mkfifo', [join(dir, 'fifo')], { timeout: 60_000 });
    expect(await nodeFileSystem.read(join(dir, 'd'), 4)).toBe('other');
    expect(await nodeFileSystem.read(join(dir, 'fifo'), 4)).toBe('other');
    await expect(nodeFileSystem.read(join(dir, 'nothing'), 4)).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
