import { describe, expect, it } from 'vitest';
import { printable } from './printable.ts';
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

describe('printable', () => {
  it.each([
    ['plain é ✓', 'plain é ✓'],
    ['a\r\n\tb', 'a\\r\\n\\tb'],
    ['\u001b]0;x\u0007', '\\x1b]0;x\\x07'],
    ['\u202egnp', '\\u{202e}gnp'],
    ['12345678901', '1234567890…'],
  ])('%j becomes %j', (text, shown) => {
    expect(printable(text, 10)).toBe(shown);
    expect(printable(Buffer.from(text), 10)).toBe(shown);
  });

  it('shows bytes that are no text as question marks', () => {
    expect(printable(Buffer.of(0x61, 0xff, 0xfe, 0x62))).toBe('a??b');
  });
});
