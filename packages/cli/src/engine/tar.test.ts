import { describe, expect, it } from 'vitest';
import { fileInTar } from './tar.ts';

/** One entry: a header with its size and type, and its content, padded. */
function entry(type: string, content = ''): Buffer {
  const header = Buffer.alloc(512);
  header.write('etc/passwd', 0);
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write(type, 156);
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  body.write(content);
  return Buffer.concat([header, body]);
}

const END = Buffer.alloc(1024);

describe('fileInTar', () => {
  it.each([
    ['a file', [entry('0', 'dev:x:1000:')], 'dev:x:1000:'],
    ['a file of the oldest kind', [entry('\0', 'a')], 'a'],
    ['an empty file', [entry('0')], ''],
    ['a file behind what is said about it', [entry('x', 'k'.repeat(700)), entry('0', 'b')], 'b'],
    ['a link', [entry('2'), entry('0', 'another')], undefined],
    ['a directory', [entry('5'), entry('0', 'in it')], undefined],
    ['nothing', [], undefined],
  ])('%s', (_what, entries, expected) => {
    expect(fileInTar(Buffer.concat([...entries, END]))?.toString()).toBe(expected);
  });

  it('bears an archive that breaks off anywhere', () => {
    const whole = Buffer.concat([entry('x', 'k'.repeat(700)), entry('0', 'content'), END]);
    for (let length = 0; length < whole.length; length += 7) fileInTar(whole.subarray(0, length));
  });
});
