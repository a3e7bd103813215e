import { personWithContainer, processesInside, signInside } from '@gpg-bridge/test-support/bridged';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import type { ImageName } from '@gpg-bridge/test-support/engine/images';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { beforeAll, expect, it } from 'vitest';

const GPG_CONF = '# mine\nno-greeting\nkeyid-format long\n';
const AGENT_CONF = '# mine too\ndefault-cache-ttl 77\nmax-cache-ttl 99\n';

/** The container's commands, as one of its users. */
type Inside = (script: string) => Promise<string>;

/** Fills the user's home as somebody who has used GnuPG there for years. */
async function livedIn(inside: Inside): Promise<void> {
  const script = `set -e
umask 077
mkdir -p ~/.gnupg
printf '${GPG_CONF.replaceAll('\n', '\\n')}' > ~/.gnupg/gpg.conf
printf '${AGENT_CONF.replaceAll('\n', '\\n')}' > ~/.gnupg/gpg-agent.conf
for name in own friend; do
  gpg --batch --passphrase '' --quick-gen-key "$name <$name@example.net>" ed25519 sign never
done
fpr=$(gpg --batch --with-colons --list-keys friend@example.net | sed -n 's/^fpr:*\\([0-9A-F]*\\):/\\1/p')
echo "$fpr:4:" | gpg --batch --import-ownertrust
echo 'not a key' > ~/.gnupg/private-keys-v1.d/note.txt
gpgconf --kill all`;
  await inside(script);
}

/** Everything in the home that no bridge may change: name, mode, digest of each file. */
function untouchables(inside: Inside): Promise<string> {
  return inside(
    'cd ~/.gnupg && find . -type f ! -name "pubring.kbx*" ! -name trustdb.gpg ! -name random_seed ! -name "*.lock" | sort | while read f; do stat -c "%n %a %U %Y" "$f"; sha256sum "$f"; done',
  );
}

const lines = (text: string) => new Set(text.split('\n').filter((line) => line && !line.startsWith('#')));

async function keysAndTrust(inside: Inside): Promise<{ keys: Set<string>; trust: Set<string> }> {
  const keys = await inside('gpg --batch --with-colons --fingerprint --list-keys');
  return {
    keys: lines(keys.replaceAll(/^(?!fpr|uid).*\n/gm, '').replaceAll(/^(uid):[^:]*:/gm, '$1:')),
    trust: lines(await inside('gpg --batch --export-ownertrust')),
  };
}

/** Leaves a socket file that nobody listens on: that of an agent that was killed. */
const staleSocket = (path: string) =>
  `(set -e
GNUPGHOME=$(mktemp -d); export GNUPGHOME
pid=$(gpg-connect-agent 'GETINFO pid' /bye 2>/dev/null | sed -n 's/^D //p')
kill -9 $pid
mv $(gpgconf --list-dirs agent-socket) ${path}
rm -r $GNUPGHOME)`;

requireSystem('docker')("the user's files in a container", () => {
  let docker: ContainerEngine;

  beforeAll(async () => {
    docker = await sharedEngine('docker');
  }, SETUP_MS);

  it.each<[string, ImageName, string]>([
    ['2.2', 'git', 'root'],
    ['2.2', 'node', 'dev'],
    ['2.2', 'none', 'dev'],
    ['2.4', 'trixie', 'dev'],
  ])('are all still there, with GnuPG %s in the image %s for %s', async (version, image, user) => {
    const { person, container, name } = await personWithContainer(docker, { image });
    const inside: Inside = (script) => container.execOk(['bash', '-c', script], { user });
    expect(await inside('gpg --version')).toContain(`gpg (GnuPG) ${version}.`);
    await livedIn(inside);
    const before = await untouchables(inside);
    const had = await keysAndTrust(inside);
    const socket = (await inside('gpgconf --list-dirs agent-socket')).trim();
    // Its agent runs, and an ssh-agent that ran here once has left its socket.
    await inside(
      `umask 077; mkdir -p ~/.ssh; gpgconf --launch gpg-agent; ${staleSocket('~/.ssh/agent.sock')}`,
    );
    expect(await processesInside(container, 'gpg-agent*')).toHaveLength(1);

    const agent = await startSshAgent();
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const said = await person.ok('up', name, `--user=${user}`);
    expect(said).toMatch(/! .*private keys/);
    expect(said).toContain('agent.sock');
    expect(await processesInside(container, 'gpg-agent*')).toEqual([]);
    expect(await signInside(container, person.fingerprint, { user })).toMatch(/GOODSIG.*TRUST_ULTIMATE/s);
    expect(await untouchables(inside)).toBe(before);

    await person.ok('down', name, `--user=${user}`);
    await inside(`! test -e ${socket} && test -d ~/.ssh && ! test -e ~/.ssh/agent.sock`);
    expect(await untouchables(inside)).toBe(before);
    const has = await keysAndTrust(inside);
    for (const kind of ['keys', 'trust'] as const)
      expect([...has[kind]]).toEqual(expect.arrayContaining([...had[kind]]));
    expect([...has.keys].join('\n')).toContain(person.fingerprint);
    expect(has.trust).toContain(`${person.fingerprint}:6:`);
    expect(has.trust.size).toBe(had.trust.size + 1);

    // They sign again, by an agent that gpg starts for itself.
    for (const own of ['own', 'friend'])
      expect(await signInside(container, `${own}@example.net`, { user })).toContain('GOODSIG');
    expect(await untouchables(inside)).toBe(before);
  });

  it('are not in the way when they are stale sockets', async () => {
    const { person, container, name } = await personWithContainer(docker, { image: 'plain' });
    await container.execOk(['sh', '-c', `umask 077; mkdir ~/.gnupg; ${staleSocket('~/.gnupg/S.gpg-agent')}`]);
    await person.ok('up', name);
    expect(await signInside(container)).toContain('GOODSIG');
  });

  it('are left alone when something that is no socket is in the place of one', async () => {
    const { person, container, name } = await personWithContainer(docker, { image: 'plain' });
    await container.execOk(['sh', '-c', 'umask 077; mkdir ~/.gnupg && echo letter > ~/.gnupg/S.gpg-agent']);
    const done = await person.run(['up', name]);
    expect(done.status).toBe(1);
    expect(done.stderr).toMatch(/^gpg-bridge: .*S\.gpg-agent.*\n$/);
    expect(await container.execOk(['sh', '-c', 'cat ~/.gnupg/S.gpg-agent'])).toBe('letter\n');
  });

  it('may be read-only, and the reason is given', async () => {
    const { person, container, name } = await personWithContainer(docker, {
      image: 'plain',
      args: ['--read-only', '--tmpfs=/tmp'],
    });
    const done = await person.run(['up', name]);
    expect(done.stderr).toMatch(/^gpg-bridge: [^\n]*[Rr]ead-only[^\n]*\n$/);
    expect(done.status).toBe(1);
    expect(await container.execOk(['echo', 'alive'])).toBe('alive\n');
  });

  it('keep a keyring that is shared with the target from being looped', async () => {
    // A mounted ~/.gnupg: the path in the container leads to the host's own agent.
    const { person } = await personWithContainer(docker, { image: 'plain' });
    await person.home.launchAgent();
    const mounted = await docker.startContainer({
      image: 'plain',
      args: [`--volume=${person.home.dir}:/root/.gnupg`],
    });
    try {
      const done = await person.run(['up', mounted.name, '--gpg', '--no-ssh']);
      expect(done.status).toBe(1);
      expect(done.stderr).toMatch(/^gpg-bridge: [^\n]*host[^\n]*\n$/);
      await person.home.gpgOk(['--clear-sign'], { input: 'the agent is alive' });
    } finally {
      await mounted.remove();
    }
  });
});
