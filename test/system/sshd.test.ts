import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { afterAll, beforeAll, expect, it } from 'vitest';

requireSystem('sshd')('the sshd of the tests', () => {
  let server: SshServer;

  beforeAll(async () => {
    server = await SshServer.start();
  });

  afterAll(() => server?.stop());

  it('runs commands in a home of its own', async () => {
    const done = await server.ssh(['echo "$HOME $GNUPGHOME"; cat'], { input: 'input' });
    expect(done).toMatchObject({ status: 0, stderr: '' });
    expect(done.stdout.toString()).toBe(`${server.home} ${server.home}/.gnupg\ninput`);
  });

  it('ends its sessions when it stops', async () => {
    const own = await SshServer.start();
    const client = spawn('ssh', ['-F', own.configPath, SSH_HOST, 'echo $$; exec sleep infinity']);
    const [pid] = (await once(client.stdout, 'data')) as [Buffer];
    const closed = once(client, 'close');
    await own.stop();
    await closed;
    // Gone, or ended and not yet collected by process 1.
    expect(await readFile(`/proc/${Number(pid)}/cmdline`, 'utf8').catch(() => '')).toBe('');
  });
});
