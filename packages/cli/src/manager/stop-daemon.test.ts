import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';
import { claim } from '../daemon/claim.ts';
import { serveControl } from '../daemon/control.ts';
import { filesBeside } from '../daemon/state-dir.ts';
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

it('finds none where none is, and nobody starts one', async () => {
  expect(await endBridge(filesBeside(join(await tempDir(), 'b.pid')))).toBe('none');
});
