import { fileURLToPath } from 'node:url';
import { run } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

describe('in a clone, after `npm ci`', () => {
  it('npx runs the command', async () => {
    const env = { ...process.env, GPG_BRIDGE_STATE_DIR: await tempDir() };
    const done = await run('npx', ['--offline', 'gpg-bridge', 'status'], { cwd: root, env });
    expect(done.stdout.toString()).toMatch(/^No bridge is up/);
    expect(done.status).toBe(0);
  });
});
