import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runOk } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { encodeString, FieldReader, fingerprint, signsWithoutDigest } from './key-blob.ts';

async function blobOf(file: string): Promise<Buffer> {
  return Buffer.from((await readFile(file, 'utf8')).split(' ')[1]!, 'base64');
}

async function printedBy(file: string): Promise<string> {
  return (await runOk('ssh-keygen', ['-lf', file])).split(' ')[1]!;
}

describe('a fingerprint', () => {
  it.each(['ed25519', 'ecdsa', 'rsa'])(
    'of an %s key and its certificate is what ssh-keygen prints',
    async (type) => {
      const dir = await tempDir();
      const [authority, key] = [join(dir, 'ca'), join(dir, 'key')];
      await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', authority]);
      await runOk('ssh-keygen', ['-q', '-t', type, '-N', '', '-f', key]);
      await runOk('ssh-keygen', ['-q', '-s', authority, '-I', 'id', `${key}.pub`]);
      const plain = await printedBy(`${key}.pub`);
      expect(fingerprint(await blobOf(`${key}.pub`))).toBe(plain);
      expect(await printedBy(`${key}-cert.pub`)).toBe(plain);
      expect(fingerprint(await blobOf(`${key}-cert.pub`))).toBe(plain);
    },
  );

  it('of a certificate for a security key is that of the key', () => {
    const key = [encodeString('K'.repeat(32)), encodeString('ssh:')];
    const plain = Buffer.concat([encodeString('sk-ssh-ed25519@openssh.com'), ...key]);
    const type = encodeString('sk-ssh-ed25519-cert-v01@openssh.com');
    const certificate = Buffer.concat([type, encodeString('nonce'), ...key, Buffer.alloc(8)]);
    expect(fingerprint(certificate)).toBe(fingerprint(plain));
  });

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['a cut certificate', encodeString('ssh-ed25519-cert-v01@openssh.com')],
    [
      'a certificate without its key',
      Buffer.concat([encodeString('ssh-rsa-cert-v01@openssh.com'), encodeString('n')]),
    ],
    [
      'a certificate of an unknown type',
      Buffer.concat([encodeString('x-cert-v01@openssh.com'), encodeString('n')]),
    ],
  ])('of %s is that of the bytes', (_name, blob) => {
    expect(fingerprint(blob)).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
  });
});

describe('fields', () => {
  it('are read one after another, and never past the end', () => {
    const reader = new FieldReader(
      Buffer.concat([encodeString('a'), encodeString(''), Buffer.of(0, 0, 0, 9, 1)]),
    );
    expect(reader.string()?.toString()).toBe('a');
    expect(reader.string()?.toString()).toBe('');
    expect(reader.string()).toBeUndefined();
    expect(new FieldReader(Buffer.of(0, 0, 0)).string()).toBeUndefined();
  });
});

it.each([
  ['ssh-ed25519', true],
  ['ssh-ed448', true],
  ['ssh-rsa', false],
  ['ecdsa-sha2-nistp256', false],
  ['ssh-ed25519-cert-v01@openssh.com', false],
])('a key of type %s signs without a digest: %j', (type, expected) => {
  expect(signsWithoutDigest(Buffer.concat([encodeString(type), encodeString('key')]))).toBe(expected);
});
