import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { crashAgent } from '@gpg-bridge/test-support/agent-processes';
import { Person } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

/** A PATH on which GnuPG does not work. */
async function brokenGnupg(): Promise<string> {
  const dir = await tempDir();
  await writeScript(dir, 'gpgconf', 'echo "gpgconf: out of order" >&2; exit 2');
  return `${dir}:${process.env.PATH}`;
}

const sockets = (up: string) =>
  (JSON.parse(up) as { sockets: { type: string }[] }).sockets.map(({ type }) => type);

describe("the host's agents", () => {
  it('are both bridged when both are there', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    const key = await agent.addKey('work');
    const target = await person.localHome();
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const said = await person.ok('up', `local:${target.dir}`);
    expect(said).toContain(`ssh  ${target.dir}/agent.sock`);
    expect(said).toContain(`export SSH_AUTH_SOCK=${target.dir}/agent.sock`);
    expect(await person.ok('env', `local:${target.dir}`)).toContain(
      `export SSH_AUTH_SOCK=${target.dir}/agent.sock\n`,
    );
    expect((await stat(join(target.dir, 'agent.sock'))).mode & 0o777).toBe(0o600);

    const env = { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
    expect(await runOk('ssh-add', ['-l'], { env })).toContain('work (ED25519)');
    const file = join(await tempDir(), 'letter');
    await writeFile(file, 'hello');
    await runOk('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`, file], { env });
    expect(await readFile(`${file}.sig`, 'utf8')).toContain('BEGIN SSH SIGNATURE');
    // The host's keys are not the target's to change.
    for (const args of [['-D'], ['-d', `${key}.pub`], ['-x'], [key]]) {
      const refused = await run('ssh-add', args, { env, input: 'pw\npw\n' });
      expect(refused.status, args.join(' ')).not.toBe(0);
    }
    expect(await runOk('ssh-add', ['-l'], { env: agent.env })).toContain('work');
    const log = await person.ok('log', `local:${target.dir}`);
    expect(log).toMatch(/signed with work SHA256:\S+: ok/);
    expect(log).toMatch(/refused|failure/);
  });

  it('are narrowed to the keys that were chosen', async () => {
    const person = await Person.create({ key: false });
    const agent = await startSshAgent();
    const [work, home, third] = [
      await agent.addKey('work'),
      await agent.addKey('home'),
      await agent.addKey('third'),
    ];
    const target = await person.localHome();
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await person.ok(
      'up',
      `local:${target.dir}`,
      '--no-gpg',
      '--ssh-key=work',
      `--ssh-key=${await agent.fingerprint(third)}`,
    );
    const env = { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
    const listed = await runOk('ssh-add', ['-l'], { env });
    expect(listed.match(/ (work|home|third) \(/g)).toEqual([' work (', ' third (']);
    const file = join(await tempDir(), 'letter');
    await writeFile(file, 'hello');
    const signWith = (key: string) =>
      run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`, file], { env });
    await rm(home); // only the agent has it now
    expect((await signWith(home)).status).not.toBe(0);
    expect((await signWith(work)).status).toBe(0);
  });

  it('can have the ssh keys in gpg-agent', async () => {
    const person = await Person.create();
    const key = await person.home.createKey('Auth <auth@example.org>', { usage: 'auth' });
    const listing = await person.home.gpgOk(['-K', '--with-keygrip', '--with-colons', key]);
    await writeFile(join(person.home.dir, 'sshcontrol'), `${/^grp:+([0-9A-F]{40}):/m.exec(listing)![1]}\n`);
    const target = await person.localHome();
    await person.ok('up', `local:${target.dir}`, '--ssh-from-gpg');
    const env = { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
    expect(await runOk('ssh-add', ['-l'], { env })).toContain('(ED25519)');
  });

  it('are a warning when one is missing, and the other is bridged', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const said = await person.ok('up', `local:${target.dir}`);
    expect(said).toContain('! there is no ssh-agent to bridge: SSH_AUTH_SOCK is not set');

    const agent = await startSshAgent();
    const other = await person.localHome();
    const done = await person.run(['up', `local:${other.dir}`, '--json', '--runtime=perl'], {
      env: { SSH_AUTH_SOCK: agent.socketPath, PATH: await brokenGnupg() },
    });
    expect(done).toMatchObject({ status: 0, stderr: '' });
    expect(sockets(done.stdout.toString())).toEqual(['ssh-agent']);
  });

  it('are not said to be bridged now where their socket could not be made', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = join(await tempDir(), 'agent');
    await person.ok('up', name);
    await symlink(agent.socketPath, person.env.SSH_AUTH_SOCK);
    await writeFile(join(target.dir, 'agent.sock'), 'mine');
    const taken = (await person.run(['up', name])).stdout.toString();
    expect(taken).toContain('was changed');
    expect(taken).toContain('a regular file is there');
    expect(taken).not.toContain('is bridged now');
  });

  it('are those of the environment in which `up` was run last', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const [one, two] = [await startSshAgent(), await startSshAgent()];
    await one.addKey('first');
    await two.addKey('second');
    const up = async (env: NodeJS.ProcessEnv) => {
      const done = await person.run(['up', name, '--json'], { env });
      expect(done).toMatchObject({ status: 0, stderr: '' });
      return (JSON.parse(done.stdout.toString()) as { pid: number }).pid;
    };
    const listed = () =>
      runOk('ssh-add', ['-l'], { env: { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') } });
    await up({});
    const first = await up({ SSH_AUTH_SOCK: one.socketPath });
    expect(await listed()).toContain(' first (');
    // An environment without the variable says nothing about the agent.
    expect(await up({})).toBe(first);
    const second = await up({ SSH_AUTH_SOCK: two.socketPath });
    expect(second).not.toBe(first);
    expect(await listed()).toContain(' second (');

    const other = await Person.create();
    const third = await up({ GNUPGHOME: other.home.dir });
    expect(third).not.toBe(second);
    await target.gpgOk(['-u', other.fingerprint, '--clear-sign'], { input: 'hello' });
    expect(await listed()).toContain(' second (');
  });

  it('that were missing are bridged by the next `up` once they are there', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const socket = join(await tempDir(), 'agent');
    person.env.SSH_AUTH_SOCK = socket;
    const said = await person.ok('up', `local:${target.dir}`);
    expect(said).toContain(`! can't connect to the ssh-agent at ${socket}`);
    expect(await person.ok('up', `local:${target.dir}`)).toContain('was up already');
    const agent = await startSshAgent();
    await agent.addKey('late');
    await symlink(agent.socketPath, socket);
    await person.ok('up', `local:${target.dir}`);
    const env = { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
    expect(await runOk('ssh-add', ['-l'], { env })).toContain(' late (');
  });

  it('are found where gpg-agent.conf puts the extra socket, or where --gpg-socket says', async () => {
    const dir = await tempDir();
    const moved = await Person.create({ agentConf: `extra-socket ${join(dir, 'moved')}\n` });
    const target = await moved.localHome();
    await moved.ok('up', `local:${target.dir}`);
    await target.gpgOk(['--clear-sign'], { input: 'hello' });

    const person = await Person.create();
    // An agent that is still ending would be asked whether it runs, and break that connection.
    await crashAgent(person.home);
    const path = join(dir, 'elsewhere');
    await runOk('gpg-agent', ['--daemon', '--extra-socket', path], { env: person.home.env });
    const other = await person.localHome();
    await person.ok('up', `local:${other.dir}`, `--gpg-socket=${path}`);
    await other.gpgOk(['--clear-sign'], { input: 'hello' });
    const main = await person.home.socket('agent-socket');
    const refused = await person.run(['up', `local:${other.dir}`, '--gpg', `--gpg-socket=${main}`]);
    expect(refused).toMatchObject({ status: 4, stderr: expect.stringContaining('is not bridged') });
  });

  it.each([
    ['--ssh', {}, /there is no ssh-agent to bridge: SSH_AUTH_SOCK is not set\. Start one/],
    ['--ssh', { SSH_AUTH_SOCK: '/nowhere/agent' }, /can't connect to the ssh-agent at \/nowhere\/agent/],
    ['--no-gpg', {}, /there is nothing to bridge: .*SSH_AUTH_SOCK is not set/],
    ['--gpg', { PATH: 'broken' }, /gpgconf/],
  ])('with %s and %j are an error, status 4', async (flag, env, expected) => {
    const person = await Person.create({ key: false });
    const target = await person.localHome();
    const lacking = { ...env, ...('PATH' in env ? { PATH: await brokenGnupg() } : {}) };
    const done = await person.run(['up', `local:${target.dir}`, flag], { env: lacking });
    expect(done.stderr).toMatch(/^gpg-bridge: [^\n]+: [^\n]+\. [^\n]+\n$/);
    expect(done.stderr).toMatch(expected);
    expect(done.stdout.toString()).toBe('');
    expect(done.status).toBe(4);
    expect((await person.files()).filter((name) => !name.endsWith('.log'))).toEqual([]);
    expect(existsSync(join(target.dir, 'S.gpg-agent'))).toBe(false);
  });

  it('with both left out are nothing to bridge', async () => {
    const person = await Person.create({ key: false });
    const done = await person.run(['up', `local:${await tempDir()}`, '--no-gpg', '--no-ssh']);
    expect(done).toMatchObject({ status: 2, stderr: expect.stringContaining('nothing is left to bridge') });
  });

  it('may be killed and started again under a bridge', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const signed = () => target.gpg(['--clear-sign'], { input: 'hello' });
    const { pid } = await person.json<{ pid: number }>('up', `local:${target.dir}`);
    expect((await signed()).status).toBe(0);
    // A session that is open when its agent is killed is told so.
    const client = connect(await target.socket('agent-socket'));
    let heard = '';
    client.setEncoding('latin1').on('data', (text: string) => {
      heard += text;
    });
    await once(client, 'data');
    client.write('HELP\n');
    await once(client, 'data');
    const closed = once(client, 'close');
    await crashAgent(person.home);
    await closed;
    expect(heard).toMatch(/^OK /);
    for (let round = 0; round < 2; round++) {
      expect(await signed()).toMatchObject({ status: 0 });
      await person.home.killAgent();
    }
    expect(await signed()).toMatchObject({ status: 0 });
    expect(await person.json('status')).toMatchObject([{ pid }]);
  });

  it('may lose a client at any time', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await person.ok('up', `local:${target.dir}`);
    const path = await target.socket('agent-socket');
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const client = spawn(process.execPath, [
          '-e',
          `const s = require('net').connect(${JSON.stringify(path)});
           s.on('data', () => { s.write('GETINFO version\\n'.slice(0, ${index})); process.kill(process.pid, 9) })`,
        ]);
        await once(client, 'exit');
      }),
    );
    await target.gpgOk(['--clear-sign'], { input: 'hello' });
    // The kernel has told of the clients' ends before it lets gpg's session end.
    const [status] = await person.json<{ sessions: { open: number; total: number } }[]>('status');
    expect(status!.sessions.total).toBeGreaterThanOrEqual(21);
    expect(status!.sessions.open).toBe(0);
  });

  it('are never bridged to themselves', async () => {
    const person = await Person.create();
    await person.home.launchAgent();
    const done = await person.run(['up', `local:${person.home.dir}`, '--gpg', '--no-ssh']);
    expect(done.status).toBe(1);
    expect(done.stderr).toMatch(/^gpg-bridge: [^\n]*host[^\n]*\n$/);
    await person.home.gpgOk(['--clear-sign'], { input: 'hello' });
  });

  it('are bridged beside private keys of the target, and that is said', async () => {
    const person = await Person.create();
    const target: GnupgHome = await person.localHome();
    await target.createKey('Own <own@example.org>');
    const said = await person.ok('up', `local:${target.dir}`);
    expect(said).toMatch(/! .*private keys/);
    await target.gpgOk(['-u', person.fingerprint, '--clear-sign'], { input: 'hello' });
    await person.ok('down', '--all');
    await target.gpgOk(['-u', 'own@example.org', '--clear-sign'], { input: 'hello' });
  });

  it('that somebody else forwards already are left to them, unless told otherwise', async () => {
    const [one, two] = [await Person.create(), await Person.create()];
    const target = await one.localHome();
    await one.ok('up', `local:${target.dir}`);
    const refused = await two.run(['up', `local:${target.dir}`]);
    expect(refused).toMatchObject({ status: 1, stderr: expect.stringMatching(/^gpg-bridge: .*--takeover/) });
    await target.gpgOk(['-u', one.fingerprint, '--clear-sign'], { input: 'hello' });
    await two.ok('up', `local:${target.dir}`, '--takeover');
    await target.gpgOk(['-u', two.fingerprint, '--clear-sign'], { input: 'hello' });
  });
});
