import net from 'node:net';
import { join } from 'node:path';
import { Person, serverOf } from '@gpg-bridge/test-support/cli';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { untilEnded } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { describe, expect, it } from 'vitest';

/** Far more than are accepted in one turn. */
const CLIENTS = 400;
const ANSWER = /^OK Pleased to meet you[^\n]*\nD 2[^\n]*\nOK\nOK closing connection\n$/;
/**
 * The beginning of that, or nothing of it, and the refusal of a bridge that ends. All of it, too: until the session ends,
 * a server can't know that its client has said BYE.
 */
const REFUSED =
  /^OK [^\n]*\n(?:D 2[^\n]*\n(?:OK\n(?:OK closing connection\n)?)?)?ERR 67108941 No agent running[^\n]*\n(?:OK closing connection\n)?$/;

/** What a client was told; undefined if nobody listened. */
function ask(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let text = '';
    let isConnected = false;
    const socket = net.connect({ path, allowHalfOpen: true });
    socket.once('connect', () => {
      isConnected = true;
      socket.write('GETINFO version\nBYE\n');
    });
    socket.setEncoding('latin1').on('data', (piece: string) => {
      text += piece;
    });
    socket.once('end', () => socket.destroy());
    socket.on('error', () => {}).once('close', () => resolve(isConnected ? text : undefined));
  });
}

describe.each(['perl', 'node', 'native'] as const)('a server on %s that ends', (runtime) => {
  requireRuntime(runtime)('amid clients', () => {
    it('leaves none of them without an answer, and the next ones are served', async () => {
      const person = await Person.create({ key: false });
      const target = await person.localHome();
      const name = `local:${target.dir}`;
      const path = join(target.dir, 'S.gpg-agent');
      const { pid } = await person.json<{ pid: number }>('up', name, '--restart', `--runtime=${runtime}`);
      const server = await serverOf(pid);
      const asked = Array.from({ length: CLIENTS }, () => ask(path));
      await Promise.race(asked);
      process.kill(server, 'SIGTERM');
      const told = (await Promise.all(asked)).filter((text) => text !== undefined);
      expect(told.filter((text) => !ANSWER.test(text) && !REFUSED.test(text))).toEqual([]);
      expect(told.length).toBeGreaterThan(0);
      await untilEnded(server);
      await expect.poll(() => ask(path), PATIENT).toMatch(ANSWER);
    });
  });
});
