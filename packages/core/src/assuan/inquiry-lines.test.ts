import { describe, expect, it } from 'vitest';
import { endsInquiry, isCancel, isWholeDataLine } from './inquiry-lines.ts';

const bytes = (line: string) => Buffer.from(line, 'latin1');

describe('a data line', () => {
  it.each(['D ', 'd a', 'D %00', 'D %0a%0D%25', 'D %fF%9AX', 'D a\0b\x7f\xff', 'D END', 'D %41'])(
    'is whole: %j',
    (line) => {
      expect(isWholeDataLine(bytes(`${line}\n`))).toBe(true);
      expect(isWholeDataLine(bytes(`${line}\r\n`))).toBe(true);
    },
  );

  it.each([
    ...['%', '%4', 'a%', 'a%4', '%%41', '%25%', '%25%4', '%25a%4'],
    ...[
      '%zz',
      '%4z',
      '%z4',
      '%/0',
      '%0/',
      '%:0',
      '%0:',
      '%@0',
      '%0@',
      '%G0',
      '%0G',
      '%`0',
      '%0`',
      '%g0',
      '%0g',
    ],
    ...['a\rb', '\ra', '%\r4', '%4\r1'],
  ])('is broken: D %j', (data) => {
    expect(isWholeDataLine(bytes(`D ${data}\n`))).toBe(false);
    expect(isWholeDataLine(bytes(`D ${data}\r\n`))).toBe(false);
  });

  it('is not whole without its line end', () => {
    expect(isWholeDataLine(bytes('D a'))).toBe(false);
    expect(isWholeDataLine(bytes('D a\r'))).toBe(false);
  });
});

describe('the end of an inquiry', () => {
  it.each(['END', 'CAN'])('is %s, with and without CR', (line) => {
    for (const end of ['\n', '\r\n']) {
      expect(endsInquiry(bytes(line + end))).toBe(true);
      expect(isCancel(bytes(line + end))).toBe(line === 'CAN');
    }
  });

  it.each([
    '',
    'end',
    'can',
    'End',
    'END ',
    'END x',
    'ENDx',
    ' END',
    'END\t',
    'END\0',
    'END\r\r',
    'CANCEL',
    'CAN x',
  ])('is not %j', (line) => {
    expect(endsInquiry(bytes(`${line}\n`))).toBe(false);
    expect(isCancel(bytes(`${line}\n`))).toBe(false);
  });
});
