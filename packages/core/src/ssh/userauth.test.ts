import { certificateShaped, field, userAuthData } from '@gpg-bridge/test-support/ssh-requests';
import { describe, expect, it } from 'vitest';
import { parseUserAuth } from './userauth.ts';

const KEY = Buffer.concat([field('ssh-ed25519'), field(Buffer.alloc(32, 1))]);
const OTHER = Buffer.concat([field('ssh-ed25519'), field(Buffer.alloc(32, 2))]);
const HOST_BOUND = 'publickey-hostbound-v00@openssh.com';

describe('a login', () => {
  it('is read with all its facts', () => {
    expect(parseUserAuth(userAuthData(KEY, { algorithm: 'rsa-sha2-512' }), KEY)).toEqual({
      kind: 'login',
      sessionId: Buffer.alloc(32, 7),
      user: 'ada',
      service: 'ssh-connection',
      method: 'publickey',
      algorithm: 'rsa-sha2-512',
      key: KEY,
    });
  });

  it('that is bound to a host has its key', () => {
    const data = userAuthData(KEY, { method: HOST_BOUND, behind: field('host key') });
    expect(parseUserAuth(data, KEY)).toMatchObject({ method: HOST_BOUND, hostKey: Buffer.from('host key') });
  });

  it('may have a certificate of the key that signs', () => {
    const certificate = certificateShaped(KEY);
    expect(parseUserAuth(userAuthData(certificate), KEY)).toMatchObject({ key: certificate });
    expect(parseUserAuth(userAuthData(KEY), certificate)).toBeUndefined();
  });

  it.each([
    ['another message type', userAuthData(KEY, { type: 51 })],
    ['no session', userAuthData(KEY, { sessionId: Buffer.alloc(0) })],
    ['a session id that no hash makes', userAuthData(KEY, { sessionId: Buffer.alloc(33) })],
    ['no user', userAuthData(KEY, { user: '' })],
    ['another service', userAuthData(KEY, { service: 'ssh-userauth' })],
    ['another method', userAuthData(KEY, { method: 'hostbased' })],
    ['no signature announced', userAuthData(KEY, { hasSignature: 0 })],
    ['another truth', userAuthData(KEY, { hasSignature: 2 })],
    ['no algorithm', userAuthData(KEY, { algorithm: '' })],
    ['another key', userAuthData(Buffer.concat([KEY, Buffer.of(0)]))],
    ['a certificate of another key', userAuthData(certificateShaped(OTHER))],
    ['something behind it', userAuthData(KEY, { behind: Buffer.of(0) })],
    ['a host key and no bound method', userAuthData(KEY, { behind: field('host key') })],
    ['a bound method and no host key', userAuthData(KEY, { method: HOST_BOUND })],
    ['an empty host key', userAuthData(KEY, { method: HOST_BOUND, behind: field('') })],
    ['something behind its host key', userAuthData(KEY, { method: HOST_BOUND, behind: Buffer.alloc(9) })],
  ])('is none with %s', (_name, data) => {
    expect(parseUserAuth(data, KEY)).toBeUndefined();
  });

  it('is none without its last bytes', () => {
    for (const data of [userAuthData(KEY), userAuthData(KEY, { method: HOST_BOUND, behind: field('key') })]) {
      for (let length = 0; length < data.length; length++) {
        expect(parseUserAuth(data.subarray(0, length), KEY)).toBeUndefined();
      }
    }
  });
});
