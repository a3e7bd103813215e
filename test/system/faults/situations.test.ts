import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { expect, it, onTestFinished } from 'vitest';

/** More than the file system holds. */
const FILLING = Buffer.alloc(400_000);

/** A person whose state directory is a file system of its own. */
async function personWithSmallDisk(): Promise<Person> {
  const person = await Person.create();
  await mkdir(person.stateDir, { mode: 0o700 });
  await runOk('mount', ['-t', 'tmpfs', '-o', 'size=128k,mode=700', 'tmpfs', person.stateDir]);
  // Called before the person leaves, whose last command then finds no bridge.
  onTestFinished(async () => {
    await person.run(['down', '--all']);
    await runOk('umount', ['--recursive', '--lazy', person.stateDir]);
  });
  return person;
}

requireSystem('mount')('when', () => {
  it('the state directory is read-only', async () => {
    const person = await personWithSmallDisk();
    const [first, second] = [await person.localHome(), await person.localHome()];
    await person.ok('up', `local:${first.dir}`);
    // Its log is open, so it can't be made read-only itself: a view of it that is lies over it.
    await runOk('mount', ['--bind', person.stateDir, person.stateDir]);
    await runOk('mount', ['-o', 'remount,bind,ro', person.stateDir]);
    const { status, stderr } = await person.run(['up', `local:${second.dir}`]);
    expect(stderr).toMatch(
      /^gpg-bridge: can't keep state in [^\n]*read-only[^\n]*GPG_BRIDGE_STATE_DIR|writable/,
    );
    expect(status).toBe(1);
    // What can't be recorded is not carried out, and everything else goes on.
    expect((await first.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' })).stderr).toMatch(
      /Limit reached/,
    );
    await runOk('umount', [person.stateDir]);
    await first.gpgOk(['--no-autostart', '--clear-sign'], { input: 'hello' });
    await person.ok('up', `local:${second.dir}`);
  });

  it('the disk of the state directory is full', async () => {
    const person = await personWithSmallDisk();
    const [first, second] = [await person.localHome(), await person.localHome()];
    await person.ok('up', `local:${first.dir}`);
    const filling = join(person.stateDir, 'filling');
    await writeFile(filling, FILLING).catch(() => {});
    const before = (await readdir(person.stateDir)).filter((name) => !name.endsWith('.log'));
    const { status, stderr } = await person.run(['up', `local:${second.dir}`]);
    expect(stderr).toMatch(/^gpg-bridge: can't keep state in [^\n]*the disk is full[^\n]*\n$/);
    expect(status).toBe(1);
    expect((await readdir(person.stateDir)).filter((name) => !name.endsWith('.log'))).toEqual(before);
    expect((await first.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' })).stderr).toMatch(
      /Limit reached/,
    );
    await rm(filling);
    await first.gpgOk(['--no-autostart', '--clear-sign'], { input: 'hello' });
    await person.ok('up', `local:${second.dir}`);
    await second.gpgOk(['--no-autostart', '--clear-sign'], { input: 'hello' });
  });
});
