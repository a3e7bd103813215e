import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { type Finished, run, runOk } from '@gpg-bridge/test-support/process';
import { requireRuntime, requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Up {
  pid: number;
  result: string;
  mended: string[];
  warnings: string[];
}

const sign = ({ env }: Pick<GnupgHome, 'env'>): Promise<Finished> =>
  run('gpg', ['--batch', '--clear-sign'], { env, input: 'hello\n' });

/** What `up` says of a bridge that works in part. */
async function inPart(person: Person, ...args: string[]): Promise<string> {
  const { status, stdout } = await person.run(['up', ...args]);
  expect(status).toBe(1);
  return stdout.toString();
}

/** A command that enters a target where gpg does something first, in a directory of the test's. */
async function withGpg(target: GnupgHome, first: string): Promise<{ enter: string; dir: string }> {
  const dir = await tempDir();
  const gpg = (await runOk('sh', ['-c', 'command -v gpg'])).trim();
  await writeScript(dir, 'gpg', `cd ${dir}\n${first}\nexec ${gpg} "$@"`);
  const variables = `GNUPGHOME=${target.dir} HOME=${dir} PATH="${dir}:$PATH"`;
  return { dir, enter: await writeScript(dir, 'enter', `export ${variables}\nexec "$@"`) };
}

requireSystem('mount')('public keys for which the target has no room', () => {
  /** A home on a disk with nothing left to write to, and what makes room there. */
  async function fullHome(): Promise<{ dir: string; fill(): Promise<void>; makeRoom(): Promise<void> }> {
    const disk = join(await tempDir(), 'full');
    await mkdir(disk);
    await runOk('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', disk]);
    onTestFinished(async () => void (await runOk('umount', ['-l', disk])));
    const ballast = join(disk, 'ballast');
    const fill = () => writeFile(ballast, Buffer.alloc(1024 * 1024)).catch(() => {});
    await fill();
    const dir = join(disk, 't');
    await mkdir(dir, { mode: 0o700 });
    return { dir, fill, makeRoom: () => rm(ballast) };
  }

  const FULL =
    /can't import the host's public keys: the disk is full \(.*No space left.*\)\. Make room there/;

  it('are missed by every `up` and by `status` until there is room', async () => {
    const person = await Person.create();
    const { dir, makeRoom } = await fullHome();
    const name = `local:${dir}`;
    const target = { env: { ...person.env, GNUPGHOME: dir } };
    const first = await person.json<Up>('up', name, '--no-ssh');
    expect(first).toMatchObject({ result: 'new', warnings: [expect.stringMatching(FULL)] });
    expect(JSON.parse(await inPart(person, name, '--json'))).toMatchObject({
      pid: first.pid,
      result: 'running',
      problems: [expect.stringMatching(FULL)],
    });
    const said = await inPart(person, name);
    expect(said).toMatch(FULL);
    expect(said).toContain('! The bridge to');
    expect(said).toContain('was up already, and works in part');
    const status = await person.run(['status', name]);
    expect(status.status).toBe(1);
    expect(status.stdout.toString()).toMatch(/ broken for .*\n.*\n {2}problem .*the disk is full/);

    await makeRoom();
    const mended = await person.json<Up>('up', name);
    expect(mended).toMatchObject({ pid: first.pid, result: 'running', warnings: [] });
    expect(mended.mended.join()).toContain('public keys that were missing there: 1 new');
    expect(await sign(target)).toMatchObject({ status: 0 });
    expect(await person.run(['status', name])).toMatchObject({ status: 0 });
    expect(await person.ok('up', name)).toContain('was up already, and works (');
  });

  it('are missed by an `up` that changes the bridge', async () => {
    const person = await Person.create();
    const { dir } = await fullHome();
    const name = `local:${dir}`;
    await person.ok('up', name, '--no-ssh');
    const said = await inPart(person, name, '--no-decrypt');
    expect(said).toMatch(/^! The bridge to \S+ was changed, and works in part/);
    expect(said).toMatch(FULL);
    const { stderr } = await person.run(['exec', name, '--decrypt', '--', 'true']);
    expect(stderr).toContain(`the bridge to ${name} was changed, and works in part; `);
    expect(stderr).toMatch(FULL);
  });

  it('are missed by all who wait for the same bridge', async () => {
    const person = await Person.create();
    const { dir } = await fullHome();
    const ends = await Promise.all(
      Array.from({ length: 4 }, () => person.run(['up', `local:${dir}`, '--no-ssh', '--json'])),
    );
    const ups = ends.map(({ stdout }) => JSON.parse(stdout.toString()) as Up);
    expect(new Set(ups.map(({ pid }) => pid)).size).toBe(1);
    for (const { warnings } of ups) expect(warnings).toEqual([expect.stringMatching(FULL)]);
  });

  it('are missed also where a change of the host’s keyring does not get there, until `keys sync` does it', async () => {
    const person = await Person.create();
    const { dir, fill, makeRoom } = await fullHome();
    const name = `local:${dir}`;
    await makeRoom();
    await person.ok('up', name);
    await fill();
    const log = person.start(['log', name, '-f']);
    await person.home.createKey('Bob <bob@example.org>');
    await log.printed(FULL);
    expect(await person.json('status')).toMatchObject([
      { state: 'broken', problems: [expect.stringMatching(FULL)] },
    ]);
    await makeRoom();
    await person.ok('keys', 'sync', name);
    expect(await person.json('status')).toMatchObject([{ state: 'ready', problems: [] }]);
  });
});

it('public keys come with a gpg socket that could not be made at first', async () => {
  const person = await Person.create();
  const agent = await startSshAgent();
  person.env.SSH_AUTH_SOCK = agent.socketPath;
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await writeFile(join(target.dir, 'S.gpg-agent'), 'something of the user’s');
  expect(await person.ok('up', name)).toContain('a regular file is there');
  await rm(join(target.dir, 'S.gpg-agent'));
  expect((await person.json<Up>('up', name)).mended).toEqual([
    expect.stringContaining('made the socket'),
    expect.stringContaining('public keys that were missing there: 1 new'),
  ]);
  expect(await sign(target)).toMatchObject({ status: 0 });
});

describe('public keys that went with the target’s home', () => {
  describe.each(['perl', 'node', 'native'] as const)('over %s', (runtime) => {
    requireRuntime(runtime)('alone', () => {
      it('are back after `up`', async () => {
        const person = await Person.create();
        const target = await person.localHome();
        const name = `local:${target.dir}`;
        const { pid } = await person.json<Up>('up', name, '--no-ssh', `--runtime=${runtime}`);
        await rm(target.dir, { recursive: true });
        expect(await person.json('up', name)).toMatchObject({ pid, result: 'running', warnings: [] });
        expect(await sign(target)).toMatchObject({ status: 0 });
      });
    });
  });

  it('come back with the socket, without `up`', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await person.ok('up', name);
    const log = person.start(['log', name, '-f']);
    await rm(target.dir, { recursive: true });
    await log.printed(/public keys that were missing there: 1 new/);
    expect(await sign(target)).toMatchObject({ status: 0 });
  });

  it('are said to be on their way where that takes long', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const { enter, dir } = await withGpg(
      target,
      'case "$*" in *--import) while [ -e wait ]; do sleep 0.1; done; esac',
    );
    const wait = join(dir, 'wait');
    await person.ok('up', '--exec', enter);
    await writeFile(wait, '');
    await rm(target.dir, { recursive: true });
    const said = await inPart(person, '--exec', enter);
    expect(said).toContain("! the host's public keys are still being imported there");
    expect(said).toContain('! The bridge to');
    expect(said).toContain('was up already, and works in part');
    expect(await person.json('status')).toMatchObject([{ state: 'broken' }]);
    const log = person.start(['log', '--exec', enter, '-f']);
    await rm(wait);
    await log.printed(/public keys that were missing there: 1 new/);
    expect(await person.json('status')).toMatchObject([{ state: 'ready', problems: [] }]);
    expect(await sign(target)).toMatchObject({ status: 0 });
  });
});

it('public keys that are there cost the next `up` nothing', async () => {
  const person = await Person.create();
  const target = await person.localHome();
  const { enter, dir } = await withGpg(target, 'echo "$*" >>ran');
  await person.ok('up', '--exec', enter);
  const ran = await readFile(join(dir, 'ran'), 'utf8');
  expect(ran).toContain('--import');
  expect(await person.ok('up', '--exec', enter)).toContain('was up already, and works (');
  expect(await readFile(join(dir, 'ran'), 'utf8')).toBe(ran);
});
