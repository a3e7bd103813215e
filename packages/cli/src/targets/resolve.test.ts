import { existsSync } from 'node:fs';
import { mkdir, realpath, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { resolveTarget } from './resolve.ts';
import { bridgeKey } from './target.ts';

describe('resolveTarget', () => {
  it.each([
    ['ssh:me@server', {}, { kind: 'ssh', id: 'me@server', name: 'ssh:me@server', user: '' }],
    ['k8s:pod-0', {}, { kind: 'k8s', id: 'pod-0', shell: 'kubectl exec -it pod-0 -- sh' }],
    ['k8s:team/pod-0/app', {}, { shell: 'kubectl exec -it -n team pod-0 -c app -- sh' }],
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

  it('says why a local directory is of no use', async () => {
    const target = await resolveTarget('local:/dev/null/x');
    await expect(target.check()).rejects.toMatchObject({ code: 'TARGET_NOT_FOUND', exitStatus: 3 });
  });
});
