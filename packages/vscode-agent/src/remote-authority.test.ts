import { FakeVsCode } from '@gpg-bridge/test-support/fake-vscode';
import { describe, expect, it } from 'vitest';
import { labelOf, WindowRemote } from './remote-authority.ts';

const hex = (text: string) => Buffer.from(text).toString('hex');

describe('WindowRemote', () => {
  function setUp(remoteName: string | undefined, authorities: string[], extensionKind = 1) {
    const fake = new FakeVsCode();
    fake.env.remoteName = remoteName;
    fake.changeFolders(...authorities);
    return { fake, window: new WindowRemote(fake.api, extensionKind) };
  }

  it('is undefined in a local window, whatever its folders are', () => {
    expect(setUp(undefined, ['ssh-remote+a']).window.current()).toBeUndefined();
  });

  it('is certain when all folders have one authority of the window’s own kind', () => {
    const { window } = setUp('ssh-remote', ['ssh-remote+build1', 'ssh-remote+build1']);
    expect(window.current()).toEqual({
      authority: 'ssh-remote+build1',
      label: 'SSH: build1',
      certain: true,
    });
  });

  it.each([
    ['no folder', 'ssh-remote', [], 'ssh-remote'],
    ['several authorities', 'ssh-remote', ['ssh-remote+build1', 'ssh-remote+build2'], 'ssh-remote'],
    ['an authority of another kind', 'ssh-remote', ['wsl+Ubuntu'], 'ssh-remote'],
    ['an authority without a name', 'wsl', ['wsl'], 'wsl'],
  ])('is not certain with %s', (_what, remoteName, authorities, authority) => {
    expect(setUp(remoteName, authorities).window.current()).toMatchObject({ authority, certain: false });
  });

  it('is not certain any more once the folders have changed, even if they change back', () => {
    const { fake, window } = setUp('ssh-remote', ['ssh-remote+mine']);
    fake.changeFolders('ssh-remote+mine', 'ssh-remote+mine');
    expect(window.current()?.certain).toBe(true);
    fake.changeFolders('ssh-remote+other');
    expect(window.current()).toEqual({ authority: 'ssh-remote', label: 'SSH', certain: false });
    fake.changeFolders('ssh-remote+mine');
    expect(window.current()?.certain).toBe(false);
  });

  it('takes a folder of another scheme for none of the remote’s, unless it runs in the remote itself', () => {
    const { fake, window } = setUp('box.example:8080', []);
    fake.workspace.workspaceFolders = [{ uri: { scheme: 'file', authority: '' } }];
    expect(window.current()?.certain).toBe(false);
    expect(new WindowRemote(fake.api, 1).current()?.certain).toBe(false);
    expect(new WindowRemote(fake.api, 2).current()).toMatchObject({
      authority: 'box.example:8080',
      certain: true,
    });
  });
});

describe('labelOf', () => {
  it.each([
    ['ssh-remote+me@build1', 'SSH: me@build1'],
    [`ssh-remote+${hex('{"hostName":"build2"}')}`, 'SSH: build2'],
    [`dev-container+${hex('/home/me/project')}`, 'Dev Container: /home/me/project'],
    [`dev-container+${hex('{"hostPath":"/home/me/app"}')}@ssh-remote+box`, 'Dev Container: /home/me/app'],
    [`attached-container+${hex('{"containerName":"/web"}')}`, 'Container: web'],
    [`attached-container+${hex('{broken')}`, `Container: ${hex('{broken')}`],
    ['wsl+Ubuntu', 'WSL: Ubuntu'],
    ['localhost:8080', 'localhost:8080'],
    ['new-kind+thing', 'new-kind: thing'],
  ])('calls %s %s', (authority, label) => {
    expect(labelOf(authority)).toBe(label);
  });

  it('has one line, without characters that would turn its direction round', () => {
    expect(labelOf('ssh-remote+a\n\nb\u202Ec')).toBe('SSH: a b c');
    expect(labelOf(`ssh-remote+${'x'.repeat(500)}`)).toHaveLength(80);
  });
});
