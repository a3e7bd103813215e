import { once } from 'node:events';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';
import { claim } from '../daemon/claim.ts';
import { serveControl } from '../daemon/control.ts';
import { filesBeside } from '../daemon/state-dir.ts';
import { lockBridge } from './change-lock.ts';
import { Manager } from './manager.ts';
import { endBridge } from './stop-daemon.ts';

it('ends a bridge that comes while another process changes it', async () => {
  const files = filesBeside(join(await tempDir(), 'b.pid'));
  // One daemon has gone, and the next one does not answer yet.
  const changing = await claim(files.lock);
  const ending = endBridge(files);
  const requests: string[] = [];
  const next = await claim(files.control, (socket) =>
    serveControl(socket, async (request) => {
      requests.push(request);
      setImmediate(() => next?.release());
      return { pid: 1 };
    }),
  );
  changing?.release();
  expect(await ending).toBe('ended');
  expect(requests).toEqual(['stop']);
});

it('finds a bridge among all that has no daemon just now, since another process changes it', async () => {
  const stateDirectory = await tempDir();
  const files = filesBeside(join(stateDirectory, `${'0'.repeat(16)}.pid`));
  const changing = await lockBridge(files.lock);
  const ending = new Manager({ stateDirectory }).stopEach();
  await once(changing.stopped, 'abort');
  const next = await claim(files.control, (socket) =>
    serveControl(socket, async () => {
      setImmediate(() => next?.release());
      return { pid: 1 };
    }),
  );
  changing.release();
  expect(await ending).toEqual({ ended: 1, cleared: 0, busy: 0, failures: [] });
});

it('finds none where none is, and nobody starts one', async () => {
  expect(await endBridge(filesBeside(join(await tempDir(), 'b.pid')))).toBe('none');
});
