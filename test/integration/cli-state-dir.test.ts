import { once } from 'node:events';
import { lstatSync, readFileSync } from 'node:fs';
import { chmod, chown, lchown, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

/** Every command that looks into the state directory. */
const COMMANDS: readonly (readonly string[])[] = [
  ['up', 'local:/tmp/gb-none'],
  ['down', 'local:/tmp/gb-none'],
  ['down', '--all'],
  ['down', '--all', '--force'],
  ['status'],
  ['status', 'local:/tmp/gb-none'],
  ['log', 'local:/tmp/gb-none'],
  ['log', 'local:/tmp/gb-none', '--uses'],
  ['env', 'local:/tmp/gb-none'],
  ['completion', 'targets'],
  ['keys', 'sync', 'local:/tmp/gb-none'],
  ['exec', 'local:/tmp/gb-none', '--', 'true'],
  ['pause'],
];

/** A control socket that somebody else put there; it counts who comes. */
async function plantedSocket(path: string): Promise<{ visitors: () => number }> {
  let visitors = 0;
  const server = net.createServer((peer) => {
    visitors++;
    peer.on('error', () => {}).end('{"key":"local\\n/tmp/gb-none\\n","target":"evil","pid":1}\n');
  });
  server.listen(path);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { visitors: () => visitors };
}

async function expectRefused(person: Person, why: RegExp, visitors: () => number): Promise<void> {
  for (const command of COMMANDS) {
    const { status, stdout, stderr } = await person.run(command);
    expect({ command, status, out: stdout.toString() }).toEqual({ command, status: 1, out: '' });
    expect(stderr).toMatch(/^gpg-bridge: can't keep state in /);
    expect(stderr).toMatch(why);
  }
  expect(visitors()).toBe(0);
}

const NAME = '0123456789abcdef';

describe('a state directory that', () => {
  it.each([0o777, 0o770, 0o702, 0o1777])(
    'others may write to (mode %o) is refused by every command before it is believed',
    async (mode) => {
      const person = await Person.create({ key: false });
      await mkdir(person.stateDir);
      const { visitors } = await plantedSocket(join(person.stateDir, `${NAME}.sock`));
      await chmod(person.stateDir, mode);
      await expectRefused(person, /others may write to it \(mode 7/, visitors);
      await chmod(person.stateDir, 0o700);
    },
  );

  it('is a link to such a one is refused, too', async () => {
    const person = await Person.create({ key: false });
    const real = join(await tempDir(), 'real');
    await mkdir(real);
    const { visitors } = await plantedSocket(join(real, `${NAME}.sock`));
    await chmod(real, 0o777);
    await symlink(real, person.stateDir);
    await expectRefused(person, /others may write to it/, visitors);
    await rm(person.stateDir);
  });

  it('is empty is made private', async () => {
    const person = await Person.create({ key: false });
    await mkdir(person.stateDir);
    await chmod(person.stateDir, 0o777);
    expect(await person.ok('status')).toMatch(/^No bridge is up/);
    expect(lstatSync(person.stateDir).mode & 0o777).toBe(0o700);
  });

  requireSystem('root')('belongs to another user', () => {
    it('is refused by every command before it is believed', async () => {
      const person = await Person.create({ key: false });
      await mkdir(person.stateDir, { mode: 0o700 });
      const { visitors } = await plantedSocket(join(person.stateDir, `${NAME}.sock`));
      await chown(person.stateDir, 65_534, 65_534);
      await expectRefused(person, /it belongs to another user/, visitors);
      await chown(person.stateDir, 0, 0);
    });

    it('is refused when only the link to it does', async () => {
      const person = await Person.create({ key: false });
      const real = join(await tempDir(), 'real');
      await mkdir(real, { mode: 0o700 });
      const { visitors } = await plantedSocket(join(real, `${NAME}.sock`));
      await symlink(real, person.stateDir);
      await lchown(person.stateDir, 65_534, 65_534);
      await expectRefused(person, /it is a symbolic link of another user/, visitors);
      await rm(person.stateDir);
    });

    it('is refused as the place of a PID file', async () => {
      const person = await Person.create({ key: false });
      const target = await person.localHome();
      const dir = await tempDir();
      await chown(dir, 65_534, 65_534);
      const pidFile = join(dir, 'b.pid');
      const { status, stderr } = await person.run([
        'serve',
        `--target=local:${target.dir}`,
        `--pid-file=${pidFile}`,
      ]);
      expect(stderr).toMatch(/it belongs to another user\. Name another place with --pid-file/);
      expect(status).toBe(1);
    });
  });
});

describe('a symbolic link in place of', () => {
  async function bridged() {
    const person = await Person.create();
    const target = await person.localHome();
    const precious = join(await tempDir(), 'precious');
    await writeFile(precious, 'precious');
    await person.ok('up', `local:${target.dir}`);
    const untouched = () => expect(readFileSync(precious, 'utf8')).toBe('precious');
    return { person, spec: `local:${target.dir}`, precious, untouched };
  }

  it('the PID file is replaced and not followed, by a bridge that starts and by one that runs', async () => {
    const { person, spec, precious, untouched } = await bridged();
    const pidFile = await person.file('.pid');
    const before = readFileSync(pidFile, 'utf8');
    await rm(pidFile);
    await symlink(precious, pidFile);
    await person.ok('status');
    untouched();
    expect(lstatSync(pidFile).isFile()).toBe(true);
    expect(readFileSync(pidFile, 'utf8')).toBe(before);
    await person.ok('down', spec);
    await symlink(precious, pidFile);
    await person.ok('up', spec);
    untouched();
    expect(lstatSync(pidFile).isFile()).toBe(true);
  });

  it('the log is neither written nor read through', async () => {
    const { person, spec, precious, untouched } = await bridged();
    const log = await person.file('.log');
    await writeFile(precious, '{"time":"2026-01-01T00:00:00Z","level":"info","message":"planted"}\n');
    const planted = readFileSync(precious, 'utf8');
    await rm(log);
    await symlink(precious, log);
    expect((await person.run(['log', spec])).stdout.toString()).not.toContain('planted');
    await person.ok('down', spec);
    expect(readFileSync(precious, 'utf8')).toBe(planted);
    const { status, stderr } = await person.run(['up', spec]);
    expect(stderr).toMatch(/can't keep state in /);
    expect(status).toBe(1);
    expect(readFileSync(precious, 'utf8')).toBe(planted);
    await rm(log);
    await writeFile(precious, 'precious');
    untouched();
  });

  it('the record of uses is not written through: the key is not used', async () => {
    const { person, spec, precious, untouched } = await bridged();
    const name = (await person.file('.pid')).replace(/pid$/, `${new Date().toISOString().slice(0, 7)}.uses`);
    await symlink(precious, name);
    const { status, stderr } = await person.run(['log', spec, '--uses']);
    expect(`${status} ${stderr}`).not.toContain('precious');
    const home = spec.slice('local:'.length);
    const signing = await person.home.gpg(['--clear-sign'], { input: 'x', env: { GNUPGHOME: home } });
    expect(signing.status).not.toBe(0);
    untouched();
    await rm(name);
    const again = await person.home.gpg(['--clear-sign'], { input: 'x', env: { GNUPGHOME: home } });
    expect(again.status).toBe(0);
  });

  it('the control socket is not followed', async () => {
    const { person, spec } = await bridged();
    const control = await person.file('.sock');
    const elsewhere = join(await tempDir(), 's');
    const { visitors } = await plantedSocket(elsewhere);
    await person.ok('down', spec);
    await symlink(elsewhere, control);
    expect(await person.ok('status')).toMatch(/^No bridge is up/);
    expect(await person.ok('down', '--all')).toBe('No bridge was up.\n');
    expect(visitors()).toBe(0);
    await rename(control, `${elsewhere}.old`);
  });
});
