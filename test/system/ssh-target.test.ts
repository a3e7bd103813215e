import { existsSync } from 'node:fs';
import { delimiter } from 'node:path';
import type { Up } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SSH_HOST, SshServer, type SshServerOptions } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';

/** A person whose ssh knows the test's server by name. */
async function personAndServer(options: SshServerOptions = {}) {
  const server = await SshServer.start(options);
  onTestFinished(() => server.stop());
  const person = await Person.create();
  await useSsh(person, `-F '${server.configPath}'`);
  return { person, server };
}

requireSystem('sshd')('a target over ssh', () => {
  it.each(['node', 'perl', 'python'])('signs there with the host’s key, served by %s', async (runtime) => {
    const { person, server } = await personAndServer();
    const up = await person.json<Up>('up', `ssh:${SSH_HOST}`, '--runtime', runtime);
    expect(up).toMatchObject({ target: `ssh:${SSH_HOST}`, id: SSH_HOST, runtime });
    const signed = await server.ssh([
      'echo hello | gpg --batch --clear-sign | gpg --batch --status-fd 1 --verify',
    ]);
    expect(signed.stdout.toString()).toContain(`VALIDSIG ${person.fingerprint}`);
    await person.ok('down', `ssh:${SSH_HOST}`);
    for (const { path } of up.sockets) expect(existsSync(path)).toBe(false);
  });

  it('ends by itself when the server goes away', async () => {
    const { person, server } = await personAndServer();
    const { sockets } = await person.json<Up>('up', `ssh:${SSH_HOST}`);
    expect(sockets.map(({ path }) => existsSync(path))).toEqual([true]);
    await server.stop();
    await person.settled();
    expect(await person.json('status')).toEqual([]);
  });

  it('says what ssh said when the machine can not be reached', async () => {
    const person = await Person.create();
    const nobodyListens = 1;
    await useSsh(person, `-F /dev/null -p ${nobodyListens}`);
    const { status, stderr } = await person.run(['up', 'ssh:127.0.0.1']);
    expect(status).toBe(3);
    expect(stderr).toMatch(/^gpg-bridge: .*Connection refused.*\n$/);
  });
});

requireSystem('sshd', 'shells')('a target over ssh', () => {
  it.each(['csh', 'tcsh', 'zsh', 'fish'])('does not mind who logs in with %s', async (shell) => {
    const program = (await runOk('sh', ['-c', `command -v ${shell}`])).trim();
    const { person } = await personAndServer({
      config: [`ForceCommand ${program} -c "$SSH_ORIGINAL_COMMAND"`],
    });
    const up = await person.json<Up>('up', `ssh:${SSH_HOST}`);
    expect(up.sockets.map(({ path }) => existsSync(path))).toEqual([true]);
    await person.ok('down', `ssh:${SSH_HOST}`);
  });
});

/** Puts options before those of the person's ssh, as a configuration file would. */
async function useSsh(person: Person, options: string): Promise<void> {
  const programs = await tempDir();
  await writeScript(programs, 'ssh', `exec /usr/bin/ssh ${options} "$@"`);
  person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
}
