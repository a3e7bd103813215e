import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdir, readdir, rename, symlink, writeFile } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { runOk, stopProcess, untilEnded } from '@gpg-bridge/test-support/process';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import {
  agentPid,
  answerOk,
  endProcess,
  GREETING,
  gnupgHome,
  greetingAt,
  listen,
  modeOf,
} from '@gpg-bridge/test-support/target-listener';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, onTestFinished, test } from 'vitest';
import { identityOf, type SocketIdentity } from '../fs/socket-identity.ts';
import { killAgent } from '../gnupg/gpgconf.ts';

/** Holds a listening socket as systemd does, and runs gpg-agent on it whenever somebody connects. */
const SOCKET_ACTIVATION = `
use IO::Socket::UNIX; use Fcntl; use POSIX;
$SIG{PIPE} = 'IGNORE'; # as systemd does for its services
my $server = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $ARGV[0], Listen => 10) or die;
syswrite STDOUT, "listening";
while (1) {
  vec(my $ready = '', fileno $server, 1) = 1;
  select $ready, undef, undef, undef;
  my $pid = fork;
  if (!$pid) {
    POSIX::dup2(fileno $server, 3);
    fcntl IO::Handle->new_from_fd(3, 'r'), F_SETFD, 0;
    @ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, 1, 'std');
    open STDOUT, '>', '/dev/null'; open STDERR, '>', '/dev/null';
    exec 'gpg-agent', '--supervised';
  }
  waitpid $pid, 0;
}
`;

describe('an empty place', () => {
  test('gets the socket, 0600 in a 0700 directory, and nothing else', async () => {
    const path = join(await tempDir(), 'new', 'S.gpg-agent');
    await listen(path);
    expect(await greetingAt(path)).toBe(GREETING);
    expect(await modeOf(path)).toBe('600');
    expect(await modeOf(join(path, '..'))).toBe('700');
    expect(await readdir(join(path, '..'))).toEqual(['S.gpg-agent']);
  });

  test('is empty again after close, and closing twice is harmless', async () => {
    const dir = await tempDir();
    const listener = await listen(join(dir, 'S.gpg-agent'));
    await listener.close();
    await listener.close();
    expect(await readdir(dir)).toEqual([]);
  });

  test('takes names shorter than a temporary one', async () => {
    const dir = await tempDir();
    for (const name of ['s', 'ss', 'short', 'ninebytes', 'tenbytes10']) {
      await listen(join(dir, name));
      expect(await greetingAt(join(dir, name))).toBe(GREETING);
    }
    expect(await readdir(dir)).toHaveLength(5);
  });

  test('goes to one of two that start at once, and the other is told', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const started = await Promise.allSettled([listen(path), listen(path)]);
    const failures = started.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    expect(failures.map(({ code }) => code)).toEqual(['SOCKET_HELD_BY_FORWARD']);
    expect(await greetingAt(path)).toBe(GREETING);
  });
});

describe('the path', () => {
  test('may be as long as the system allows, in bytes, and no longer', async () => {
    const dir = await tempDir();
    const limit = process.platform === 'linux' ? 107 : 103;
    const longest = join(dir, 'ü'.repeat(40)).padEnd(limit - 40, 'x');
    expect(Buffer.byteLength(longest)).toBe(limit);
    await listen(longest);
    expect(await greetingAt(longest)).toBe(GREETING);
    await expect(listen(`${longest}x`)).rejects.toMatchObject({
      code: 'SOCKET_PATH_TOO_LONG',
      message: expect.stringContaining(`${limit + 1} bytes`),
    });
  });
});

describe('a dead socket file', () => {
  test('is replaced', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await (await SocketHolder.start(path, 'silent')).end('SIGKILL');
    expect((await lstat(path)).isSocket()).toBe(true);
    const book = new LogBook();
    await listen(path, { log: book.log });
    expect(await greetingAt(path)).toBe(GREETING);
    expect(book.text).toContain('replaced the dead socket');
  });

  test('is looked at again while it is young, for a program that is about to listen', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await (await SocketHolder.start(path, 'silent')).end('SIGKILL');
    const listening = listen(path);
    const late = createServer(answerOk);
    onTestFinished(() => void late.close());
    late.listen(`${path}2`);
    await once(late, 'listening');
    await rename(`${path}2`, path);
    await expect(listening).rejects.toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
  });
});

describe("the target's own gpg-agent", () => {
  test('is stopped, and said so', async () => {
    const home = await gnupgHome();
    await home.launchAgent();
    const pid = await agentPid(home);
    const path = await home.socket('agent-socket');
    const book = new LogBook();
    await listen(path, { log: book.log, stopOwnAgent: () => killAgent({ env: home.env }) });
    expect(await greetingAt(path)).toBe(GREETING);
    expect(book.text).toContain(`stopped the target's own gpg-agent (pid ${pid})`);
    // It has removed all of its sockets: it is gone, and did not take ours with it.
    expect((await readdir(home.dir)).filter((name) => name.startsWith('S.'))).toEqual(['S.gpg-agent']);
  });

  test('that systemd would start anew for whoever connects is replaced without a second look', async () => {
    const home = await gnupgHome();
    const path = await home.socket('agent-socket');
    const activator = spawn('perl', ['-e', SOCKET_ACTIVATION, path], {
      env: home.env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => endProcess(activator.pid!));
    await once(activator.stdout, 'data');
    const pid = await agentPid(home);
    onTestFinished(() => endProcess(pid));
    const book = new LogBook();
    await listen(path, { log: book.log, stopOwnAgent: () => killAgent({ env: home.env }) });
    expect(await greetingAt(path)).toBe(GREETING);
    expect(book.entries.map(({ message }) => message)).toEqual([
      `stopped the target's own gpg-agent (pid ${pid}), which listened on ${path}`,
    ]);
  });

  test('that can not be stopped is an error, and stays', async () => {
    const home = await gnupgHome();
    await home.launchAgent();
    const pid = await agentPid(home);
    const path = await home.socket('agent-socket');
    await expect(
      listen(path, { stopOwnAgent: () => Promise.reject(new Error('gpgconf is not there')) }),
    ).rejects.toMatchObject({
      code: 'OWN_AGENT_WONT_STOP',
      message: expect.stringContaining('gpgconf is not there'),
    });
    expect(await agentPid(home)).toBe(pid);
    expect((await readdir(home.dir)).filter((name) => name.startsWith('.gb'))).toEqual([]);
  });

  test('behind a relay is a forward: the agent elsewhere is not stopped', async () => {
    const home = await gnupgHome();
    await home.launchAgent();
    const pid = await agentPid(home);
    const path = join(await tempDir(), 'S.gpg-agent');
    await SocketHolder.start(path, { relayTo: await home.socket('agent-socket') });
    await expect(listen(path)).rejects.toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
    expect(await agentPid(home)).toBe(pid);
  });
});

describe('another forward', () => {
  test('of an extra socket is left alone, and named', async () => {
    const home = await gnupgHome();
    await home.launchAgent();
    const path = join(await tempDir(), 'S.gpg-agent');
    const holder = await SocketHolder.start(path, { relayTo: await home.socket('agent-extra-socket') });
    const before = await identityOf(path);
    const failure = await listen(path).catch((error) => error);
    expect(failure).toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
    expect(failure.message).toContain('signing may already work');
    expect(failure.message).toContain('--takeover');
    if (process.platform === 'linux') expect(failure.message).toContain(`pid ${holder.pid}`);
    expect(await identityOf(path)).toEqual(before);
  });

  test('in this very process is not named: to whoever asks it would be its own server', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await listen(path);
    const failure = await listen(path).catch((error) => error);
    expect(failure).toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
    expect(failure.message).toContain('another forward listens there, so');
  });

  test('is taken over when asked for, and its connections go on', async () => {
    const home = await gnupgHome();
    await home.launchAgent();
    const path = join(await tempDir(), 'S.gpg-agent');
    await SocketHolder.start(path, { relayTo: await home.socket('agent-extra-socket') });
    const client = createConnection(path);
    onTestFinished(() => void client.destroy());
    await once(client, 'data');
    const book = new LogBook();
    await listen(path, { takeover: true, log: book.log });
    expect(await greetingAt(path)).toBe(GREETING);
    expect(book.text).toContain('from another forward');
    client.write('GETINFO version\n');
    expect(String((await once(client, 'data'))[0])).toMatch(/^D \d/);
  });

  test('whose other end fails is still a forward', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await listen(path, {
      onConnection: (socket) => {
        socket
          .on('error', () => {})
          .on('data', () => socket.write('ERR 67108941 No agent running <GPG Agent>\n'));
        socket.write(`${GREETING}\n`);
      },
    });
    await expect(listen(path)).rejects.toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
  });

  test('that speaks something else is left alone too', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await SocketHolder.start(path, 'garbage');
    const failure = await listen(path).catch((error) => error);
    expect(failure).toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
    expect(failure.message).not.toContain('signing may already work');
  });
});

describe('a hung listener', () => {
  test('that accepts and says nothing is replaced', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await SocketHolder.start(path, 'silent');
    const book = new LogBook();
    await listen(path, { log: book.log, probeTimeoutMs: 100 });
    expect(await greetingAt(path)).toBe(GREETING);
    expect(book.text).toContain('does not answer');
  });

  test('that closes without a word is replaced', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    await SocketHolder.start(path, 'close');
    await listen(path);
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('that is a stopped gpg-agent is replaced, and its end does not cost us the place', async () => {
    const home = await gnupgHome();
    await home.launchAgent();
    const pid = await agentPid(home);
    const path = await home.socket('agent-socket');
    await stopProcess(pid);
    onTestFinished(() => endProcess(pid));
    await listen(path, { probeTimeoutMs: 300 });
    expect(await greetingAt(path)).toBe(GREETING);
    // As it ends, gpg-agent removes the file by name, which is ours by now.
    process.kill(pid, 'SIGTERM');
    process.kill(pid, 'SIGCONT');
    await untilEnded(pid);
    await expect.poll(() => greetingAt(path).catch(String), PATIENT).toBe(GREETING);
  });
});

describe("the host's own agent", () => {
  async function hostAgent() {
    const home = await gnupgHome();
    await home.launchAgent();
    const paths = { main: await home.socket('agent-socket'), extra: await home.socket('agent-extra-socket') };
    const hostSockets = (await Promise.all(Object.values(paths).map(identityOf))) as SocketIdentity[];
    return { home, hostSockets, pid: await agentPid(home), ...paths };
  }

  test('is refused at its own path, never asked, and lives on', async () => {
    const { home, hostSockets, pid, main } = await hostAgent();
    const stopOwnAgent = () => killAgent({ env: home.env });
    await expect(listen(main, { hostSockets, stopOwnAgent, takeover: true })).rejects.toMatchObject({
      code: 'SOCKET_IS_HOST_AGENT',
    });
    expect(await agentPid(home)).toBe(pid);
  });

  test('is recognised through a link, by its extra socket, and by its directory', async () => {
    const { hostSockets, home, pid, main, extra } = await hostAgent();
    const dir = await tempDir();
    await symlink(main, join(dir, 'S.gpg-agent'));
    await symlink(extra, join(dir, 'other'));
    await symlink(home.dir, join(dir, 'mounted'));
    for (const path of ['S.gpg-agent', 'other', 'mounted/S.gpg-agent', 'mounted/S.not-there']) {
      await expect(listen(join(dir, path), { hostSockets }), path).rejects.toMatchObject({
        code: 'SOCKET_IS_HOST_AGENT',
      });
    }
    expect(await agentPid(home)).toBe(pid);
  });
});

describe('a file that is no socket', () => {
  test.for([
    ['a regular file', (path: string) => writeFile(path, 'precious')],
    ['a directory', (path: string) => mkdir(path)],
    ['a symbolic link to nowhere', (path: string) => symlink('nowhere', path)],
    ['a symbolic link to /dev/null', (path: string) => symlink('/dev/null', path)],
  ] as const)('%s is never touched', async ([description, put]) => {
    const dir = await tempDir();
    const path = join(dir, 'S.gpg-agent');
    await put(path);
    await chmod(dir, 0o755);
    const before = await lstat(path, { bigint: true });
    await expect(listen(path, { takeover: true })).rejects.toMatchObject({
      code: 'SOCKET_PATH_FOREIGN_FILE',
      message: expect.stringContaining(description),
    });
    const after = await lstat(path, { bigint: true });
    expect([after.ino, after.mtimeNs, after.ctimeNs]).toEqual([before.ino, before.mtimeNs, before.ctimeNs]);
    expect(await readdir(dir)).toEqual(['S.gpg-agent']);
    expect(await modeOf(dir)).toBe('755');
  });

  test('a symbolic link to a live socket is somebody’s arrangement and stays', async () => {
    const dir = await tempDir();
    await SocketHolder.start(join(dir, 'real'), 'silent');
    await symlink('real', join(dir, 'S.gpg-agent'));
    await expect(listen(join(dir, 'S.gpg-agent'))).rejects.toMatchObject({
      code: 'SOCKET_PATH_FOREIGN_FILE',
    });
    expect((await lstat(join(dir, 'S.gpg-agent'))).isSymbolicLink()).toBe(true);
  });
});

describe('an ssh-agent socket', () => {
  const ssh = { type: 'ssh-agent' } as const;

  test('with a live agent behind it is left alone', async () => {
    const dir = await tempDir();
    const path = join(dir, 'agent.sock');
    const pid = /SSH_AGENT_PID=(\d+)/.exec(await runOk('ssh-agent', ['-s', '-a', path]))?.[1];
    onTestFinished(() => endProcess(Number(pid)));
    await expect(listen(path, ssh)).rejects.toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
    await listen(path, { ...ssh, takeover: true });
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test.for(['silent', 'close'] as const)('whose listener is %s is replaced', async (behaviour) => {
    const path = join(await tempDir(), 'agent.sock');
    await SocketHolder.start(path, behaviour);
    await listen(path, { ...ssh, probeTimeoutMs: 100 });
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('with something else behind it is left alone', async () => {
    const path = join(await tempDir(), 'agent.sock');
    await SocketHolder.start(path, 'garbage');
    await expect(listen(path, ssh)).rejects.toMatchObject({ code: 'SOCKET_HELD_BY_FORWARD' });
  });
});
