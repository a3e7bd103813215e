import { existsSync } from 'node:fs';
import { mkdir, realpath, rename, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { resolveTarget } from './resolve.ts';
import { bridgeKey } from './target.ts';

describe('resolveTarget', () => {
  it.each([
    ['ssh:me@server', {}, { kind: 'ssh', id: 'me@server', name: 'ssh:me@server', user: '' }],
    ['wsl:Debian', { user: 'dev' }, { kind: 'wsl', id: 'Debian', user: 'dev' }],
    [undefined, { exec: 'lxc exec box --' }, { kind: 'exec', name: 'lxc exec box --' }],
  ])('%s with %j', async (spec, options, expected) => {
    expect(await resolveTarget(spec, options)).toMatchObject(expected);
  });

  it.each([
    [undefined, {}, 'none is named'],
    ['', {}, 'none is named'],
    ['ftp:x', {}, "there is no kind 'ftp'"],
    ['constructor:x', {}, "there is no kind 'constructor'"],
    ['ssh:', {}, "'ssh:' names nothing"],
    ['ssh:-oProxyCommand=x', {}, 'names nothing'],
    ['-x', {}, 'names nothing'],
    ['k8s:a/b/c/d', {}, 'is not a pod'],
    ['k8s:a//c', {}, 'is not a pod'],
    ['k8s:a/--help', {}, 'is not a pod'],
    ['ssh:h', { user: 'u' }, '--user has no meaning for a ssh target'],
    ['local:/x', { user: 'u' }, '--user has no meaning'],
    ['box', { exec: 'x' }, '--exec stands in place of a target'],
  ])('refuses %j with %j', async (spec, options, why) => {
    await expect(resolveTarget(spec, options)).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining(why),
    });
  });

  it('knows a local directory by one name, and makes it only when it is used', async () => {
    const root = await realpath(await tempDir());
    await mkdir(join(root, 'real'));
    await symlink(join(root, 'real'), join(root, 'link'));
    const before = await resolveTarget(`local:${root}/link/a/b`);
    expect(before.id).toBe(join(root, 'real/a/b'));
    expect(existsSync(join(root, 'real/a'))).toBe(false);
    await before.check();
    expect(existsSync(join(root, 'real/a/b'))).toBe(true);
    const after = await resolveTarget(`local:${root}/real/../link/a/b/`);
    expect(bridgeKey(after)).toBe(bridgeKey(before));
  });

  it('follows a link that leads to nothing yet, and refuses one that appears later', async () => {
    const root = await realpath(await tempDir());
    await symlink('later', join(root, 'link'));
    const before = await resolveTarget(`local:${root}/link/home`);
    expect(before.id).toBe(join(root, 'later/home'));
    await before.check();
    expect(bridgeKey(await resolveTarget(`local:${root}/link/home`))).toBe(bridgeKey(before));

    await rename(join(root, 'later/home'), join(root, 'elsewhere'));
    await symlink(join(root, 'elsewhere'), join(root, 'later/home'));
    await expect(before.check()).rejects.toMatchObject({
      what: `local:${root}/later/home is not attached to again`,
      why: `a symbolic link leads to ${root}/elsewhere by now`,
    });
  });

  it('does not follow links in a circle', async () => {
    const root = await realpath(await tempDir());
    await symlink('b', join(root, 'a'));
    await symlink('a', join(root, 'b'));
    await expect((await resolveTarget(`local:${root}/a`)).check()).rejects.toMatchObject({ exitStatus: 3 });
  });

  it.each([
    ['lxc exec box --', {}, { TERM: 'dumb', SHLVL: '3' }, true],
    ['lxc exec box --', {}, { LXD_DIR: '/other' }, false],
    ['kubectl exec -i dev --', { KUBECONFIG: '/a' }, { KUBECONFIG: '/b' }, false],
    ['enter "$BOX"', { BOX: 'one' }, { BOX: 'one', OTHER: 'x' }, true],
    ['enter "$BOX"', { BOX: 'one' }, { BOX: 'two' }, false],
  ])('takes --exec %j in %j and %j for one: %s', async (exec, env, other, isOne) => {
    const [one, two] = [
      await resolveTarget(undefined, { exec, env }),
      await resolveTarget(undefined, { exec, env: other }),
    ];
    expect(bridgeKey(one) === bridgeKey(two)).toBe(isOne);
  });

  it('says why a local directory is of no use', async () => {
    const target = await resolveTarget('local:/dev/null/x');
    await expect(target.check()).rejects.toMatchObject({ code: 'TARGET_NOT_FOUND', exitStatus: 3 });
  });
});
