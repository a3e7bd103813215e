import { FakeVsCode } from '@gpg-bridge/test-support/fake-vscode';
import { describe, expect, it } from 'vitest';
import { labelOf, remoteOf } from './remote-authority.ts';

const hex = (text: string) => Buffer.from(text).toString('hex');

describe('remoteOf', () => {
  it('is undefined in a local window, whatever its folders are', () => {
    const fake = new FakeVsCode();
    fake.workspace.workspaceFolders = [{ uri: { scheme: 'vscode-remote', authority: 'ssh-remote+a' } }];
    expect(remoteOf(fake.api)).toBeUndefined();
  });

  it('takes the authority of a workspace folder', () => {
    const fake = new FakeVsCode();
    fake.env.remoteName = 'ssh-remote';
    fake.workspace.workspaceFolders = [
      { uri: { scheme: 'file', authority: '' } },
      { uri: { scheme: 'vscode-remote', authority: 'ssh-remote+build1' } },
    ];
    expect(remoteOf(fake.api)).toEqual({ authority: 'ssh-remote+build1', label: 'SSH: build1' });
  });

  it('takes the kind of remote in an empty window', () => {
    const fake = new FakeVsCode();
    fake.env.remoteName = 'wsl';
    expect(remoteOf(fake.api)).toEqual({ authority: 'wsl', label: 'WSL' });
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
