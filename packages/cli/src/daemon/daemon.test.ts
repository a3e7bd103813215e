import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PROGRAM } from '@gpg-bridge/test-support/cli';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished, vi } from 'vitest';
import { resolveTarget } from '../targets/resolve.ts';
import { Daemon } from './daemon.ts';
import { filesBeside } from './state-dir.ts';
import { StoredGrants } from './stored-grants.ts';

// The servers lie beside the built command, and this one is not built.
vi.mock('../bridge/server-source.ts', () => ({
  serverSource: () => readFileSync(join(dirname(PROGRAM), 'servers', 'server.pl')),
}));

it('a daemon that is told to end in the moment before it is ready says so', async () => {
  const [host, there] = [await GnupgHome.create(), await GnupgHome.create()];
  onTestFinished(async () => {
    await there.remove();
    await host.remove();
  });
  vi.stubEnv('GNUPGHOME', host.dir); // as the process that starts a daemon does
  onTestFinished(() => void vi.unstubAllEnvs());
  const options = { gnupgHome: host.dir, ssh: false, keys: 'none', runtime: 'perl' } as const;
  const target = await resolveTarget(`local:${there.dir}`, {});
  // It is watched when it is attached, right before its bridge is said to be ready.
  target.watch = async () => {
    daemon.end('it was asked to');
    return () => {};
  };
  const files = filesBeside(join(await tempDir(), 'b.pid'));
  const daemon = new Daemon({
    target,
    files,
    options,
    stored: new StoredGrants(dirname(files.pid)),
    verbose: false,
  });
  let isReady = false;
  const run = daemon.run(() => {
    isReady = true;
  });
  await expect(run).rejects.toMatchObject({
    code: 'BRIDGE_NOT_RUNNING',
    why: expect.stringMatching(/told to end/),
  });
  expect(isReady).toBe(false);
});
