import { describe, expect, it } from 'vitest';
import { masked } from './masks.ts';
import { GuidePage } from './page.ts';

const TEXT = [
  'Words.',
  '',
  '```yaml compose.yaml',
  'services: {}',
  '```',
  '',
  '```console',
  '$ one \\',
  '> more',
  'said',
  '> this is output',
  '',
  '$ two',
  '```',
  '',
  '```sh',
  '$ not run',
  '```',
  '',
].join('\n');

describe('a page of the guides', () => {
  it('is its steps in order', () => {
    expect(new GuidePage(TEXT).steps).toEqual([
      { kind: 'file', path: 'compose.yaml', text: 'services: {}\n' },
      { kind: 'command', command: 'one \\\nmore', output: 'said\n> this is output\n\n' },
      { kind: 'command', command: 'two', output: '' },
    ]);
  });

  it('is written as it was read, with other outputs if they are changed', () => {
    const page = new GuidePage(TEXT);
    expect(page.toString()).toBe(TEXT);
    const [, , two] = page.steps;
    if (two?.kind === 'command') two.output = 'done\n';
    expect(page.toString()).toBe(TEXT.replace('$ two\n', '$ two\ndone\n'));
  });

  it.each([
    ['```console\nno command\n```', /no command/],
    ['```console\n$ x', /has no end/],
  ])('is refused for %j', (text, why) => {
    expect(() => new GuidePage(text)).toThrow(why);
  });

  it('is compared without what differs by chance', () => {
    const line = (pid: number, time: string, took: string, key: string) =>
      `up (perl, pid ${pid})  ${time}Z  signed with ${key}: ok after ${took}`;
    const [one, two] = [
      line(1, '2026-01-02 03:04:05', '3 ms', '0123456789ABCDEF'),
      line(22, '2027-01-02 03:04:05', '1.2 s', 'FFFF456789ABCDEF'),
    ];
    expect(masked(one)).toBe(masked(two));
    expect(masked('refused after 3 ms')).not.toBe(masked('ok after 3 ms'));
  });
});
