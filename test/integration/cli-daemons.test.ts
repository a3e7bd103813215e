import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { link, readdir, readFile, stat, unlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Person, PROGRAM, processesWith, serverOf, untilGone } from '@gpg-bridge/test-support/cli';
import { runOk, stopProcess } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Up {
  pid: number;
  target: string;
}

/** A program that has nothing to do with bridges. */
async function bystander() {
  const child = spawn('sleep', ['1000']);
  await once(child, 'spawn');
  onTestFinished(() => void child.kill('SIGKILL'));
  return { pid: child.pid!, alive: () => child.exitCode === null && child.signalCode === null };
}

async function killed(pid: number, socket: string): Promise<void> {
  process.kill(pid, 'SIGKILL');
  await untilGone(socket); // the server in the target sees the end of its input
}

describe('daemons', () => {
  it('twenty `up` at once make one, and all return it', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const ups = await Promise.all(
      Array.from({ length: 20 }, () => person.json<Up>('up', `local:${target.dir}`, '--runtime=perl')),
    );
    expect(new Set(ups.map(({ pid }) => pid)).size).toBe(1);
    const daemons = (await processesWith(`GPG_BRIDGE_STATE_DIR=${person.stateDir}\0`)).filter(({ command }) =>
      command.includes(' serve '),
    );
    expect(daemons.map(({ pid }) => pid)).toEqual([ups[0]!.pid]);
    expect((await person.files()).map((name) => name.replace(/.*\./, '')).sort()).toEqual([
      'log',
      'pid',
      'sock',
    ]);
  });

  it('are not taken for a process that a PID file happens to name', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const other = await bystander();
    const { pid } = await person.json<Up>('up', `local:${target.dir}`);
    const pidFile = await person.file('.pid');
    await killed(pid, `${target.dir}/S.gpg-agent`);
    await writeFile(pidFile, `${other.pid}\n`);

    expect(await person.json('status')).toEqual([]);
    expect(await person.ok('down', `local:${target.dir}`)).toContain(
      'had been killed; what it left is cleared up',
    );
    expect(await person.ok('down', '--all')).toBe('No bridge was up.\n');
    await writeFile(pidFile, `${other.pid}\n`);
    const again = await person.json<Up>('up', `local:${target.dir}`);
    expect(again.pid).not.toBe(other.pid);
    expect(Number(await readFile(pidFile, 'utf8'))).toBe(again.pid);
    // Neither is a living bridge, when somebody else writes to its file.
    await writeFile(pidFile, `${other.pid}\n`);
    expect(await person.json('up', `local:${target.dir}`)).toMatchObject({ pid: again.pid });
    expect(Number(await readFile(pidFile, 'utf8'))).toBe(again.pid);
    await person.ok('down', '--all');
    expect(other.alive()).toBe(true);
  });

  it('that were killed are cleared up by `down`, which says so', async () => {
    const person = await Person.create();
    const [one, two] = [await person.localHome(), await person.localHome()];
    for (const target of [one, two]) {
      const { pid } = await person.json<Up>('up', `local:${target.dir}`, '--runtime=perl');
      await killed(pid, `${target.dir}/S.gpg-agent`);
    }
    expect(await person.ok('down', `local:${one.dir}`)).toBe(
      `The daemon of the bridge to local:${one.dir} had been killed; what it left is cleared up.\n`,
    );
    expect(await person.ok('down', `local:${one.dir}`)).toBe(`There was no bridge to local:${one.dir}.\n`);
    expect(await person.ok('down', '--all')).toBe(
      'Cleared up after one bridge whose daemon had been killed.\n',
    );
    expect((await person.files()).filter((name) => !name.endsWith('.log'))).toEqual([]);
    expect(await person.ok('down', '--all')).toBe('No bridge was up.\n');
  });

  it('heal a state directory that is full of leftovers', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const { pid } = await person.json<Up>('up', `local:${target.dir}`);
    const [control, pidFile] = [await person.file('.sock'), await person.file('.pid')];
    await killed(pid, `${target.dir}/S.gpg-agent`);
    // As if everything else that can be killed had been, too.
    for (const name of [
      control.replace('.sock', '.lock'),
      control.replace('.sock', '.lock.x'),
      `${control}.x`,
    ]) {
      const dead = spawn(process.execPath, [
        '-e',
        `require('net').createServer().listen(${JSON.stringify(name)}, () => process.kill(process.pid, 9))`,
      ]);
      await once(dead, 'exit');
    }
    await writeFile(join(person.stateDir, '0123456789abcdef.sock'), '');
    await writeFile(join(person.stateDir, '0123456789abcdef.pid'), 'nonsense');
    expect(await person.json('status')).toEqual([]);

    const ups = await Promise.all(
      Array.from({ length: 5 }, () => person.json<Up>('up', `local:${target.dir}`, '--runtime=perl')),
    );
    expect(new Set(ups.map((up) => up.pid)).size).toBe(1);
    expect(Number(await readFile(pidFile, 'utf8'))).toBe(ups[0]!.pid);
    expect(await person.json('status')).toMatchObject([{ pid: ups[0]!.pid }]);
    expect((await person.files()).filter((name) => /lock|\.x$/.test(name))).toEqual([]);
    expect(await person.ok('down', '--all')).toBe('Ended one bridge.\n');
  });

  it('are not taken for something else that answers at their socket', async () => {
    const person = await Person.create();
    const [one, two] = [await person.localHome(), await person.localHome()];
    await person.ok('up', `local:${one.dir}`, '--runtime=perl');
    const control = await person.file('.sock');
    const { pid } = await person.json<Up>('up', `local:${two.dir}`, '--runtime=perl');
    const other = (await person.files()).find((name) => name.endsWith('.sock') && !control.endsWith(name))!;
    process.kill(pid, 'SIGKILL');
    await untilGone(`${two.dir}/S.gpg-agent`);
    // The first bridge's daemon answers in the second one's place, with a target that is not the second's.
    await unlink(join(person.stateDir, other));
    await link(control, join(person.stateDir, other));
    expect(await person.json('status')).toHaveLength(1);
    expect((await person.run(['status', `local:${two.dir}`])).status).toBe(3);
  });

  it('that do not answer are said so, and keep no others from being ended', async () => {
    const person = await Person.create();
    const [one, two] = [await person.localHome(), await person.localHome()];
    const { pid } = await person.json<Up>('up', `local:${one.dir}`, '--runtime=perl');
    await person.ok('up', `local:${two.dir}`, '--runtime=perl');
    await stopProcess(pid);
    try {
      const [up, status] = await Promise.all([person.run(['up', `local:${one.dir}`]), person.json('status')]);
      const name = `local:${one.dir}`;
      const [shown, named, text] = await Promise.all([
        person.run(['status']),
        person.run(['status', name, '--json']),
        person.run(['status', name]),
      ]);
      expect(named.status).toBe(1);
      expect(JSON.parse(named.stdout.toString())).toMatchObject([
        { target: name, pid, state: 'not-answering' },
      ]);
      expect(text).toMatchObject({ status: 1, stderr: '' });
      expect(text.stdout.toString()).toContain(`${name}  not answering (pid ${pid})\n  problem `);
      expect(shown.stdout.toString()).toContain(text.stdout.toString());
      const down = await person.run(['down', '--all']);
      expect(down.status).toBe(1);
      expect(down.stdout.toString()).toBe('Ended one bridge.\n');
      expect(down.stderr).toMatch(new RegExp(`^gpg-bridge: .*PID ${pid}\\).*\n$`));
      expect(up.status).toBe(1);
      expect(up.stderr).toMatch(/^gpg-bridge: .*it did not answer 'status' within 5 s\. .*\n$/);
      expect(up.stderr).toMatch(
        new RegExp(
          `^gpg-bridge: the bridge to local:${one.dir} .*PID ${pid}.* \`gpg-bridge down local:${one.dir} --force\``,
        ),
      );
      const stuck = {
        target: `local:${one.dir}`,
        pid,
        state: 'not-answering',
        problems: [expect.any(String)],
      };
      const working = { target: `local:${two.dir}`, state: 'ready' };
      expect(status).toMatchObject(one.dir < two.dir ? [stuck, working] : [working, stuck]);
      await expect(stat(`${two.dir}/S.gpg-agent`)).rejects.toThrow('ENOENT');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  it('that do not answer can be killed, and nothing else is', async () => {
    const person = await Person.create();
    const [one, two] = [await person.localHome(), await person.localHome()];
    const other = await bystander();
    const { pid } = await person.json<Up>('up', `local:${one.dir}`, '--runtime=perl');
    await stopProcess(pid);
    expect(await person.ok('down', `local:${one.dir}`, '--force')).toContain('is down');
    await untilGone(`${one.dir}/S.gpg-agent`);
    expect(await person.json('status')).toEqual([]);

    const second = await person.json<Up>('up', `local:${two.dir}`);
    const pidFile = await person.file('.pid');
    await stopProcess(second.pid);
    await writeFile(pidFile, `${other.pid}\n`);
    const refused = await person.run(['down', '--all', '--force']);
    expect(refused.status).toBe(1);
    expect(other.alive()).toBe(true);
    await writeFile(pidFile, `${second.pid}\n`);
    expect(await person.ok('down', '--all', '--force')).toBe('Ended one bridge.\n');
    expect(await person.ok('up', `local:${two.dir}`)).toContain('is up');
  });

  it('that do not answer are killed by what the error says to type', async () => {
    const person = await Person.create({ key: false });
    const target = await person.localHome();
    const exec = `env GNUPGHOME=${target.dir} HOME=${person.env.HOME}`;
    const { pid } = await person.json<Up>('up', '--exec', exec, '--runtime=perl');
    await stopProcess(pid);
    const refused = await person.run(['down', '--exec', exec]);
    expect(refused.status).toBe(1);
    const typed = /`gpg-bridge (down .*)`\.\n$/.exec(refused.stderr)?.[1];
    expect(typed).toBe(`down --exec '${exec}' --force`);
    const script = `exec "$0" ${PROGRAM} ${typed}`;
    expect(await runOk('sh', ['-c', script, process.execPath], { env: person.env })).toContain('is down');
  });

  it('end when the process in the target does, and the next `up` works', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const first = await person.json<Up>('up', `local:${target.dir}`, '--runtime=perl');
    const pidFile = await person.file('.pid');
    const server = await serverOf(first.pid);
    process.kill(server, 'SIGKILL');
    await untilGone(pidFile);
    expect(await person.json('status')).toEqual([]);
    expect(await person.ok('log', `local:${target.dir}`)).toContain('the bridge is over');
    const second = await person.json<Up>('up', `local:${target.dir}`);
    expect(second.pid).not.toBe(first.pid);
    await target.gpgOk(['--clear-sign'], { input: 'x' });
  });

  it('with --restart attach again', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const { pid } = await person.json<Up>('up', `local:${target.dir}`, '--restart', '--runtime=perl');
    const log = person.start(['log', `local:${target.dir}`, '-f']);
    await log.printed(/bridged local:/);
    const server = await serverOf(pid);
    process.kill(server, 'SIGKILL');
    await log.printed(/waiting for local:\S+ to come back.*bridged local:/s);
    expect(await person.json('status')).toMatchObject([{ pid }]);
    await target.gpgOk(['--clear-sign'], { input: 'x' });
  });

  it('with --restart try a target that flaps with growing pauses, and say when next', async () => {
    const person = await Person.create({ key: false });
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const { pid } = await person.json<Up>('up', name, '--restart', '--runtime=perl');
    const log = person.start(['log', name, '-f']);
    for (const [times, seconds] of [
      [1, 0.5],
      [2, 1],
      [3, 2],
      [4, 4],
    ]) {
      await log.printed((printed) => printed.split(`bridged ${name}`).length > times!);
      const server = await serverOf(pid);
      process.kill(server, 'SIGKILL');
      await log.printed(new RegExp(`the next attempt to attach is in ${seconds} s`));
    }
    const status = await person.run(['status', name]);
    expect(status.stdout.toString()).toMatch(
      /waiting for target for [\s\S]*next +attempt to attach in [0-3] s/,
    );
    await log.printed((printed) => printed.split(`bridged ${name}`).length > 5);
    await person.ok('down', name);
    expect(await person.ok('log', name)).not.toMatch(/to come back: it was told to/);
  });

  it('let go when the `up` that starts them is interrupted', async () => {
    const person = await Person.create();
    const dir = await tempDir();
    // A target that never gets to its end of the bridge, and tells that it was asked.
    const asked = join(dir, 'asked');
    const server = createServer().listen(asked);
    onTestFinished(() => void server.close());
    const knock = `require('net').connect(${JSON.stringify(asked)}); setInterval(() => {}, 1000)`;
    await writeScript(dir, 'enter', `exec ${process.execPath} -e ${JSON.stringify(knock)}`);
    const up = person.start(['up', '--exec', join(dir, 'enter')]);
    const [socket] = await once(server, 'connection');
    const ended = once(socket.on('error', () => {}).resume(), 'close');
    up.child.kill('SIGINT');
    expect(await up.exited).toBe(130);
    await ended;
    expect(await person.json('status')).toEqual([]);
    expect(await person.files()).toEqual([]);
  });

  it('never write a secret into their files', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const secret = 'the words that were signed';
    await person.ok('up', `local:${target.dir}`);
    const serveLog = await person.file('.log');
    await target.gpgOk(['--clear-sign'], { input: secret });
    const grip = /Keygrip = ([0-9A-F]{40})/.exec(await person.home.gpgOk(['-K', '--with-keygrip']))![1]!;
    const key = await readFile(join(person.home.dir, 'private-keys-v1.d', `${grip}.key`), 'latin1');
    await person.ok('down', '--all');
    const log = await readFile(serveLog, 'latin1');
    expect(log).toContain('PKSIGN');
    expect(log).not.toContain(secret);
    expect(log).not.toMatch(/SETHASH|D \(|sig-val/);
    for (const bytes of key.match(/#([0-9A-F]{32,})#/g) ?? []) expect(log).not.toContain(bytes.slice(1, 17));
    const left = await readdir(person.stateDir);
    expect(left.map((name) => name.replace(/.*\./, '')).sort()).toEqual(['log', 'uses']);
    const uses = await readFile(
      join(person.stateDir, left.find((name) => name.endsWith('.uses'))!),
      'latin1',
    );
    expect(uses).toContain('PKSIGN');
    expect(uses).not.toContain(secret);
  });
});
