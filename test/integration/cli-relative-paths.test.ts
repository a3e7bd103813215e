import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import { run } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

/** A person whose environment names the place of the state from a working directory. */
interface Place {
  /** What is set there; a variable without a value is unset. */
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Where the record, the log and a pause belong. */
  records: string;
  /** Where a daemon with the working directory `/` would look. */
  astray: string;
}

const PLACES: readonly [name: string, place: (person: Person) => Promise<Place>][] = [
  [
    'GPG_BRIDGE_STATE_DIR',
    async ({ stateDir }) => {
      const own = dirname(stateDir);
      return {
        env: { GPG_BRIDGE_STATE_DIR: join(basename(own), basename(stateDir)) },
        cwd: dirname(own),
        records: stateDir,
        astray: join('/', basename(own)),
      };
    },
  ],
  [
    'XDG_STATE_HOME',
    async () => {
      const cwd = await tempDir();
      const [state, runtime] = [`${basename(cwd)}-state`, `${basename(cwd)}-runtime`];
      return {
        env: { GPG_BRIDGE_STATE_DIR: undefined, XDG_RUNTIME_DIR: runtime, XDG_STATE_HOME: state },
        cwd,
        records: join(cwd, state, 'gpg-bridge'),
        astray: join('/', state),
      };
    },
  ],
];

describe.each(PLACES)('with a relative %s', (_name, placeOf) => {
  it('a pause holds in the target, and the record and the log are where the command means', async () => {
    const person = await Person.create();
    const { env, cwd, records, astray } = await placeOf(person);
    const target = await person.localHome();
    const spec = `local:${target.dir}`;
    const ok = async (...words: string[]) => {
      const done = await person.run(words, { env, cwd });
      expect(done, done.stderr).toMatchObject({ status: 0 });
      return done.stdout.toString();
    };
    onTestFinished(() => person.run(['down', '--all'], { env, cwd }).then(() => {}));
    const sign = () => target.gpg(['--batch', '--clear-sign'], { input: 'x' });

    await ok('up', spec);
    expect((await sign()).status).toBe(0);
    const names = (await readdir(records)).map((name) => name.replace(/.*\./, ''));
    expect(names).toEqual(expect.arrayContaining(['log', 'uses']));

    await ok('pause');
    expect((await sign()).status).not.toBe(0);
    await ok('resume');
    expect((await sign()).status).toBe(0);

    const uses = JSON.parse(await ok('log', spec, '--uses', '--json')) as { outcome: string }[];
    expect(uses.map(({ outcome }) => outcome)).toEqual(['ok', 'ok']);
    await ok('down', spec);
    expect(existsSync(astray)).toBe(false);
  });
});

it('a relative path says so in one line when the working directory is gone', async () => {
  const person = await Person.create({ key: false });
  const gone = await tempDir();
  const script = 'rmdir "$PWD"; exec "$0" "$@"';
  const env = { ...person.env, GPG_BRIDGE_STATE_DIR: 'state' };
  const { status, stderr } = await run('sh', ['-c', script, process.execPath, PROGRAM, 'status'], {
    env,
    cwd: gone,
  });
  expect(status).toBe(2);
  expect(stderr).toMatch(/^gpg-bridge: [^\n]*the working directory is gone[^\n]*\n$/);
});
