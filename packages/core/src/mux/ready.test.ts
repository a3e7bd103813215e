import { describe, expect, it } from 'vitest';
import { encodeReady, parseReady } from './ready.ts';

describe('READY', () => {
  it('empty is version 1', () => {
    expect(parseReady(Buffer.alloc(0))).toEqual({ version: 1, features: [], sockets: [], warnings: [] });
  });

  it('comes out as it went in', () => {
    const info = {
      version: 2,
      features: ['window', 'pubkey-more'],
      sockets: [{ type: 'gpg-agent', path: '/home/u/.gnupg/S.gpg-agent' }],
      runtime: 'perl',
      warnings: ['no ssh'],
    };
    expect(parseReady(encodeReady(info))).toEqual(info);
  });

  it('loses what does not fit, and what a terminal would obey', () => {
    const payload = {
      version: 'two',
      features: ['window', 3, null],
      sockets: [null, 'x', { type: 'gpg-agent' }, { type: 'ssh-agent', path: '/a\u001b[2Jb' }],
      runtime: 7,
      warnings: 'none',
      other: true,
    };
    expect(parseReady(Buffer.from(JSON.stringify(payload)))).toEqual({
      version: 1,
      features: ['window'],
      sockets: [{ type: 'ssh-agent', path: '/a\\x1b[2Jb' }],
      warnings: [],
    });
  });

  it('no more warnings are taken than a person can read', () => {
    const warnings = Array.from({ length: 60_000 }, () => 'w');
    expect(parseReady(Buffer.from(JSON.stringify({ warnings })))?.warnings).toHaveLength(32);
  });

  it.each(['[]', '3', 'null', '"x"', '{', 'hello'])('%s is not READY', (text) => {
    expect(parseReady(Buffer.from(text))).toBeUndefined();
  });
});
