import { mkdir, readdir, readFile, realpath, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import { run, runOk, untilEnded } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

describe('a place where nothing can be', () => {
  it('is said as a target, and as a home', async () => {
    const person = await Person.create({ key: false });
    const target = await person.run(['up', 'local:/proc/x']);
    expect(target).toMatchObject({ status: 3, stderr: expect.stringContaining("can't use /proc/x") });
    const { GPG_BRIDGE_STATE_DIR: _, ...env } = person.env;
    const home = await run(
      'env',
      [
        '-u',
        'GPG_BRIDGE_STATE_DIR',
        '-u',
        'XDG_RUNTIME_DIR',
        '-u',
        'XDG_STATE_HOME',
        process.execPath,
      ].concat([
        process.env.GPG_BRIDGE_PROGRAM ?? 'packages/cli/dist/gpg-bridge.js',
        'up',
        `local:${await tempDir()}`,
      ]),
      { env: { ...env, HOME: '/proc' } },
    );
    expect(home).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("can't keep state in /proc/.local/state/gpg-bridge"),
    });
  });

  it('is not the home behind a tilde', async () => {
    const person = await Person.create({ key: false });
    const home = await realpath(person.env.HOME!);
    const up = await person.json<{ id: string }>('up', 'local:~/bridged/x');
    expect(up.id).toBe(join(home, 'bridged/x'));
    expect((await stat(up.id)).mode & 0o777).toBe(0o700);
    expect(await person.json('status', 'local:~/bridged/x')).toMatchObject([{ id: up.id }]);
    await person.ok('down', 'local:~/bridged/x');
  });
});

describe('the end of a command', () => {
  it('says that its output could not be written', async () => {
    const person = await Person.create({ key: false });
    const words = [process.execPath, PROGRAM, 'status', '--json'];
    const full = await run('sh', ['-c', '"$@" >/dev/full', 'sh', ...words], { env: person.env });
    expect(full).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^gpg-bridge: can't write to standard output: ENOSPC.*\n$/),
    });
  });

  it('does not leave a program behind that ignores the order to end', async () => {
    const person = await Person.create({ key: false });
    const dir = await tempDir();
    const target = await person.localHome();
    const enter = await writeScript(
      dir,
      'enter',
      `echo $$ >'${dir}/pid'; trap '' TERM HUP; export GNUPGHOME='${target.dir}'; "$@"; while :; do sleep 0.1; done`,
    );
    await person.ok('up', '--exec', enter, '--no-ssh');
    const pid = Number(await readFile(join(dir, 'pid'), 'utf8'));
    await person.ok('down', '--exec', enter);
    await untilEnded(pid);
  });
});

requireSystem('mount')('a full disk', () => {
  /** A directory with nothing left to write to. */
  async function fullDirectory(): Promise<string> {
    const dir = join(await tempDir(), 'full');
    await mkdir(dir);
    await runOk('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', dir]);
    onTestFinished(async () => void (await runOk('umount', ['-l', dir])));
    await mkdir(join(dir, 'state'), { mode: 0o700 });
    await writeFile(join(dir, 'ballast'), Buffer.alloc(1024 * 1024)).catch(() => {});
    return join(dir, 'state');
  }

  it('is said, and leaves nothing', async () => {
    const person = await Person.create({ key: false });
    const target = await person.localHome();
    const state = await fullDirectory();
    const up = await person.run(['up', `local:${target.dir}`], { env: { GPG_BRIDGE_STATE_DIR: state } });
    expect(up).toMatchObject({ status: 1, stderr: expect.stringContaining('the disk is full (ENOSPC') });
    expect(up.stderr).toContain('Make room there');
    expect((await readdir(state)).filter((name) => !name.endsWith('.log'))).toEqual([]);
    expect((await readdir(target.dir)).filter((name) => name.startsWith('S.'))).toEqual([]);
  });
});
