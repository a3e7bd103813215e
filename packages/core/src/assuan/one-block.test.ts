import { expect, it } from 'vitest';
import { isOneBlock } from './one-block.ts';

it.each([
  ['a command', 'PKSIGN\n', 'command', true],
  ['a command behind comments', '# why\n\nNOP\n', 'command', true],
  ['no line end', 'NOP', 'command', false],
  ['two commands', 'NOP\nPKSIGN\n', 'command', false],
  ['a command and a blank line behind it', 'NOP\n\n', 'command', false],
  ['nothing but comments', '# why\n', 'command', false],
  ['data and its end', 'D a\nD b\nEND\n', 'inquiry', true],
  ['a cancel', 'CAN\n', 'inquiry', true],
  ['data without an end', 'D a\n', 'inquiry', false],
  ['data and a command behind its end', 'D a\nEND\nPKSIGN\n', 'inquiry', false],
  ['data where none is asked for, which the agent answers', 'D a\nNOP\n', 'command', false],
  ['a line of data that the agent would cut', `${'D '.padEnd(1_002, 'x')}PKSIGN\nEND\n`, 'inquiry', false],
  ['a comment that the agent would cut', `${'# '.padEnd(1_002, 'x')}PKSIGN\nEND\n`, 'inquiry', false],
  ['the longest line', `${'D '.padEnd(1_001, 'x')}\nEND\n`, 'inquiry', true],
  ['much data', `${`D ${'x'.repeat(900)}\n`.repeat(500)}END\n`, 'inquiry', true],
] as const)('%s', (_name, text, kind, expected) => {
  expect(isOneBlock(text, kind)).toBe(expected);
});
