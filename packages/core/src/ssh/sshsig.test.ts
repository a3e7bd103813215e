import { sshsigData } from '@gpg-bridge/test-support/ssh-requests';
import { describe, expect, it } from 'vitest';
import { parseSshsig } from './sshsig.ts';

describe('SSHSIG data', () => {
  it.each([
    ['sha256', 32],
    ['sha512', 64],
  ])('is read with %s', (hash, length) => {
    const digest = Buffer.alloc(length, 3);
    expect(parseSshsig(sshsigData({ namespace: 'git', hash, digest }))).toEqual({
      kind: 'signature',
      namespace: 'git',
      hashAlgorithm: hash,
      digest,
    });
  });

  it.each([
    ['no namespace', sshsigData({ namespace: '' })],
    ['something reserved', sshsigData({ reserved: 'x' })],
    ['another hash', sshsigData({ hash: 'sha1', digest: Buffer.alloc(20) })],
    ['the name of a property', sshsigData({ hash: 'toString' })],
    ['a digest of another length', sshsigData({ hash: 'sha256' })],
    ['something behind it', sshsigData({ behind: Buffer.of(0) })],
    ['another magic', Buffer.concat([Buffer.from('SSHSIg'), sshsigData().subarray(6)])],
  ])('is none with %s', (_name, data) => {
    expect(parseSshsig(data)).toBeUndefined();
  });

  it('is none without its last bytes', () => {
    const data = sshsigData();
    for (let length = 0; length < data.length; length++) {
      expect(parseSshsig(data.subarray(0, length))).toBeUndefined();
    }
  });
});
