import { createServer } from 'node:net';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';
import { DirectOperations } from './direct-operations.ts';
import { identifyListener } from './identify-listener.ts';

const ANSWERS: Record<string, string[]> = {
  'GETINFO restricted': ['ERR 67109120 False <GPG Agent>'],
  'GETINFO pid': ['D 4711', 'OK'],
  'GETINFO socket_name': ['D /run/S.gpg-agent', 'OK'],
};

it('hears an agent out that writes line by line, and asks it nothing twice', async () => {
  const path = join(await tempDir(), 'S.gpg-agent');
  const asked: string[] = [];
  const server = createServer(async (client) => {
    const lines = ['OK Pleased to meet you'];
    client
      .on('error', () => {})
      .on('data', (bytes) => {
        for (const command of bytes.toString().split('\n').slice(0, -1)) {
          asked.push(command);
          lines.push(...(ANSWERS[command] ?? []));
        }
      });
    while (!client.destroyed) {
      const line = lines.shift();
      if (line !== undefined) await new Promise((written) => client.write(`${line}\n`, written));
      for (let turn = 0; turn < 10; turn++) await nextTurn(); // the other side reads one line at a time
    }
  });
  server.listen(path);
  onTestFinished(() => void server.close());
  expect(await identifyListener(new DirectOperations(), path, 'gpg-agent', { timeoutMs: 5_000 })).toEqual({
    answers: 'unrestricted',
    pid: 4711,
    socketName: '/run/S.gpg-agent',
  });
  expect(asked).toEqual(Object.keys(ANSWERS));
});
