import { chmod, mkdir, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, join, win32 } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ensureStateDirectory } from './make-state-dir.ts';
import {
  bridgeFiles,
  controlSockets,
  filesBeside,
  recordDirectory,
  stateDirectory,
  unusableState,
} from './state-dir.ts';

const modeOf = async (path: string) => (await stat(path)).mode & 0o777;

describe('the state directory', () => {
  it.each([
    [{ GPG_BRIDGE_STATE_DIR: '/a', XDG_RUNTIME_DIR: '/b', XDG_STATE_HOME: '/c', HOME: '/d' }, '/a'],
    [{ XDG_RUNTIME_DIR: '/b', XDG_STATE_HOME: '/c', HOME: '/d' }, '/b/gpg-bridge'],
    [{ XDG_STATE_HOME: '/c', HOME: '/d' }, '/c/gpg-bridge'],
    [{ HOME: '/d' }, '/d/.local/state/gpg-bridge'],
    [{ GPG_BRIDGE_STATE_DIR: '', XDG_RUNTIME_DIR: '', HOME: '' }, `${homedir()}/.local/state/gpg-bridge`],
    [{ GPG_BRIDGE_STATE_DIR: 'x' }, join(process.cwd(), 'x')],
  ])('with %j is %s', (env, expected) => {
    expect(stateDirectory(env)).toBe(expected);
  });

  it.each([
    [
      { LOCALAPPDATA: 'C:\\Users\\Zoë B\\AppData\\Local', XDG_RUNTIME_DIR: '/b', HOME: '/d' },
      'C:\\Users\\Zoë B\\AppData\\Local\\gpg-bridge',
    ],
    [{ HOME: '/d' }, win32.join(homedir(), 'AppData\\Local\\gpg-bridge')],
  ])('on Windows with %j is %s', (env, expected) => {
    expect(stateDirectory(env, 'win32')).toBe(expected);
    expect(recordDirectory(env, 'win32')).toBe(expected);
  });

  it('is not to be given a mode on Windows', () => {
    const cause = new Error('no');
    expect(unusableState('C:\\x', cause, 'win32').fix).not.toContain('0700');
    expect(unusableState('/x', cause, 'linux').fix).toContain('0700');
  });

  it('is made for its owner alone', async () => {
    const path = join(await tempDir(), 'a', 'b');
    ensureStateDirectory(path);
    expect(await modeOf(path)).toBe(0o700);
    ensureStateDirectory(path);
  });

  it('is tightened when only our own files are in it', async () => {
    const path = join(await tempDir(), 's');
    await mkdir(path);
    const { log, pid, control, lock } = bridgeFiles(path, 'k');
    const uses = log.replace(/log$/, '2026-05.uses');
    for (const file of [log, `${log}.1`, uses, pid, control, lock, `${lock}.x`, join(path, '.a1b2c3d4')])
      await writeFile(file, '');
    await chmod(path, 0o755);
    ensureStateDirectory(path);
    expect(await modeOf(path)).toBe(0o700);
  });

  it('is refused, and left as it is, when others have files in it', async () => {
    const path = join(await tempDir(), 's');
    await mkdir(path);
    await writeFile(join(path, 'letter.txt'), '');
    await chmod(path, 0o755);
    expect(() => ensureStateDirectory(path)).toThrow(/can't keep state in .*mode 755/);
    expect(await modeOf(path)).toBe(0o755);
  });

  it('is refused when it is no directory', async () => {
    const path = join(await tempDir(), 'file');
    await writeFile(path, '');
    expect(() => ensureStateDirectory(path)).toThrow(expect.objectContaining({ code: 'STATE_DIR_UNUSABLE' }));
  });
});

describe("a bridge's files", () => {
  it('have short names that tell targets apart and stay the same', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const name = basename(bridgeFiles('/s', a).pid);
        expect(name).toMatch(/^[0-9a-f]{32}\.pid$/);
        expect(name === basename(bridgeFiles('/s', b).pid)).toBe(a === b);
      }),
    );
    expect(bridgeFiles('/s', 'docker\n1\n').control).toBe('/s/f12e9fb986a294c69c756cacb3aa8e80.sock');
  });

  it('lie beside the PID file', () => {
    expect(filesBeside('/run/b.pid')).toEqual({
      pid: '/run/b.pid',
      control: '/run/b.sock',
      log: '/run/b.log',
      lock: '/run/b.lock',
    });
  });

  it('are refused where a socket would not fit', () => {
    expect(() => bridgeFiles(`/${'x'.repeat(90)}`, 'k')).toThrow(/too long for a socket.*shorter one/);
  });

  it('are found by their control sockets', async () => {
    const dir = await tempDir();
    const [one, two] = ['0123456789abcdef0123456789abcdef', 'fedcba9876543210'];
    const files = [`${one}.sock`, `${two}.sock`, `${one}.pid`, `${one}.log`, 'of-another-program.sock'];
    for (const name of files) await writeFile(join(dir, name), '');
    expect(controlSockets(dir).sort()).toEqual([join(dir, `${one}.sock`), join(dir, `${two}.sock`)]);
    expect(controlSockets(join(dir, 'none'))).toEqual([]);
  });
});
