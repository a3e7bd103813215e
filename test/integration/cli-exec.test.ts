import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import { interruptCommand, useShell } from '@gpg-bridge/test-support/interactive';
import { StandInKubectl } from '@gpg-bridge/test-support/kubectl';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { shellQuote } from '../../packages/cli/src/targets/shell-quote.ts';

/** The options that tell git in a target who signs, and with what. */
function commit(fingerprint: string): string[] {
  const settings = ['user.name=Ada', 'user.email=ada@example.org', `user.signingkey=${fingerprint}`];
  return [
    'git',
    ...settings.flatMap((one) => ['-c', one]),
    'commit',
    '--quiet',
    '--allow-empty',
    '-S',
    '-m',
    'x',
  ];
}

describe('gpg-bridge exec', () => {
  it('signs a commit in one go where there was no bridge, and says only then that there is one', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const target = await person.localHome();
    const repository = await tempDir();
    await runOk('git', ['init', '--quiet', repository], { env: target.env });
    const name = `local:${target.dir}`;
    const first = await person.run(['exec', name, '--', ...commit(person.fingerprint)], { cwd: repository });
    expect(first.stderr).toBe(`gpg-bridge: the bridge to ${name} is up, until \`gpg-bridge down ${name}\`\n`);
    expect(first).toMatchObject({ status: 0, stdout: Buffer.alloc(0) });
    const verified = await person.run(['exec', name, 'git', 'verify-commit', '-v', 'HEAD'], {
      cwd: repository,
    });
    expect(verified).toMatchObject({ status: 0, stderr: expect.stringContaining('Good signature') });
    const variables = await person.run(['exec', name, 'sh', '-c', 'echo "$GNUPGHOME $SSH_AUTH_SOCK"']);
    expect(variables.stdout.toString()).toBe(`${target.dir} ${target.dir}/agent.sock\n`);
    expect(variables.stderr).toBe('');
    expect(await person.json('status')).toMatchObject([{ target: name, state: 'ready' }]);
  });

  it('leaves the agent of this machine out where no SSH key is offered', async () => {
    const person = await Person.create({ key: false });
    person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
    const name = `local:${(await person.localHome()).dir}`;
    const shown = await person.run(['exec', name, '--no-ssh', '--', 'sh', '-c', 'echo "[$SSH_AUTH_SOCK]"']);
    expect(shown.stdout.toString()).toBe('[]\n');
  });

  it('passes input, output, errors and the exit status on', async () => {
    const person = await Person.create({ key: false });
    const name = `local:${(await person.localHome()).dir}`;
    const script = 'cat; echo wrong >&2; exit 42';
    await person.ok('up', name);
    const input = Buffer.from(Array.from({ length: 200_000 }, (_, i) => i % 256));
    const done = await person.run(['exec', name, '--', 'sh', '-c', script], { input });
    expect(done).toMatchObject({ status: 42, stderr: 'wrong\n' });
    expect(done.stdout.equals(input)).toBe(true);
    expect(await person.run(['exec', name, 'sh', '-c', 'kill -9 $$'])).toMatchObject({ status: 137 });
    expect(await person.run(['exec', name, 'no-such-program'])).toMatchObject({ status: 127 });
    expect(await person.run(['exec', name])).toMatchObject({ status: 2 });
    // Words of the command are its own, whatever they look like.
    const words = ['printf', '%s|', '--json', '--user', '--', '-n', "it's", ''];
    expect((await person.run(['exec', name, ...words])).stdout.toString()).toBe("--json|--user|--|-n|it's||");
  });

  it('keeps what was said to the bridge, and changes it by name', async () => {
    const person = await Person.create({ key: false });
    const name = `local:${(await person.localHome()).dir}`;
    await person.ok('up', name, '--keys=none');
    const same = await person.run(['exec', name, 'true']);
    expect(same).toMatchObject({ status: 0, stderr: '' });
    const changed = await person.run(['exec', name, '--keys', 'all', '--', 'true']);
    expect(changed).toMatchObject({
      status: 0,
      stderr: `gpg-bridge: the bridge to ${name} was changed; --keys: none → all\n`,
    });
    expect(await person.json('status')).toMatchObject([{ options: { keys: 'all' } }]);
  });

  it('works through a prefix, and what `up` says to type next works there, too', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const prefix = `env GNUPGHOME='${target.dir}'`;
    const signed = await person.run(['exec', '--exec', prefix, 'gpg', '--clear-sign'], { input: 'hello' });
    expect(signed).toMatchObject({ status: 0, stderr: expect.stringMatching(/^gpg-bridge: .*\n$/) });
    expect(signed.stdout.toString()).toContain('BEGIN PGP SIGNATURE');
    await person.ok('down', '--exec', prefix);

    const said = await person.ok('up', '--exec', prefix);
    const programs = await tempDir();
    await writeScript(programs, 'gpg-bridge', `exec ${process.execPath} ${PROGRAM} "$@"`);
    const env = { ...person.env, PATH: `${programs}${delimiter}${person.env.PATH}` };
    const line = (pattern: RegExp) => pattern.exec(said)?.[0] ?? `no ${pattern} in ${said}`;
    const exec = line(/gpg-bridge exec .*clear-sign'/);
    expect(exec).toContain(`--exec ${shellQuote(prefix)}`);
    expect(await runOk('sh', ['-c', exec], { env })).toContain('BEGIN PGP SIGNATURE');
    expect(await runOk('sh', ['-c', line(/gpg-bridge down .*/)], { env })).toContain('is down');
    expect(await person.json('status')).toEqual([]);
  });

  it('takes an empty SSH_AUTH_SOCK for none, and one that looks like a port for a path', async () => {
    const person = await Person.create({ key: false });
    const name = `local:${(await person.localHome()).dir}`;
    await person.ok('up', name);
    const server = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    for (const SSH_AUTH_SOCK of ['', `${(server.address() as AddressInfo).port}`]) {
      const done = await person.run(['exec', name, 'true'], { env: { SSH_AUTH_SOCK } });
      expect(done, SSH_AUTH_SOCK).toMatchObject({ status: 0, stderr: '' });
    }
  });

  it('says of a bridge that works in part what does not work, whether anything was mended or not', async () => {
    const person = await Person.create({ key: false });
    const agent = await startSshAgent();
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const { dir } = await person.localHome();
    const name = `local:${dir}`;
    await person.ok('up', name);
    await rm(agent.socketPath);
    const inPart = `gpg-bridge: the bridge to ${name} works in part; `;
    const problem = `${dir}/agent.sock: the host's ssh-agent is unavailable`;
    const done = await person.run(['exec', name, 'true']);
    expect(done).toMatchObject({ status: 0, stderr: expect.stringContaining(`${inPart}${problem}`) });
    const holder = await SocketHolder.start(join(dir, 'S.gpg-agent'), 'garbage');
    const mended = await person.run(['exec', name, '--takeover', '--', 'true']);
    expect(mended.stderr).toContain(inPart);
    expect(mended.stderr).toContain(`S.gpg-agent was gone or replaced, and is back; ${problem}`);
    expect(mended.stderr.match(/\n/g)).toHaveLength(1);
    await holder.end();
  });

  it('gives what --home needs to the command', async () => {
    const person = await Person.create();
    const home = await tempDir();
    const prefix = 'env -u GNUPGHOME HOME=/';
    const script = 'echo "$HOME $GNUPGHOME" && echo hello | gpg --clear-sign';
    const done = await person.run(['exec', '--exec', prefix, '--home', home, '--', 'sh', '-c', script]);
    expect(done.stdout.toString()).toMatch(
      new RegExp(`^${home} ${home}/.gnupg\n-----BEGIN PGP SIGNED MESSAGE`),
    );
    // It was said once, and holds.
    const again = await person.run(['exec', '--exec', prefix, '--', 'sh', '-c', script]);
    expect(again).toMatchObject({ status: 0, stderr: expect.not.stringContaining('gpg-bridge') });
    expect(await person.ok('env', '--exec', prefix)).toContain(
      `export HOME=${home}\nexport GNUPGHOME=${home}/.gnupg\n`,
    );
  });

  it('works in a pod', async () => {
    const person = await Person.create();
    const kubectl = await StandInKubectl.install(person);
    const pod = await person.localHome();
    await kubectl.setCluster('c', {
      pods: [{ name: 'dev', containers: [{ name: 'main', gnupgHome: pod.dir }] }],
    });
    person.env.KUBECONFIG = await kubectl.writeConfig('config', 'c', [{ name: 'c', cluster: 'c' }]);
    const done = await person.run(['exec', 'k8s:dev', 'sh', '-c', 'gpg --clear-sign && exit 3'], {
      input: 'hello',
    });
    expect(done.stdout.toString()).toContain('BEGIN PGP SIGNATURE');
    expect(done.status).toBe(3);
  });
});

describe('a mistyped word', () => {
  it('of a command, a kind or a target is asked about', async () => {
    const person = await Person.create({ key: false });
    const { dir } = await person.localHome();
    expect((await person.run(['stauts'])).stderr).toContain('Did you mean `status`?');
    expect((await person.run(['up', 'dokcer:x'])).stderr).toContain('Did you mean docker:x?');
    await person.ok('up', `local:${dir}`);
    const wrong = `local:${dir}x`;
    const like = `Did you mean local:${dir}?`;
    expect((await person.run(['down', wrong])).stdout.toString()).toContain(like);
    expect((await person.run(['log', wrong])).stderr).toContain(like);
    expect((await person.run(['status', wrong])).stderr).toContain(like);
    expect((await person.run(['env', wrong])).stderr).toContain(like);
  });
});

requireSystem('tmux')('at a terminal', () => {
  it('a shell has its size, keys and exit status', async () => {
    const person = await Person.create({ key: false });
    person.env.SHELL = '/bin/bash';
    const { dir } = await person.localHome();
    await useShell(person, `local:${dir}`);
  });

  it('a command is interrupted', async () => {
    const person = await Person.create({ key: false });
    await interruptCommand(person, `local:${(await person.localHome()).dir}`);
  });

  it('a command of this machine is stopped and goes on', async () => {
    const person = await Person.create({ key: false });
    const name = `local:${(await person.localHome()).dir}`;
    const terminal = await Terminal.of(person);
    await terminal.enter(`gpg-bridge exec ${name} -- sh -c 'echo begun; exec cat'`, /^begun$/m);
    await terminal.press('C-z');
    await terminal.shows(/Stopped +gpg-bridge exec/);
    await terminal.enter('fg', /^gpg-bridge exec .*$/m);
    await terminal.enter('typed', /^typed\ntyped$/m);
    await terminal.press('C-d');
    await terminal.enter('echo status: $?', /^status: 0$/m);
  });
});
