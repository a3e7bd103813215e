import { createServer } from 'node:net';
import { join } from 'node:path';
import { run } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noAgentLine, UnavailableAgent, unavailableGreeting } from './unavailable-agent.ts';

const REFUSAL = 'ERR 67108941 No agent running <GPG Agent> - the host is gone\n';

describe('an agent in place of an unavailable one', () => {
  it('greets with OK and refuses with the reason', () => {
    expect(unavailableGreeting().toString()).toBe('OK GPG Bridge\n');
    expect(unavailableGreeting('no host').toString()).toBe('OK GPG Bridge - no host\n');
    expect(noAgentLine('the host is gone').toString()).toBe(REFUSAL);
  });

  it('keeps any reason to one printable line that Assuan allows', () => {
    expect(noAgentLine('a\r\nOK b\t\x1b[31m\u202ec').toString()).toBe(
      'ERR 67108941 No agent running <GPG Agent> - a OK b [31m c\n',
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 1500 }), (reason) => {
        const line = noAgentLine(reason);
        expect(line.length).toBeLessThanOrEqual(1001);
        expect(line.indexOf(0x0a)).toBe(line.length - 1);
        expect(line.toString()).not.toMatch(/\p{Cc}.|\ufffd\n$/u);
      }),
    );
    expect(noAgentLine('ü'.repeat(600)).toString()).toMatch(/^ERR [^\ufffd]+ü\n$/);
  });

  it.each([
    ['NOP\n', REFUSAL, false],
    ['NOP\nRESET\r\n', REFUSAL + REFUSAL, false],
    ['\n# c\n\r\n', '', false],
    ['PKDECRYPT\nD abc\nD def\nEND\n', REFUSAL + REFUSAL, false],
    ['bye\nNOP\n', 'OK closing connection\n', true],
    ['NOP\nBYE\n', `${REFUSAL}OK closing connection\n`, true],
    ['NO', '', false],
  ])('answers %j at every split point', (input, answer, ended) => {
    for (let split = 0; split <= input.length; split++) {
      const agent = new UnavailableAgent('the host is gone');
      const first = agent.answer(Buffer.from(input.slice(0, split)));
      const second = agent.answer(Buffer.from(input.slice(split)));
      expect(first.toString() + second.toString()).toBe(answer);
      expect(agent.ended).toBe(ended);
    }
  });

  it('hangs up on a client that asks without end, and answers no more than it can hold', () => {
    const agent = new UnavailableAgent('x'.repeat(1000));
    expect(agent.answer(Buffer.from('X\n'.repeat(32_768))).length).toBeLessThan(300_000);
    expect(agent.ended).toBe(true);
    expect(agent.answer(Buffer.from('X\n'))).toHaveLength(0);
  });

  it('is an agent to a real client, which shows the reason', async () => {
    const path = join(await tempDir(), 's');
    const server = createServer((socket) => {
      const agent = new UnavailableAgent('the host is gone');
      socket.write(agent.greeting);
      socket.on('data', (chunk) => {
        socket.write(agent.answer(chunk));
        if (agent.ended) socket.end();
      });
      socket.on('error', () => {});
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
    onTestFinished(() => void server.close());
    const { stdout, status } = await run('gpg-connect-agent', ['--raw-socket', path, 'HAVEKEY x', '/bye']);
    expect(stdout.toString()).toContain(REFUSAL);
    expect(status).toBe(0);
  });
});
