import { once } from 'node:events';
import net from 'node:net';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { run } from '@gpg-bridge/test-support/process';
import { joinHomes } from '@gpg-bridge/test-support/proxied-homes';
import { requireRuntime, requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Status {
  sessions: { open: number; total: number };
}

const ANSWERS = /^OK Pleased to meet you[^\n]*\nD 2\.[^\n]*\nOK\nOK closing connection\n$/;
/** As many streams as a bridge has at once. */
const MAX_STREAMS = 4_096;
/** Clients at a time: what a listener's backlog holds is not what is tested. */
const AT_ONCE = 128;

/** A bridge to a home on this machine; returns where its clients connect. */
async function bridged(person: Person, ...flags: string[]): Promise<{ name: string; path: string }> {
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await person.ok('up', name, ...flags);
  return { name, path: join(target.dir, 'S.gpg-agent') };
}

/** Says everything at once, and nothing after it; returns what came back until the other side closed. */
async function tell(path: string, text: string): Promise<string> {
  const client = await TestClient.connect(path);
  client.socket.end(text, 'latin1');
  return client.readsAll();
}

/** Connects, sends and leaves, without waiting for anything. */
async function passBy(path: string): Promise<void> {
  const socket = net.connect(path);
  await once(socket, 'connect');
  socket.write('GETINFO version\n');
  socket.destroy();
}

const sessions = async (person: Person, name: string) =>
  (await person.json<Status[]>('status', name))[0]?.sessions;

describe.each(['perl', 'node', 'native'] as const)('over %s', (runtime) => {
  requireRuntime(runtime)('a bridge', () => {
    it('serves the next client after as many as it has streams sent something and left before the greeting', async () => {
      const person = await Person.create();
      const { name, path } = await bridged(person, `--runtime=${runtime}`);
      for (let sent = 0; sent < MAX_STREAMS; sent += AT_ONCE) {
        await Promise.all(Array.from({ length: AT_ONCE }, () => passBy(path)));
      }
      expect(await tell(path, 'GETINFO version\nBYE\n')).toMatch(ANSWERS);
      await expect.poll(() => sessions(person, name), PATIENT).toEqual({ open: 0, total: MAX_STREAMS + 1 });
    });

    it('answers a client that has ended its own side', async () => {
      const person = await Person.create({ key: false });
      const { path } = await bridged(person, `--runtime=${runtime}`);
      expect(await tell(path, 'GETINFO version\nBYE\n')).toMatch(ANSWERS);
      // Without a BYE it is the client's end that ends the session.
      expect(await tell(path, 'GETINFO version\n')).toMatch(/\nD 2\.[^\n]*\nOK\n$/);
    });

    it('says nothing behind the answer to BYE, whatever came with it', async () => {
      const person = await Person.create({ key: false });
      const { path } = await bridged(person, `--runtime=${runtime}`);
      const client = await TestClient.connect(path);
      await client.reads('OK ');
      client.write('GETINFO version\nBYE\nGETINFO version\nRESET\n');
      expect(await client.readsAll()).toMatch(ANSWERS);
    });
  });
});

requireSystem('socat')('socat', () => {
  it('gets its answers, as from gpg-agent itself', async () => {
    const person = await Person.create({ key: false });
    const { path } = await bridged(person);
    const { stdout } = await run('socat', ['-', `UNIX-CONNECT:${path}`], {
      input: 'GETINFO version\nBYE\n',
    });
    expect(stdout.toString()).toMatch(ANSWERS);
  });
});

describe('a line of an inquiry that is too long', () => {
  const CASES = [1_000, 1_001, 1_100];
  /** What a client is told behind the greeting, which differs from one connection to the next. */
  const answers = async (path: string, keygrip: string, size: number) => {
    const client = await TestClient.connect(path);
    client.write(`SETKEY ${keygrip}\nPKDECRYPT\n`);
    await client.reads('INQUIRE CIPHERTEXT\n');
    client.socket.end(`D ${'x'.repeat(size)}\nEND\nGETINFO version\nBYE\n`);
    return (await client.readsAll()).replace(/^OK [^\n]*\n/, '');
  };
  const keygripOf = (listing: string) => /^grp:+([0-9A-F]{40}):/m.exec(listing)?.[1] ?? '';

  it('ends the session: gpg-agent would take the rest of it for a command', async () => {
    const person = await Person.create();
    const keygrip = await person.home.addEncryptionKey(person.fingerprint);
    const { path } = await bridged(person);
    const agent = await person.home.socket('agent-extra-socket');
    for (const size of CASES) {
      const own = await answers(agent, keygrip, size);
      expect(own).toMatch(/ERR 67109127 .*\nD 2\..*\nOK closing connection\n$/s);
      expect(await answers(path, keygrip, size), `${size} bytes`).toMatch(
        /INQUIRE CIPHERTEXT\nERR 67109140 IPC syntax error [^\n]*\n$/,
      );
    }
  });

  it('does the same between the two proxies', async () => {
    const homes = await joinHomes();
    onTestFinished(() => homes.remove());
    await homes.host.createKey('Ada Test <ada@example.org>');
    const keygrip = keygripOf(await homes.host.gpgOk(['-K', '--with-keygrip', '--with-colons']));
    for (const size of CASES) {
      expect(await answers(homes.requestProxy.socketPath, keygrip, size), `${size} bytes`).toMatch(
        /INQUIRE CIPHERTEXT\nERR [^\n]*\n$/,
      );
    }
  });
});

describe('an error with two causes', () => {
  it('is one line, whatever the programs of the target printed', async () => {
    const person = await Person.create({ key: false });
    person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
    const programs = await tempDir();
    await writeScript(programs, 'gpgconf', 'echo "first line" >&2; echo "second line" >&2; exit 2');
    // No directory for the ssh socket can be made under a file.
    const enter = `env HOME=/dev/null PATH=${programs}:${process.env.PATH}`;
    const { status, stderr } = await person.run(['up', '--exec', enter]);
    expect(stderr).toMatch(/^gpg-bridge: [^\n]+: [^\n]+; [^\n]+\. [^\n]+\n$/);
    expect(stderr).not.toContain('\\n');
    expect(status).toBe(1);
  });
});
