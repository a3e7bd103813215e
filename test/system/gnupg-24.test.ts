import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { joinHomes } from '@gpg-bridge/test-support/proxied-homes';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { expect, it, onTestFinished } from 'vitest';

// The stdio carrier meets GnuPG 2.4 in the other suites; this is the carrier of VS Code.
requireSystem('docker')('GnuPG 2.4 behind both proxies', () => {
  it('signs, decrypts and lists with the keys of a 2.2 agent', async () => {
    const homes = await joinHomes();
    onTestFinished(() => homes.remove());
    const key = await homes.host.createKey('Ada <ada@example.org>');
    await homes.host.addEncryptionKey(key);
    await homes.shareKeys();
    const docker = await sharedEngine('docker');
    // The socket is in the home that the container sees as its own.
    const container = await docker.startContainer({
      image: 'trixie',
      env: { GNUPGHOME: '/gnupg' },
      args: [`--volume=${homes.target.dir}:/gnupg`],
    });
    onTestFinished(() => container.remove());
    const inside = (script: string) => container.execOk(['sh', '-c', script]);
    expect(await inside('gpg --version')).toMatch(/^gpg \(GnuPG\) 2\.4\./);
    expect(await inside('echo hello | gpg --batch --sign | gpg --batch --status-fd 1 --verify')).toContain(
      `VALIDSIG ${key}`,
    );
    expect(
      await inside('echo secret | gpg --batch -r ada@example.org --encrypt | gpg --batch --decrypt'),
    ).toBe('secret\n');
    expect(await inside('gpg --batch --with-colons -K')).toContain(key);
  });
});
