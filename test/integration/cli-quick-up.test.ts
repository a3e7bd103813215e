import { copyFile, cp, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import { run, stopProcess } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

/** The first bundle of the program by itself: whatever needs another one fails. */
async function firstBundle(): Promise<string> {
  const directory = await tempDir();
  const program = join(directory, 'gpg-bridge.js');
  await copyFile(PROGRAM, program);
  await writeFile(join(directory, 'package.json'), '{"type":"commonjs"}');
  return program;
}

/** The whole program as one of another version. */
async function otherVersion(): Promise<string> {
  const directory = await tempDir();
  await cp(dirname(PROGRAM), directory, { recursive: true });
  const program = join(directory, 'gpg-bridge.js');
  const { version } = JSON.parse(await readFile(join(dirname(PROGRAM), '../package.json'), 'utf8'));
  const text = await readFile(program, 'utf8');
  expect(text).toContain(`"${version}"`);
  await writeFile(program, text.replaceAll(`"${version}"`, '"0.0.1"'));
  return program;
}

/** A person with a bridge that runs. */
async function bridged(...options: string[]) {
  const person = await Person.create();
  const { dir } = await person.localHome();
  const name = `local:${dir}`;
  await person.ok('up', name, '--runtime=perl', '--no-ssh', ...options);
  const up = (program: string, words: string[] = [], env: NodeJS.ProcessEnv = {}) =>
    run(process.execPath, [program, 'up', name, ...words], { env: { ...person.env, ...env } });
  return { person, name, up };
}

describe('`up` of a bridge that runs', () => {
  it('needs only the first bundle, and says what it says the long way', async () => {
    const { person, up } = await bridged();
    const first = await firstBundle();
    const other = await otherVersion(); // which no daemon of this one answers
    const GNUPGHOME = relative(process.cwd(), person.home.dir);
    for (const words of [[], ['--json'], ['--runtime=perl', '--keys', 'pairs'], ['--now']]) {
      const [quick, long] = [await up(first, words), await up(other, words)];
      expect(quick).toMatchObject({ status: 0, stderr: '' });
      expect(quick.stdout.toString()).toBe(long.stdout.toString());
      expect(quick.stdout.toString()).toMatch(words[0] === '--json' ? /"result":"running"/ : /^✓ .* works/);
    }
    expect(await up(first, [], { GNUPGHOME })).toMatchObject({ status: 0, stderr: '' });
  });

  it('is done the long way where something has to be changed, read or refused', async () => {
    const { up } = await bridged();
    const first = await firstBundle();
    for (const words of [
      ['--no-decrypt'],
      ['--verbose'],
      ['--gpg-socket=x'],
      ['--ssh-key', 'x'],
      ['--nothing'],
    ])
      expect((await up(first, words)).status).not.toBe(0);
    expect(await up(PROGRAM, ['--nothing'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("unknown option '--nothing'"),
    });
    expect(await up(PROGRAM, ['--no-ahead'])).toMatchObject({ status: 0 });
    expect((await up(first, ['--no-ahead'])).stdout.toString()).toMatch(/^✓ .* was up already, and works/);
  });

  it('of another version is done in that one’s own words', async () => {
    const { up } = await bridged();
    const done = await up(await otherVersion());
    expect(done).toMatchObject({ status: 0, stderr: '' });
    expect(done.stdout.toString()).toMatch(/^✓ .* was up already, and works/);
  });

  it('works beside another bridge whose daemon does not answer', async () => {
    const { person, name, up } = await bridged();
    const other = await person.localHome();
    const { pid } = await person.json<{ pid: number }>('up', `local:${other.dir}`, '--runtime=perl');
    await stopProcess(pid);
    try {
      await rm(`${name.slice('local:'.length)}/S.gpg-agent`);
      const done = await up(PROGRAM);
      expect(done).toMatchObject({ status: 0, stderr: '' });
      expect(done.stdout.toString()).toMatch(/^✓ .* was up already, and works/);
      expect(done.stdout.toString()).toMatch(/\n! .* was gone or replaced, and is back/);
      // Neither of these has anything to do with a daemon.
      expect((await up(PROGRAM, ['--help'])).stdout.toString()).toContain('gpg-bridge up');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  it('leaves it to the long way to say what is wrong', async () => {
    const person = await Person.create({ key: false });
    const env = { GPG_BRIDGE_STATE_DIR: join(PROGRAM, 'state') };
    const done = await person.run(['up', 'local:/nowhere', '--json'], { env });
    expect(done.status).toBe(1);
    expect(JSON.parse(done.stdout.toString())).toMatchObject({ error: { code: 'STATE_DIR_UNUSABLE' } });
    expect(done.stderr).toMatch(/^gpg-bridge: [^\n]*\n$/);
  });

  it('says that its output could not be written, or nothing where nobody reads it', async () => {
    const { person, name } = await bridged();
    const words = [process.execPath, PROGRAM, 'up', name];
    const full = await run('sh', ['-c', '"$@" >/dev/full', 'sh', ...words], { env: person.env });
    expect(full).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^gpg-bridge: can't write to standard output: ENOSPC.*\n$/),
    });
    const unread = await run('sh', ['-c', '"$@" | true', 'sh', ...words], { env: person.env });
    expect(unread).toMatchObject({ status: 0, stderr: '' });
  });
});

it('`--version` needs only the first bundle', async () => {
  const done = await run(process.execPath, [await firstBundle(), '--version']);
  expect(done).toMatchObject({ status: 0, stderr: '' });
  expect(done.stdout.toString()).toMatch(/^\d+\.\d+\.\d+\n$/);
});
