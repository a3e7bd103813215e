import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person, processesWith, serverOf } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { run, runOk, stopProcess } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Up {
  pid: number;
  result: string;
  changes: { option: string; from: string; to: string }[];
  mended: string[];
  warnings: string[];
}

const PASSPHRASE = 'correct-horse-battery';

const sign = (home: GnupgHome) => home.gpg(['--clear-sign'], { input: 'hello\n' });

/** What `ssh-add -l` lists in a local target, by comment. */
async function offered(target: GnupgHome): Promise<string[]> {
  const env = { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
  return [...(await runOk('ssh-add', ['-l'], { env })).matchAll(/ (\S+) \(/g)].map(([, comment]) => comment!);
}

describe('up of a bridge that runs', () => {
  describe.each(['perl', 'node', 'native'] as const)('over %s', (runtime) => {
    requireRuntime(runtime)('alone', () => {
      it('mends what keeps the target from it', async () => {
        const person = await Person.create();
        const target = await person.localHome();
        const name = `local:${target.dir}`;
        const first = await person.json<Up>('up', name, `--runtime=${runtime}`);
        expect(await person.json('up', name)).toEqual({ ...first, result: 'running' });
        await person.ok('status', name);

        // gpg finds no socket, and starts an agent of its own there, unless the bridge is quicker to notice.
        await rm(`${target.dir}/S.gpg-agent`);
        const signed = await sign(target);
        if (signed.status !== 0) expect(signed.stderr).toContain('No secret key');
        const again = await person.json<Up>('up', name);
        expect(again).toMatchObject({ pid: first.pid, result: 'running' });
        expect((await sign(target)).status).toBe(0);
        expect((await person.run(['status', name])).status).toBe(0);
        expect(await person.ok('log', name)).not.toContain('another forward');
      });

      it('does not take its own server for what took its place', async () => {
        const person = await Person.create({ key: false });
        const agent = await startSshAgent();
        const target = await person.localHome();
        const name = `local:${target.dir}`;
        person.env.SSH_AUTH_SOCK = agent.socketPath;
        await person.ok('up', name, '--no-gpg', `--runtime=${runtime}`);
        // The kernel knows this one by its first name: nobody else is seen to listen at the path.
        const other = await startSshAgent();
        await rename(other.socketPath, join(target.dir, 'agent.sock'));
        const up = await person.run(['up', name]);
        expect(up.status).toBe(1);
        expect(up.stderr).toContain('agent.sock: another forward listens there, so signing may already work');
        const { mended } = await person.json<Up>('up', name, '--takeover');
        expect(mended.join()).toMatch(/over from another forward,/);
      });
    });
  });

  it('says in status what is not right, and in up what was mended', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const socket = `${target.dir}/S.gpg-agent`;
    const { pid } = await person.json<Up>('up', name, '--runtime=perl');
    // Somebody else's forward is there on purpose, and is not taken away by itself.
    const holder = await SocketHolder.start(socket, 'garbage');
    const status = await person.run(['status', name]);
    expect(status.status).toBe(1);
    expect(status.stdout.toString()).toMatch(/ broken for .*\n.*\n {2}problem .*S\.gpg-agent/);
    expect(await person.json('status')).toMatchObject([{ state: 'broken', problems: [expect.any(String)] }]);
    const up = await person.run(['up', name, '--json']);
    expect(up.status).toBe(1);
    expect(JSON.parse(up.stdout.toString())).toEqual({
      error: {
        code: 'BRIDGE_BROKEN',
        what: `the bridge to ${name} does not work`,
        why: expect.stringContaining('a program that does not speak as an agent does'),
        fix: expect.stringContaining(`\`gpg-bridge down ${name}\``),
      },
    });
    const taken = await person.json<Up>('up', name, '--takeover');
    expect(taken).toMatchObject({ pid, result: 'running' });
    expect(taken.mended.join()).toContain('is back');
    expect((await sign(target)).status).toBe(0);
    await holder.end();
  });

  it('names the other bridge of the same home that took its place', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    const enter = (name: string) =>
      writeScript(dir, name, `export GNUPGHOME=${target.dir} HOME=${dir}\nexec "$@"`);
    const [one, two] = [await enter('one'), await enter('two')];
    await person.ok('up', '--exec', one);
    const { pid } = await person.json<Up>('up', '--exec', two, '--takeover');
    const holder = `the bridge to ${two} (pid ${pid})`;
    const status = await person.run(['status', '--exec', one]);
    expect(status.status).toBe(1);
    expect(status.stdout.toString()).toContain(`S.gpg-agent: ${holder} listens there`);
    const up = await person.run(['up', '--exec', one]);
    expect(up).toMatchObject({ status: 1, stderr: expect.stringContaining(`${holder} listens there`) });
    expect((await person.json<Up>('up', '--exec', one, '--takeover')).mended.join()).toContain(
      `S.gpg-agent over from ${holder}`,
    );
    await person.ok('status', '--exec', one);
  });

  it('says that the host’s agent is gone', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await person.ok('up', name);
    await rm(agent.socketPath);
    const up = await person.run(['up', name]);
    expect(up.status).toBe(1);
    expect(up.stdout.toString()).toMatch(/^! The bridge to \S+ was up already, and works in part/);
    expect(up.stdout.toString()).toMatch(/\n! \S+agent\.sock: the host's ssh-agent is unavailable/);
    const told = JSON.parse((await person.run(['up', name, '--json'])).stdout.toString());
    expect(told).toMatchObject({ result: 'running', problems: [expect.stringContaining('agent.sock')] });
    expect(await person.json('status')).toMatchObject([{ state: 'broken' }]);
    expect((await sign(target)).status).toBe(0);
  });

  it('says that the target does not answer, and knows when it does again', async () => {
    const person = await Person.create();
    person.env.GPG_BRIDGE_HEARTBEAT = '60000'; // the line is not given up meanwhile
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const { pid } = await person.json<Up>('up', name, '--runtime=perl');
    const server = await serverOf(pid);
    await stopProcess(server);
    expect(await person.json('status')).toMatchObject([
      { pid, state: 'broken', problems: [expect.stringContaining('the target does not answer')] },
    ]);
    const up = await person.run(['up', name]);
    expect(up).toMatchObject({ status: 1, stderr: expect.stringContaining('the target does not answer') });
    process.kill(server, 'SIGCONT');
    expect(await person.json('up', name)).toMatchObject({ pid, result: 'running', mended: [] });
    expect((await person.run(['status', name])).status).toBe(0);
  });

  it('makes a socket that could not be made before', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    await agent.addKey('work');
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await writeFile(join(target.dir, 'agent.sock'), 'something of the user’s');
    const up = await person.ok('up', name);
    expect(up).toContain('a regular file is there');
    expect(up).toContain('use no SSH key');
    expect(await person.ok('status', name)).toMatch(/ up for .*\n.*\n {2}missing .*a regular file is there/);
    await rm(join(target.dir, 'agent.sock'));
    expect(await person.ok('up', name)).toContain('made the socket');
    expect(await offered(target)).toEqual(['work']);
  });

  it('is content with the ssh-agent where the target has no GnuPG', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    await agent.addKey('work');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const target = await person.localHome();
    await mkdir(join(target.dir, 'bin'));
    for (const program of ['sh', 'perl', 'ssh-add']) {
      const path = (await runOk('sh', ['-c', `command -v ${program}`])).trim();
      await symlink(path, join(target.dir, 'bin', program));
    }
    const variables = `HOME=${target.dir} PATH=${target.dir}/bin`;
    const enter = await writeScript(target.dir, 'enter', `export ${variables}\nexec "$@"`);
    for (const _time of ['first', 'second']) {
      expect(await person.ok('up', '--exec', enter)).toContain('has no gpg on its PATH');
    }
    expect(await person.ok('status', '--exec', enter)).toMatch(/ up for .*\n.*\n {2}missing .*no gpg/);
    expect(await person.ok('exec', '--exec', enter, '--', 'ssh-add', '-l')).toContain('work');
    // Whoever runs a command asks for no other agent by an old SSH_AUTH_SOCK.
    person.env.SSH_AUTH_SOCK = join(target.dir, 'nothing-here');
    expect(await person.ok('exec', '--exec', enter, '--', 'ssh-add', '-l')).toContain('work');
    expect((await person.run(['up', '--exec', enter])).status).toBe(4);
  });

  it('counts its own questions as nobody’s sessions', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await person.ok('up', name);
    const { sessions } = (await person.json<{ sessions: unknown }[]>('status', name))[0]!;
    await person.ok('up', name);
    // The checks themselves are nobody's sessions.
    expect(sessions).toEqual({ open: 0, total: 0 });
    expect(await person.json('status', name)).toMatchObject([
      { sessions: { total: 0 }, bytes: { toHost: 0, toTarget: 0 } },
    ]);
  });
});

describe('a failing up', () => {
  it('leaves the bridge that runs', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    const bin = join(dir, 'bin');
    await runOk('mkdir', [bin]);
    for (const program of ['sh', 'perl', 'gpg', 'gpgconf', 'gpg-agent']) {
      await runOk('ln', [
        '-s',
        (await runOk('sh', ['-c', `command -v ${program}`])).trim(),
        join(bin, program),
      ]);
    }
    const enter = await writeScript(
      dir,
      'enter',
      `export GNUPGHOME=${target.dir} HOME=${dir} PATH=${bin}\nexec "$@"`,
    );
    const { pid } = await person.json<Up>('up', '--exec', enter);
    const inode = (await stat(`${target.dir}/S.gpg-agent`)).ino;
    const cases: [string[], number, string][] = [
      [['--keys=typo@x'], 1, 'gpg knows no public key "typo@x"'],
      [['--runtime=node'], 5, 'no usable node'],
      [['--ssh-key=nobody'], 4, 'ssh-agent'],
      [['--ssh'], 4, 'ssh-agent'],
      [['--no-gpg', '--no-ssh'], 2, 'nothing is left'],
    ];
    for (const [args, status, words] of cases) {
      const failed = await person.run(['up', '--exec', enter, ...args]);
      expect({ status: failed.status, stderr: failed.stderr }, args.join()).toEqual({
        status,
        stderr: expect.stringContaining(words),
      });
      expect(await person.json('status')).toMatchObject([{ pid, state: 'ready', options: { exec: enter } }]);
      expect((await stat(`${target.dir}/S.gpg-agent`)).ino).toBe(inode);
    }
    expect((await sign(target)).status).toBe(0);
    expect(await person.ok('log', '--exec', enter)).not.toContain('something replaced');
  });
});

describe('a change that would lose an agent', () => {
  async function bridgeWithBoth() {
    const person = await Person.create();
    const agent = await startSshAgent();
    await agent.addKey('work');
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const { pid } = await person.json<Up>('up', name);
    const isAsBefore = async () => {
      expect((await sign(target)).status).toBe(0);
      expect(await offered(target)).toEqual(['work']);
      expect(await person.json('status', name)).toMatchObject([{ pid, state: 'ready' }]);
    };
    return { person, agent, target, name, pid, isAsBefore };
  }

  it.each([
    ['SSH_AUTH_SOCK', 'the ssh-agent at'],
    ['GNUPGHOME', 'GNUPGHOME|gpg'],
  ])('because of %s fails, and changes nothing', async (variable, reason) => {
    const { person, name, isAsBefore } = await bridgeWithBoth();
    const env = { [variable]: join(await tempDir(), 'nothing-here') };
    const { status, stderr } = await person.run(['up', name], { env });
    expect(stderr).toMatch(new RegExp(reason));
    expect(status).toBe(4);
    await isAsBefore();
  });

  it('because of --gpg-socket fails, and that can be taken back', async () => {
    const { person, name, isAsBefore } = await bridgeWithBoth();
    const wrong = ['--gpg-socket', join(await tempDir(), 'nothing-here')];
    expect((await person.run(['up', name, ...wrong])).status).toBe(4);
    await isAsBefore();
    const right = await person.home.socket('agent-extra-socket');
    expect(await person.json('up', name, `--gpg-socket=${right}`)).toMatchObject({ result: 'changed' });
    expect(await person.json('up', name, '--gpg-socket=default')).toMatchObject({
      result: 'changed',
      changes: [{ option: '--gpg-socket', from: right, to: 'default' }],
    });
    expect((await person.run(['up', `local:${await tempDir()}`, ...wrong])).status).toBe(4);
  });

  it('that is gone anyway, or that is left out, is made', async () => {
    const { person, agent, target, name } = await bridgeWithBoth();
    await rm(agent.socketPath);
    const { warnings } = await person.json<Up>('up', name, '--no-decrypt');
    expect(warnings.join()).toContain('ssh-agent');
    expect(await person.json('up', name, '--no-ssh')).toMatchObject({ result: 'changed' });
    expect((await sign(target)).status).toBe(0);
  });
});

describe('options', () => {
  it('hold until they are changed by name, and up says what it changed', async () => {
    const person = await Person.create({ key: false });
    const agent = await startSshAgent();
    for (const comment of ['work', 'home', 'third']) await agent.addKey(comment);
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const first = await person.json<Up>('up', name, '--no-gpg', '--ssh-key=work');
    expect(first.result).toBe('new');
    expect(await offered(target)).toEqual(['work']);
    expect(await person.json('up', name)).toMatchObject({ pid: first.pid, result: 'running', changes: [] });
    expect(await offered(target)).toEqual(['work']);

    const changed = await person.json<Up>('up', name, '--ssh-key=home', '--runtime=node');
    expect(changed.result).toBe('changed');
    expect(changed.changes).toEqual([
      { option: '--runtime', from: 'default', to: 'node' },
      { option: '--ssh-key', from: 'work', to: 'home' },
    ]);
    expect(changed.warnings).toEqual([]);
    expect(changed.pid).not.toBe(first.pid);
    expect(await offered(target)).toEqual(['home']);
    expect(await person.ok('up', name, '--ssh-key=all')).toContain('  --ssh-key: home → default\n');
    expect(await offered(target)).toEqual(['work', 'home', 'third']);
    expect(await person.json('status')).toMatchObject([{ options: { gpg: false, runtime: 'node' } }]);
    const refused = await person.run(['up', name, '--no-ssh']);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain(
      '--no-gpg was given before and holds, and with --no-ssh nothing is left to bridge. Leave --no-ssh out',
    );
    expect(await person.ok('log', name)).not.toMatch(/another forward|something replaced/);
    // One daemon is left of the three.
    const daemons = (await processesWith(`GPG_BRIDGE_STATE_DIR=${person.stateDir}\0`)).filter(({ command }) =>
      command.includes(' serve '),
    );
    expect(daemons).toHaveLength(1);
  });

  it('that were given before and exclude a new one are named, and hold for an agent that is left out and back', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    await agent.addKey('work');
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await person.ok('up', name, '--ssh-key=work');
    await agent.addKey('home');
    expect(await person.ok('up', name, '--no-ssh')).not.toContain('--ssh-key: ');
    const refused = await person.run(['up', name, '--ssh-key=work']);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain(
      '--no-ssh was given before and holds, and --ssh-key excludes it. Leave --ssh-key out',
    );
    expect((await person.run(['up', name, '--no-gpg'])).stderr).toContain(
      '--no-ssh was given before and holds, and with --no-gpg nothing is left to bridge. Leave --no-gpg out',
    );
    await person.ok('up', name, '--no-gpg', '--ssh');
    expect(await offered(target)).toEqual(['work']);
  });

  it('do not cut off who types a passphrase, unless told to', async () => {
    const pinentry = await ScriptedPinentry.create(PASSPHRASE);
    onTestFinished(() => pinentry.remove());
    const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
    await person.home.createKey('Ada <ada@example.org>', { passphrase: PASSPHRASE });
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const { pid } = await person.json<Up>('up', name, '--runtime=perl');
    const signing = () => {
      const gpg = spawn('gpg', ['--batch', '--clear-sign'], {
        env: target.env,
        stdio: ['pipe', 'ignore', 'pipe'],
      });
      gpg.stdin.end('hello\n');
      return once(gpg, 'exit');
    };
    await pinentry.waits();
    const signed = signing();
    await pinentry.asked();
    const up = person.start(['up', name, '--runtime=node']);
    await up.printed(
      /PKSIGN with key [0-9A-F]{40} in local:.* would be cut off: answer it, or use --now/,
      'stderr',
    );
    // An impatient person changes nothing.
    up.child.kill('SIGINT');
    expect(await up.exited).toBe(130);
    expect(await person.json('status')).toMatchObject([{ pid, state: 'ready' }]);

    const patient = person.start(['up', name, '--runtime=node']);
    await patient.printed(/would be cut off/, 'stderr');
    await pinentry.goOn();
    expect(await signed).toEqual([0, null]);
    expect(await patient.exited).toBe(0);
    expect(patient.stdout).toContain('was changed');

    // Whoever has gone is not waited for.
    await pinentry.waits();
    const gone = spawn('gpg', ['--batch', '--clear-sign'], {
      env: target.env,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    gone.stdin.end('hello\n');
    await pinentry.asked();
    const unhindered = person.start(['up', name, '--runtime=perl']);
    await unhindered.printed(/would be cut off/, 'stderr');
    gone.kill();
    expect(await unhindered.exited).toBe(0);
    await pinentry.goOn();
    await person.ok('up', name, '--runtime=node');

    await pinentry.waits();
    const lost = signing();
    await pinentry.asked();
    await person.ok('up', name, '--runtime=perl', '--now');
    expect((await lost)[0]).toBe(2);
    await pinentry.goOn();
    await pinentry.gives(PASSPHRASE);
    expect((await sign(target)).status).toBe(0);
  });
});

describe('the SSH keys to offer', () => {
  it('are known by every name of theirs, and refused with what is there', async () => {
    const person = await Person.create({ key: false });
    const agent = await startSshAgent();
    const [work, home] = [await agent.addKey('work'), await agent.addKey('home')];
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const md5 = (await runOk('ssh-keygen', ['-E', 'md5', '-lf', `${work}.pub`])).split(' ')[1]!;
    const sha256 = await agent.fingerprint(work);
    for (const key of [sha256, `${sha256}=`, sha256.slice(7), md5, md5.slice(4), `${work}.pub`, 'work']) {
      await person.ok('up', name, '--no-gpg', `--ssh-key=${key}`);
      expect(await offered(target), key).toEqual(['work']);
      await person.ok('down', name);
    }
    await person.ok('up', name, '--no-gpg', `--ssh-key=home,${sha256}`);
    expect(await offered(target)).toEqual(['work', 'home']);
    await person.ok('down', name);

    const unknown = await person.run(['up', name, '--no-gpg', '--ssh-key=wrok']);
    expect(unknown.status).toBe(1);
    expect(unknown.stderr).toContain(`It has ${sha256} (work), ${await agent.fingerprint(home)} (home).`);
    const file = await person.run(['up', name, '--ssh-key=/nowhere/id.pub']);
    expect(file).toMatchObject({ status: 2, stderr: expect.stringContaining("can't read /nowhere/id.pub") });
    expect(await readFile(`${work}.pub`, 'utf8')).toContain('work');
  });
});

it('gpg’s socket that was asked for and is taken fails the bridge, whatever else would work', async () => {
  const person = await Person.create({ key: false });
  const agent = await startSshAgent();
  await agent.addKey('work');
  const target = await person.localHome();
  person.env.SSH_AUTH_SOCK = agent.socketPath;
  const holder = await SocketHolder.start(`${target.dir}/S.gpg-agent`, 'garbage');
  const failed = await person.run(['up', `local:${target.dir}`, '--gpg']);
  expect(failed).toMatchObject({ status: 1, stderr: expect.stringContaining('does not speak as an agent') });
  expect((await run('ls', [join(target.dir, 'agent.sock')])).status).not.toBe(0);
  expect(await person.ok('up', `local:${target.dir}`)).toContain('does not speak as an agent');
  await holder.end();
});
