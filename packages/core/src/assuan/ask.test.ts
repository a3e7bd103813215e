import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { BridgeError } from '../errors.ts';
import { ask } from './ask.ts';
import { describeError, errorValueOf } from './error-codes.ts';

const PATIENT = { timeoutMs: 30_000 };

async function connected(path: string): Promise<Socket> {
  const socket = connect(path);
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** A connection to something at the other end of a real socket that does what it is told. */
async function connectedTo(behave: (peer: Socket) => void): Promise<Socket> {
  const path = join(await tempDir(), 's');
  const server = createServer((peer) => {
    peer.on('error', () => {});
    onTestFinished(() => void peer.destroy());
    behave(peer);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
  return connected(path);
}

describe('ask', () => {
  describe('a real gpg-agent', () => {
    let home: GnupgHome;
    beforeAll(async () => {
      home = await GnupgHome.create();
      await home.launchAgent();
    });
    afterAll(() => home.remove());

    it('gets the greeting and one response for each command', async () => {
      const socket = await connected(await home.socket('agent-extra-socket'));
      const commands = ['GETINFO restricted', 'GETINFO version', 'KEYINFO --list', 'HELP PKSIGN'];
      const { greeting, responses } = await ask(socket, commands, PATIENT);
      expect(greeting.line.toString()).toMatch(/^OK Pleased to meet you/);
      expect(responses.map((response) => response.word)).toEqual(['OK', 'OK', 'ERR', 'OK']);
      expect(responses[1]!.bytes.toString()).toMatch(/^D [\d.]+\nOK\n$/);
    });

    it('tells the main socket from the restricted one', async () => {
      const socket = await connected(await home.socket('agent-socket'));
      const { responses } = await ask(socket, ['GETINFO restricted'], PATIENT);
      expect(responses[0]!.word).toBe('ERR');
    });

    it('words errors as the agent does', async () => {
      const socket = await connected(await home.socket('agent-extra-socket'));
      const commands = ['KEYINFO --list', 'NONSENSE', 'PKSIGN', 'SIGKEY 12', 'HAVEKEY', ' x', 'D x'];
      const { responses } = await ask(socket, commands, PATIENT);
      for (const { word, line } of responses) {
        expect(word).toBe('ERR');
        expect(line.toString()).toContain(describeError(errorValueOf(line)!));
      }
    });

    it('leaves the stream open and without listeners of its own', async () => {
      const socket = await connected(await home.socket('agent-extra-socket'));
      const before = socket.eventNames().map((name) => [name, socket.listenerCount(name)]);
      await ask(socket, ['NOP'], PATIENT);
      expect(socket.eventNames().map((name) => [name, socket.listenerCount(name)])).toEqual(before);
      const answer = readExactly(socket, 3);
      socket.write('NOP\n');
      expect(String(await answer)).toBe('OK\n');
      const closed = once(socket.resume(), 'close');
      socket.write('BYE\n');
      await closed;
    });

    it('can ask nothing but the greeting', async () => {
      const socket = await connected(await home.socket('agent-extra-socket'));
      const { greeting, responses } = await ask(socket, [], PATIENT);
      expect([greeting.word, responses.length]).toEqual(['OK', 0]);
    });
  });

  const code = (expected: string) => expect.objectContaining({ code: expected });

  it.each([
    ['is silent', () => {}, 'AGENT_GREETING_TIMEOUT', 20],
    ['greets in part', (peer: Socket) => peer.write('OK Pleas'), 'AGENT_GREETING_TIMEOUT', 20],
    ['greets with an error', (peer: Socket) => peer.write('ERR 67108941 x\n'), 'BAD_GREETING', 30_000],
    ['greets with garbage', (peer: Socket) => peer.write('HTTP/1.1 400\r\n'), 'BAD_GREETING', 30_000],
    ['sends a line without end', (peer: Socket) => peer.write('x'.repeat(2000)), 'LINE_TOO_LONG', 30_000],
    ['answers garbage', (peer: Socket) => peer.write('OK\nwhat?\n'), 'BAD_RESPONSE', 30_000],
    ['asks back', (peer: Socket) => peer.write('OK\nINQUIRE X\n'), 'BAD_RESPONSE', 30_000],
    ['closes at once', (peer: Socket) => peer.end(), 'AGENT_CLOSED', 30_000],
    ['closes after its greeting', (peer: Socket) => peer.end('OK\n'), 'AGENT_CLOSED', 30_000],
    [
      'sends data without end',
      (peer: Socket) => peer.write(`OK\n${'D xxxxxxx\n'.repeat(200_000)}`),
      'BLOCK_TOO_LARGE',
      30_000,
    ],
  ])('tells of a peer that %s', async (_name, behave, expected, timeoutMs) => {
    const socket = await connectedTo(behave);
    await expect(ask(socket, ['GETINFO restricted'], { timeoutMs })).rejects.toThrow(code(expected));
  });

  it('tells of a peer that greets and then stays silent', async () => {
    // The greeting is there before the clock starts, so that only the answer can be late.
    const stream = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
    stream.push('OK\n');
    await expect(ask(stream, ['NOP'], { timeoutMs: 20 })).rejects.toThrow(code('AGENT_RESPONSE_TIMEOUT'));
  });

  it('tells of a stream that breaks, or is gone already', async () => {
    const broken = await connectedTo((peer) => peer.write('OK\n'));
    const asking = ask(broken, ['NOP'], PATIENT);
    const cause = new Error('broken');
    broken.destroy(cause);
    await expect(asking).rejects.toThrow(expect.objectContaining({ code: 'AGENT_CLOSED', cause }));
    await expect(ask(broken, ['NOP'], PATIENT)).rejects.toThrow(code('AGENT_CLOSED'));
  });

  it('lets the owner of the stream say what an early close means', async () => {
    const earlyCloseError = (cause?: unknown) =>
      new BridgeError('AGENT_NONCE_REFUSED', { what: 'a', why: 'b', fix: 'C.', cause });
    const early = await connectedTo((peer) => peer.end());
    await expect(ask(early, ['NOP'], { ...PATIENT, earlyCloseError })).rejects.toThrow(
      code('AGENT_NONCE_REFUSED'),
    );
    const late = await connectedTo((peer) => peer.end('OK\n'));
    await expect(ask(late, ['NOP'], { ...PATIENT, earlyCloseError })).rejects.toThrow(code('AGENT_CLOSED'));
  });

  it('names the command that got no answer, and none of its arguments', async () => {
    const socket = await connectedTo((peer) => peer.end('OK\n'));
    const failure = await ask(socket, ['PRESET_PASSPHRASE secret'], PATIENT).catch((error) => error);
    expect(failure.message).toContain('PRESET_PASSPHRASE');
    expect(failure.message).not.toContain('secret');
  });
});
