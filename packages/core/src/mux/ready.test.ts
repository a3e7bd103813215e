import { describe, expect, it } from 'vitest';
import { encodeReady, parseReady } from './ready.ts';

const INFO = { version: 4, runtime: 'perl', system: 'linux', uid: 1_000, home: '/home/u' };

const parse = (value: unknown) => parseReady(Buffer.from(JSON.stringify(value)));

describe('READY', () => {
  it.each([INFO, { ...INFO, boot: '6f3f-1' }])('comes out as it went in', (info) => {
    expect(parseReady(encodeReady(info))).toEqual(info);
  });

  it('has no version and knows nothing when it is empty', () => {
    expect(parse({})).toEqual({ version: 0, runtime: 'unknown', system: 'unknown', uid: -1, home: '/' });
  });

  it('loses what does not fit, and what a terminal would obey', () => {
    const payload = {
      version: 'three',
      runtime: 7,
      system: 'li\u001b[2Jnux',
      uid: '0',
      home: 'relative',
      boot: 'a\u0007b',
      other: true,
    };
    expect(parse(payload)).toEqual({
      version: 0,
      runtime: 'unknown',
      system: 'li\\x1b[2Jnux',
      uid: -1,
      home: '/',
      boot: 'a\\x07b',
    });
    expect(parse({ ...INFO, runtime: '\u001b]0;x', boot: 3 })).toEqual({ ...INFO, runtime: '\\x1b]0;x' });
  });

  it.each(['', '[]', '3', 'null', '"x"', '{', 'hello'])('is not "%s"', (text) => {
    expect(parseReady(Buffer.from(text))).toBeUndefined();
  });
});
