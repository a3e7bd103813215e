import { existsSync } from 'node:fs';
import { utimes } from 'node:fs/promises';
import { Person, serverOf } from '@gpg-bridge/test-support/cli';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { runOk } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

const PASSPHRASE = 'correct-horse-battery';

interface Operation {
  time: string;
  target: string;
  operation: string;
  name?: string;
  outcome: string;
  error?: string;
}

describe('the log', () => {
  it('tells what became of a signature, in the order of time', async () => {
    const pinentry = await ScriptedPinentry.create(PASSPHRASE);
    onTestFinished(() => pinentry.remove());
    const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
    await person.home.createKey('Ada <ada@example.org>', { passphrase: PASSPHRASE });
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await person.ok('up', name);
    const sign = () => target.gpg(['--batch', '--clear-sign'], { input: 'hello\n' });

    await pinentry.timesOut();
    await sign();
    await pinentry.gives('wrong');
    await sign();
    await pinentry.cancels();
    await sign();
    await pinentry.gives(PASSPHRASE);
    expect((await sign()).status).toBe(0);

    const operations = await person.json<Operation[]>('log', name);
    expect(operations.map(({ outcome }) => outcome)).toEqual([
      'timeout',
      'wrong-passphrase',
      'cancelled',
      'ok',
    ]);
    expect(operations[0]?.error).toMatch(/^Timeout </);
    const lines = (await person.ok('log', name)).trimEnd().split('\n');
    expect(lines.filter((line) => line.includes('timeout (Timeout <'))).toHaveLength(1);
    const times = lines.map((line) => line.slice(0, 20));
    expect(times.toSorted()).toEqual(times);

    expect(await person.json('log', name, '-n', '2')).toEqual(operations.slice(-2));
    expect(await person.ok('log', name, '-n2')).toBe(`${lines.slice(-2).join('\n')}\n`);
    expect(await person.ok('log', name, '-n', '0')).toBe('');
    expect(await person.run(['log', name, '-n', 'x'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("--lines takes a number, not 'x'"),
    });
  });
});

describe('the log of all bridges', () => {
  it('tells who used which key for what, in order, from a time on', async () => {
    const person = await Person.create();
    await person.home.addEncryptionKey(person.fingerprint);
    const agent = await startSshAgent();
    const keyFile = await agent.addKey('ada@laptop');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const [one, two] = [await person.localHome(), await person.localHome()];
    for (const { dir } of [one, two]) await person.ok('up', `local:${dir}`);
    await one.gpgOk(['--clear-sign'], { input: 'hello' });
    const secret = await one.gpgOk(['--armor', '-r', 'ada@example.org', '--encrypt'], { input: 'hello' });
    await two.gpgOk(['--decrypt'], { input: secret });
    const env = { ...two.env, SSH_AUTH_SOCK: `${two.dir}/agent.sock` };
    await runOk('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${keyFile}.pub`], { env, input: 'hello' });
    const operations = await person.json<Operation[]>('log');
    const used = operations.map(({ target, operation, name, outcome }) => ({
      target,
      operation,
      name,
      outcome,
    }));
    const ada = 'Ada Test <ada@example.org>';
    expect(used).toEqual([
      { target: `local:${one.dir}`, operation: 'signature', name: ada, outcome: 'ok' },
      { target: `local:${two.dir}`, operation: 'decryption', name: ada, outcome: 'ok' },
      { target: `local:${two.dir}`, operation: 'ssh signature', name: 'ada@laptop', outcome: 'ok' },
    ]);
    const text = await person.ok('log', '-n', '6');
    expect(text).toMatch(
      new RegExp(`local:${two.dir}  decrypted with ${ada} ${person.fingerprint.slice(-16)}: ok after`),
    );
    expect(text).toMatch(/signed with ada@laptop SHA256:\S+: ok after/);

    expect(await person.json('log', '--since', '1h')).toEqual(operations);
    expect(await person.json('log', '--since', operations[1]!.time)).toEqual(operations.slice(1));
    expect(await person.json('log', '--since', '2999-01-01')).toEqual([]);
    expect((await person.run(['log', '--since', 'yesterday'])).status).toBe(2);

    const follower = person.start(['log', '-f', '-n0']);
    const three = await person.localHome();
    await person.ok('up', `local:${three.dir}`, '--no-ssh');
    await follower.printed(new RegExp(`local:${three.dir}  bridged`));
    await three.gpgOk(['--clear-sign'], { input: 'hello' });
    await follower.printed(new RegExp(`local:${three.dir}  signed with ${ada}`));
    expect(follower.stdout).not.toContain(one.dir);
  });

  it('keeps those of bridges that ended for a month', async () => {
    const person = await Person.create({ key: false });
    const [one, two] = [await person.localHome(), await person.localHome()];
    await person.ok('up', `local:${one.dir}`);
    const log = await person.file('.log');
    await person.ok('down', `local:${one.dir}`);
    expect(await person.ok('log')).toContain('the bridge is over');
    const days = (count: number) => new Date(Date.now() - count * 86_400_000);
    await utimes(log, days(29), days(29));
    await person.ok('up', `local:${two.dir}`);
    expect(existsSync(log)).toBe(true);
    await utimes(log, days(31), days(31));
    await person.ok('down', `local:${two.dir}`);
    await person.ok('up', `local:${two.dir}`);
    await expect.poll(() => existsSync(log), PATIENT).toBe(false);
  });
});

describe('what waits for a person', () => {
  it('is in status, as it changes with --watch, and in the log afterwards', async () => {
    const pinentry = await ScriptedPinentry.create(PASSPHRASE);
    onTestFinished(() => pinentry.remove());
    const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
    await person.home.createKey('Ada <ada@example.org>', { passphrase: PASSPHRASE });
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await person.ok('up', name);
    const watched = person.start(['status', '--watch']);
    await watched.printed(/ up for /);
    await pinentry.waits();
    const signing = target.gpg(['--batch', '--clear-sign'], { input: 'hello\n' });
    await pinentry.asked();
    await watched.printed(
      /waiting {3}for you, for \d+ s: signature with Ada <ada@example.org> [0-9A-F]{16} needs/,
    );
    await pinentry.goOn();
    expect((await signing).status).toBe(0);
    await watched.printed(/last {6}signed with Ada <ada@example.org>/);
    watched.child.kill('SIGINT');
    expect(await watched.exited).toBe(0);
    expect(await person.ok('log', name)).toMatch(/signed with .* ok after \d+\.\d s, a person was needed/);
  });
});

describe('what was wrong', () => {
  it('is told in the last words of ssh, and forgotten when it is over', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    // As ssh does it: the reason first, and then that it ends.
    const script = (body: string) => writeScript(dir, 'ssh', body);
    const works = `for command; do :; done\nGNUPGHOME=${target.dir} HOME=${dir} exec sh -c "$command"`;
    const fails =
      'echo "kex_exchange_identification: read: Connection reset by peer" >&2\n' +
      'echo "Connection reset by 10.0.0.1 port 22" >&2\nexit 255';
    person.env.PATH = `${dir}:${person.env.PATH}`;
    await script(works);
    const { pid } = await person.json<{ pid: number }>('up', 'ssh:box', '--restart', '--runtime=perl');
    await script(fails);
    const log = person.start(['log', 'ssh:box', '-f']);
    await log.printed(/bridged ssh:box/);
    const server = await serverOf(pid);
    process.kill(server, 'SIGKILL');
    await log.printed(
      /can't run a command in ssh:box: kex_exchange_identification: .*; Connection reset by 10\.0\.0\.1/,
    );
    const status = async () =>
      (await person.json<{ state: string; lastError: string; nextAttempt: string | null }[]>('status'))[0]!;
    let waiting = await status();
    // While an attempt is under way the next one is not planned; the pauses between them grow.
    while (waiting.nextAttempt === null) waiting = await status();
    expect(waiting.state).toBe('waiting-for-target');
    expect(waiting.lastError).toContain('kex_exchange_identification');
    expect(Date.parse(waiting.nextAttempt)).not.toBeNaN();
    expect((await person.run(['status', 'ssh:box'])).status).toBe(1);
    await script(works);
    await log.printed(/bridged ssh:box.*bridged ssh:box/s);
    expect(await person.json('status', 'ssh:box')).toMatchObject([
      { state: 'ready', lastError: null, nextAttempt: null, problems: [] },
    ]);
  });

  it('at the start is not told again later', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await runOk('gpgconf', ['--launch', 'gpg-agent'], { env: target.env });
    expect(await person.ok('up', name)).toContain("stopped the target's own gpg-agent");
    const again = await person.ok('up', name);
    expect(again).not.toContain('stopped');
    expect(again).toContain('there is no ssh-agent to bridge');
  });
});
