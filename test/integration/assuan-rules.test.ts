import { connect } from 'node:net';
import { type BlockKind, BlockScanner } from '@gpg-bridge/core/assuan/block-scanner';
import { AssuanObserver } from '@gpg-bridge/core/assuan/observer';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/*
 * What ends a block is decided by what a real gpg-agent answers. Everything a client has to say is sent
 * in one write; then both sides' bytes are walked in lock-step with the scanner's rules. If a rule were
 * wrong, one side would have blocks left over when the other has none.
 */

let home: GnupgHome;
let socketPath: string;
beforeAll(async () => {
  home = await GnupgHome.create();
  await home.launchAgent();
  socketPath = await home.socket('agent-extra-socket');
});
afterAll(() => home.remove());

function answersTo(sent: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    const socket = connect(socketPath, () => socket.write(sent));
    socket.on('data', (chunk) => received.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(received)));
  });
}

interface Step {
  kind: BlockKind;
  sent: string;
  word: string;
}

function walk(sent: Buffer, received: Buffer): { steps: Step[]; left: number } {
  const client = new BlockScanner();
  const agent = new BlockScanner();
  client.push(sent);
  agent.push(received);
  const steps: Step[] = [];
  let answer = agent.next('greeting');
  while (answer) {
    const kind = answer.word === 'INQUIRE' ? 'inquiry' : 'command';
    const block = client.next(kind);
    answer = agent.next('response');
    if (!block || !answer) {
      if (block || answer) throw new Error(`a ${block ? 'block without an answer' : 'answer to no block'}`);
      break;
    }
    steps.push({ kind, sent: block.bytes.toString('latin1'), word: answer.word });
  }
  return { steps, left: client.buffered + agent.buffered };
}

const GRIP = 'A'.repeat(40);
/** Ends whatever is going on: an inquiry with the first line, the connection with the last. */
const ENDING = 'END\nEND\nBYE\n';

const LINES = [
  '',
  '\r',
  ' ',
  '\t',
  '  \r',
  '\r\r',
  '\v',
  '\0',
  '# comment',
  ' # comment',
  '#',
  'D',
  'D\r',
  'D ',
  'D x',
  'D x\r',
  'D OK',
  'D LEGEND',
  'D \xff\x00%25',
  'd x',
  'Dx',
  'D\tx',
  'END',
  'END\r',
  'END foo',
  'end',
  'ENDx',
  'E',
  'CAN',
  'CANxyz',
  'can',
  'NOP',
  'nop',
  'NOP\tx',
  'NOP\0x',
  ' NOP',
  'OK',
  'ERR 1',
  'INQUIRE x',
  'HELP PKSIGN',
  'GETINFO version',
  'NONSENSE',
] as const;

const bytes = (text: string) => Buffer.from(text, 'latin1');

describe('the rules for blocks, held against a real gpg-agent', () => {
  it.each(LINES)('a command line %j', async (line) => {
    const sent = bytes(`${line}\n${ENDING}`);
    const { steps, left } = walk(sent, await answersTo(sent));
    expect(left).toBe(0);
    expect(steps.map((step) => step.kind)).not.toContain('inquiry');
  });

  it.each(LINES)('a line %j in an inquiry', async (line) => {
    const sent = bytes(`SETKEY ${GRIP}\nPKDECRYPT\nD (x)\n${line}\n${ENDING}`);
    const { steps, left } = walk(sent, await answersTo(sent));
    expect(left).toBe(0);
    expect(steps.filter((step) => step.kind === 'inquiry')).toHaveLength(1);
  });

  it('any lines, with inquiries among them; the observer sees the same commands', async () => {
    const line = fc.constantFrom(...LINES, 'PKDECRYPT', 'PKDECRYPT', `SETKEY ${GRIP}`, 'RESET');
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 12 }), async (lines) => {
        const sent = bytes([...lines, ENDING].join('\n'));
        const received = await answersTo(sent);
        const { steps, left } = walk(sent, received);
        expect(left).toBe(0);
        const seen: Operation[] = [];
        const observer = new AssuanObserver((operation) => seen.push(operation));
        observer.fromClient(sent);
        observer.fromAgent(received);
        expect(seen.map((operation) => operation.outcome === 'ok')).toEqual(
          steps.filter((step) => step.word !== 'INQUIRE').map((step) => step.word === 'OK'),
        );
      }),
      { numRuns: 100 },
    );
  });

  it.each([
    ['LF', 1001, '\n'],
    ['CR LF', 1000, '\r\n'],
  ])('the longest line it takes, ended by %s, is ours too', async (_name, size, end) => {
    const line = (length: number) => bytes(`${'NOP '.padEnd(length, 'x')}${end}${ENDING}`);
    const fits = line(size);
    expect(walk(fits, await answersTo(fits)).steps[0]?.word).toBe('OK');
    const tooLong = line(size + 1);
    // The agent hangs up, with or without a reset; it has answered nothing.
    const received = await answersTo(tooLong).catch(() => Buffer.alloc(0));
    expect(received.toString().split('\n').length).toBeLessThanOrEqual(2);
    const scanner = new BlockScanner();
    scanner.push(tooLong);
    expect(() => scanner.next('command')).toThrow(expect.objectContaining({ code: 'LINE_TOO_LONG' }));
  });
});
