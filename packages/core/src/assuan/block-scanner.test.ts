import { conversation, cut, places, type Turn } from '@gpg-bridge/test-support/conversation';
import { countedBytes } from '@gpg-bridge/test-support/counted-bytes';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type BlockKind, BlockScanner, MAX_LINE_BYTES } from './block-scanner.ts';
import { LineHead } from './line-head.ts';

const bytes = (text: string) => Buffer.from(text, 'latin1');

function scanAll(scanner: BlockScanner, kind: BlockKind): string[] {
  const blocks: string[] = [];
  for (let block = scanner.next(kind); block; block = scanner.next(kind)) {
    blocks.push(block.bytes.toString('latin1'));
  }
  return blocks;
}

/** [kind, input, the blocks it consists of]; what follows the last block is incomplete. */
const VECTORS: readonly [BlockKind, string, string[]][] = [
  ['greeting', 'OK Pleased to meet you, process 1\n', ['OK Pleased to meet you, process 1\n']],
  ['greeting', '# hello\n\nOK\n', ['# hello\n\nOK\n']],
  ['greeting', 'HTTP/1.1 400\r\nx', ['HTTP/1.1 400\r\n']],
  ['command', 'RESET\nGETINFO pid\n', ['RESET\n', 'GETINFO pid\n']],
  ['command', '\n\r\n# note\nNOP\r\n', ['\n\r\n# note\nNOP\r\n']],
  ['command', ' NOP\n \n\t\n', [' NOP\n', ' \n', '\t\n']],
  ['command', '\r\r\n\rNOP\n\0\n', ['\r\r\n', '\rNOP\n', '\0\n']],
  ['command', 'D data\nD\nEND\n', ['D data\n', 'D\n', 'END\n']],
  ['command', '#\n# only comments\n\n', []],
  ['inquiry', 'D abc\nD def\nEND\n', ['D abc\nD def\nEND\n']],
  ['inquiry', 'D LEGEND\nD END\nEND\n', ['D LEGEND\nD END\nEND\n']],
  ['inquiry', 'END\nCAN\nEND foo\nend\nCANxyz\n', ['END\n', 'CAN\n', 'END foo\n', 'end\n', 'CANxyz\n']],
  ['inquiry', 'D x\n# c\n\n\r\nd y\nD \nEND\r\n', ['D x\n# c\n\n\r\nd y\nD \nEND\r\n']],
  ['inquiry', 'D\nDx\nD\tx\nD\r\n', ['D\n', 'Dx\n', 'D\tx\n', 'D\r\n']],
  ['inquiry', 'D x\n END\nD x\nPKSIGN\n', ['D x\n END\n', 'D x\nPKSIGN\n']],
  ['response', 'OK\nOK closing connection\n', ['OK\n', 'OK closing connection\n']],
  ['response', 'ERR 67109115 Forbidden <GPG Agent>\n', ['ERR 67109115 Forbidden <GPG Agent>\n']],
  ['response', 'S PROGRESS\nD 2.2.40\nOK\r\n', ['S PROGRESS\nD 2.2.40\nOK\r\n']],
  [
    'response',
    'S INQUIRE_MAXLEN 4096\nINQUIRE CIPHERTEXT\n',
    ['S INQUIRE_MAXLEN 4096\nINQUIRE CIPHERTEXT\n'],
  ],
  ['response', 'D OK\nD ERR 1\nD INQUIRE x\nEND\nOK\n', ['D OK\nD ERR 1\nD INQUIRE x\nEND\nOK\n']],
  ['response', '# a\n# b\n\nOK\n', ['# a\n# b\n\nOK\n']],
  ['response', 'D no end\nS x\n', []],
];

describe('BlockScanner', () => {
  it.each(VECTORS)('cuts a %s: %j', (kind, input, blocks) => {
    const scanner = new BlockScanner();
    scanner.push(bytes(input));
    expect(scanAll(scanner, kind)).toEqual(blocks);
    expect(scanner.buffered).toBe(input.length - blocks.join('').length);
  });

  it.each(VECTORS)('does so at every split point, and byte by byte: %s %j', (kind, input, blocks) => {
    for (let split = 0; split <= input.length; split++) {
      const scanner = new BlockScanner();
      scanner.push(bytes(input.slice(0, split)));
      const found = scanAll(scanner, kind);
      scanner.push(bytes(input.slice(split)));
      expect([...found, ...scanAll(scanner, kind)]).toEqual(blocks);
    }
    const scanner = new BlockScanner();
    const found: string[] = [];
    for (const byte of bytes(input)) {
      scanner.push(Buffer.of(byte));
      found.push(...scanAll(scanner, kind));
    }
    expect(found).toEqual(blocks);
  });

  it('tells the word and the line that ended a block', () => {
    const scanner = new BlockScanner();
    scanner.push(bytes('S x\nD OK\nERR 67109115 Forbidden\r\nOK\n'));
    const refused = scanner.next('response');
    expect([refused?.word, refused?.line.toString()]).toEqual(['ERR', 'ERR 67109115 Forbidden']);
    const done = scanner.next('response');
    expect([done?.word, done?.line.toString()]).toEqual(['OK', 'OK']);
    scanner.push(bytes(`${'W'.repeat(100)} x\n\t\n`));
    expect(scanner.next('command')?.word).toBe('W'.repeat(32));
    expect(scanner.next('command')?.word).toBe('');
  });

  it('copies nothing when a block lies in one chunk', () => {
    const scanner = new BlockScanner();
    const chunk = bytes('GETINFO pid\n');
    scanner.push(chunk);
    expect(scanner.next('command')?.bytes).toBe(chunk);
    const two = bytes('NOP\nRESET\n');
    scanner.push(two);
    expect(scanner.next('command')?.bytes.buffer).toBe(two.buffer);
  });

  it('keeps what came early for its turn', () => {
    const client = new BlockScanner();
    client.push(bytes('PKDECRYPT\nD abc\nEND\nD def\nCAN\nBYE\n'));
    expect(client.next('command')?.word).toBe('PKDECRYPT');
    expect(client.next('inquiry')?.bytes.toString()).toBe('D abc\nEND\n');
    expect(client.next('inquiry')?.word).toBe('CAN');
    expect(client.next('command')?.word).toBe('BYE');
    expect(client.buffered).toBe(0);
  });

  it('refuses to change its mind about what it is reading', () => {
    const scanner = new BlockScanner();
    scanner.push(bytes('D abc'));
    expect(scanner.next('inquiry')).toBeUndefined();
    expect(() => scanner.next('command')).toThrow(expect.objectContaining({ code: 'INTERNAL' }));
    scanner.push(bytes('\nEND\n'));
    expect(scanner.next('inquiry')?.word).toBe('END');
  });

  it('may ask for another kind as long as nothing was read', () => {
    const scanner = new BlockScanner();
    expect(scanner.next('inquiry')).toBeUndefined();
    scanner.push(bytes('NOP\n'));
    expect(scanner.next('command')?.word).toBe('NOP');
  });

  describe('limits', () => {
    it.each([
      ['LF', `NOP ${'x'.repeat(MAX_LINE_BYTES - 4)}\n`],
      ['CR LF', `NOP ${'x'.repeat(996)}\r\n`],
    ])('allows the longest line, ended by %s', (_name, line) => {
      const scanner = new BlockScanner();
      scanner.push(bytes(line));
      expect(scanner.next('command')?.bytes.length).toBe(line.length);
    });

    it.each([
      ['complete', `NOP ${'x'.repeat(MAX_LINE_BYTES - 3)}\n`],
      ['not complete', `NOP ${'x'.repeat(MAX_LINE_BYTES - 3)}`],
      ['one word', 'x'.repeat(MAX_LINE_BYTES + 1)],
    ])('refuses a longer line, %s', (_name, line) => {
      for (const size of [1, 16, 1000, line.length]) {
        const scanner = new BlockScanner();
        expect(() => {
          for (let at = 0; at < line.length; at += size) {
            scanner.push(bytes(line.slice(at, at + size)));
            scanner.next('command');
          }
        }).toThrow(expect.objectContaining({ code: 'LINE_TOO_LONG' }));
      }
    });

    it.each(['D ', '# '])('refuses a longer line of an inquiry: %j', (start) => {
      const scanner = new BlockScanner();
      scanner.push(bytes(`D begins\n${start.padEnd(MAX_LINE_BYTES + 1, 'x')}`));
      expect(() => scanner.next('inquiry')).toThrow(expect.objectContaining({ code: 'LINE_TOO_LONG' }));
    });

    it('allows a block of the limit, and refuses one byte more', () => {
      const input = `D ${'x'.repeat(500)}\nD ${'y'.repeat(500)}\nOK\n`;
      const fits = new BlockScanner({ maxBlock: input.length });
      fits.push(bytes(input));
      expect(fits.next('response')?.bytes.length).toBe(input.length);
      const small = new BlockScanner({ maxBlock: input.length - 1 });
      small.push(bytes(input));
      expect(() => small.next('response')).toThrow(expect.objectContaining({ code: 'BLOCK_TOO_LARGE' }));
    });

    it('stops a block that has no end as soon as it passes the limit', () => {
      const scanner = new BlockScanner({ maxBlock: 10_000 });
      const line = bytes('# nothing but comments\n');
      let sent = 0;
      expect(() => {
        for (; sent < 20_000; sent += line.length) {
          scanner.push(line);
          scanner.next('command');
        }
      }).toThrow(expect.objectContaining({ code: 'BLOCK_TOO_LARGE' }));
      expect(sent).toBeLessThanOrEqual(10_000);
    });

    it('counts one block at a time', () => {
      const scanner = new BlockScanner({ maxBlock: 10 });
      scanner.push(bytes('RESET\n'.repeat(100)));
      expect(scanAll(scanner, 'command')).toHaveLength(100);
    });

    it.each(['HELLO', 'ok', ' OK', 'OKAY', 'secret'])('refuses an answer that is none: %j', (line) => {
      const scanner = new BlockScanner();
      scanner.push(bytes(`D x\n${line}\nOK\n`));
      const refusal = expect.objectContaining({
        code: 'BAD_RESPONSE',
        message: expect.not.stringContaining('secret'),
      });
      expect(() => scanner.next('response')).toThrow(refusal);
    });

    it('fails for good, keeps nothing, and starts afresh once cleared', () => {
      const scanner = new BlockScanner({ maxBlock: 4 });
      scanner.push(bytes('RESET\n'));
      expect(() => scanner.next('command')).toThrow(expect.objectContaining({ code: 'BLOCK_TOO_LARGE' }));
      scanner.push(bytes('NOP\n'));
      expect(() => scanner.next('command')).toThrow(expect.objectContaining({ code: 'BLOCK_TOO_LARGE' }));
      expect(scanner.buffered).toBe(0);
      scanner.clear();
      scanner.push(bytes('NOP\n'));
      expect(scanner.next('command')?.word).toBe('NOP');
    });

    it('forgets half a line when it is cleared', () => {
      const scanner = new BlockScanner();
      scanner.push(bytes('# half'));
      scanner.next('command');
      scanner.clear();
      scanner.push(bytes('NOP\n'));
      expect(scanner.next('command')?.bytes.toString()).toBe('NOP\n');
    });
  });

  describe('any valid conversation', () => {
    const side = (turns: readonly Turn[], from: Turn['from']) =>
      Buffer.concat(turns.filter((turn) => turn.from === from).map((turn) => turn.bytes));

    it('comes out byte-identical and in order, cut at any places', () => {
      fc.assert(
        fc.property(conversation, places, places, (turns, clientPlaces, agentPlaces) => {
          const chunks = {
            client: cut(side(turns, 'client'), clientPlaces),
            agent: cut(side(turns, 'agent'), agentPlaces),
          };
          const scanners = { client: new BlockScanner(), agent: new BlockScanner() };
          for (const turn of turns) {
            const scanner = scanners[turn.from];
            let block = scanner.next(turn.kind);
            while (!block && chunks[turn.from].length > 0) {
              scanner.push(chunks[turn.from].shift()!);
              block = scanner.next(turn.kind);
            }
            expect(block?.bytes.equals(turn.bytes)).toBe(true);
            expect(block?.word).toBe(turn.word);
          }
          expect(scanners.client.buffered + scanners.agent.buffered).toBe(0);
        }),
        { numRuns: 500 },
      );
    });

    it('is the same when everything arrived early', () => {
      fc.assert(
        fc.property(conversation, places, (turns, where) => {
          const scanners = { client: new BlockScanner(), agent: new BlockScanner() };
          for (const from of ['client', 'agent'] as const) {
            for (const chunk of cut(side(turns, from), where)) scanners[from].push(chunk);
          }
          for (const turn of turns) {
            expect(scanners[turn.from].next(turn.kind)?.bytes.equals(turn.bytes)).toBe(true);
          }
        }),
      );
    });
  });

  it('passes every byte value in data and in comments', () => {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i).filter((byte) => byte !== 0x0a));
    const input = Buffer.concat([bytes('# '), all, bytes('\nD '), all, bytes('\nOK '), all, bytes('\n')]);
    for (const size of [1, 3, 16, input.length]) {
      const scanner = new BlockScanner();
      for (let at = 0; at < input.length; at += size) {
        expect(scanner.next('response')).toBeUndefined();
        scanner.push(input.subarray(at, at + size));
      }
      expect(scanner.next('response')?.bytes.equals(input)).toBe(true);
    }
  });

  describe('work', () => {
    it('looks at each byte once, however a conversation is cut', () => {
      fc.assert(
        fc.property(conversation, places, (turns, where) => {
          for (const from of ['client', 'agent'] as const) {
            const own = turns.filter((turn) => turn.from === from);
            const whole = Buffer.concat(own.map((turn) => turn.bytes));
            const visits = new Uint32Array(whole.length);
            const scanner = new BlockScanner();
            let next = 0;
            let offset = 0;
            for (const chunk of cut(whole, where)) {
              scanner.push(countedBytes(chunk, visits.subarray(offset, (offset += chunk.length))));
              while (next < own.length && scanner.next(own[next]!.kind)) next++;
            }
            expect(next).toBe(own.length);
            expect(Math.max(0, ...visits)).toBeLessThanOrEqual(1);
          }
        }),
      );
    });

    it.each([16, 64 * 1024])('grows with the size alone, in chunks of %i bytes', (size) => {
      const line = bytes(`D ${'x'.repeat(900)}\n`);
      let shown = 0;
      let copied = 0;
      const { read } = LineHead.prototype;
      const { copy } = Buffer.prototype;
      vi.spyOn(LineHead.prototype, 'read').mockImplementation(function (this: LineHead, chunk, from) {
        const end = read.call(this, chunk, from);
        shown += (end < 0 ? chunk.length : end) - from;
        return end;
      });
      vi.spyOn(Buffer.prototype, 'copy').mockImplementation(function (this: Buffer, ...args) {
        const count = copy.apply(this, args);
        copied += count;
        return count;
      });
      onTestFinished(() => {
        vi.restoreAllMocks();
      });
      for (const lines of [10, 100, 1000]) {
        const input = Buffer.concat([...Array<Buffer>(lines).fill(line), bytes('OK\n')]);
        const scanner = new BlockScanner();
        shown = copied = 0;
        let found = 0;
        for (let at = 0; at < input.length; at += size) {
          scanner.push(input.subarray(at, at + size));
          if (scanner.next('response')) found++;
        }
        expect(found).toBe(1);
        expect(shown).toBe(input.length);
        // At most once to gather small chunks, and once to hand out the block.
        expect(copied).toBeLessThanOrEqual(2 * input.length);
      }
    });
  });
});
