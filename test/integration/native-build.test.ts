import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = 'packages/socket-server/src/native';
const PROGRAMS = ['native-aarch64', 'native-x86_64'];

function build(root: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
  return run(process.execPath, [join(root, 'scripts/build-native.mjs'), ...args], { env });
}

describe('the native server', () => {
  it('has 900 lines at most', () => {
    const texts = readdirSync(join(ROOT, SOURCES)).map((name) =>
      readFileSync(join(ROOT, SOURCES, name), 'utf8'),
    );
    expect(texts.reduce((lines, text) => lines + text.split('\n').length - 1, 0)).toBeLessThanOrEqual(900);
  });

  it('is left out where there is no compiler, and that is said', async () => {
    const out = await tempDir();
    const { status, stderr } = await build(ROOT, ['--out', out], { PATH: '/nonexistent' });
    expect(status).toBe(0);
    expect(stderr).toMatch(/the native server for x86_64 is left out: the compiler .* is missing/);
    expect(stderr).toMatch(/the native server for aarch64 is left out/);
    expect(readdirSync(out)).toEqual([]);
  });
});

requireSystem('native', 'emulated')('the native server that was built', () => {
  it('is the same bytes wherever and whenever it is built, and the check says when it is not', async () => {
    const [out, elsewhere] = [await tempDir(), await tempDir()];
    for (const path of ['scripts/build-native.mjs', SOURCES]) {
      cpSync(join(ROOT, path), join(elsewhere, path), { recursive: true });
    }
    await utimes(join(elsewhere, SOURCES, 'server.c'), 1, 1);
    expect((await build(elsewhere, ['--out', out])).status).toBe(0);
    expect(readdirSync(out).sort()).toEqual(PROGRAMS);
    const same = await build(ROOT, ['--check', out]);
    expect(same).toMatchObject({ status: 0, stderr: '' });
    expect(same.stdout.toString()).toMatch(/^native-x86_64: [0-9a-f]{64}\nnative-aarch64: [0-9a-f]{64}\n$/);

    const other = join(elsewhere, 'other');
    cpSync(out, other, { recursive: true });
    cpSync(join(out, 'native-x86_64'), join(other, 'native-aarch64'));
    const different = await build(ROOT, ['--check', other]);
    expect(different.status).toBe(1);
    expect(different.stdout.toString()).toMatch(
      /native-aarch64: is [0-9a-f]{64}, and should be [0-9a-f]{64}/,
    );
  });
});
