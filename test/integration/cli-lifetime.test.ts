import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { run } from '@gpg-bridge/test-support/process';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Status {
  pid: number;
  endsAt: string | null;
  paused: { until: string | null } | null;
  options: { for?: string; until?: string; idle?: string };
}

async function personWithTarget(options: { agentConf?: string } = {}) {
  const person = await Person.create(options);
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  const up = (...words: string[]) => person.ok('up', name, ...words);
  const sign = () => target.gpg(['--clear-sign'], { input: 'text' });
  const status = async () => (await person.json<Status[]>('status'))[0]!;
  return { person, target, name, up, sign, status };
}

const secondsLeft = ({ endsAt }: Status) => (Date.parse(endsAt!) - Date.now()) / 1_000;

describe('a bridge for a time', () => {
  it('ends by itself, says until when, and gets its time anew when it is given again', async () => {
    const { person, up, status } = await personWithTarget();
    await up('--for', '90m');
    const first = await status();
    expect(first.options.for).toBe('1h30m');
    expect(first.endsAt).toBe(first.options.until);
    expect(secondsLeft(first)).toBeGreaterThan(5_300);
    expect(await person.ok('status')).toMatch(/^ {2}until +\S+Z, in 1 h (?:29|30) min$/m);
    // Said again it counts from then, and the bridge stays.
    await up('--for', '1h30m');
    const again = await status();
    expect(again.pid).toBe(first.pid);
    expect(again.endsAt! > first.endsAt!).toBe(true);
    // Another change leaves the time as it is.
    await up('--no-decrypt');
    expect((await status()).endsAt).toBe(again.endsAt);
    await up('--for', 'none');
    expect(await status()).toMatchObject({ endsAt: null, options: { for: 'none' } });
    await up('--for', '8s');
    await person.settled();
    expect(await person.json('status')).toEqual([]);
    expect(readFileSync(await person.file('.log'), 'utf8')).toMatch(/ending: the time that it was given/);
  });

  it('ends when no key was used for so long', async () => {
    const { person, up, sign, status } = await personWithTarget();
    await up('--idle', '30m');
    const before = await status();
    expect((await sign()).status).toBe(0);
    const after = await status();
    expect(after.endsAt! > before.endsAt!).toBe(true);
    expect(await person.ok('status')).toMatch(/; after 30m without a use of a key$/m);
    await up('--idle', '1s');
    await person.settled();
    expect(readFileSync(await person.file('.log'), 'utf8')).toMatch(/ending: no key was used/);
  });

  it.each(['--for', '--idle'])('takes nothing after %s that is no time', async (option) => {
    const { person, name } = await personWithTarget();
    for (const words of [
      ['up', name],
      ['serve', '--target', name],
    ]) {
      const failed = await person.run([...words, option, '5 minutes']);
      expect(failed.status).toBe(2);
      expect(failed.stderr).toMatch(/takes no '5 minutes': that is no time\. Say it in/);
    }
  });
});

describe('pause', () => {
  it('keeps every bridge from using keys, also one that is started meanwhile, until resume', async () => {
    const agent = await startSshAgent();
    const { person, target, name, up, sign, status } = await personWithTarget();
    const key = await agent.addKey('mine');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const sshSign = () =>
      run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], {
        env: { ...process.env, SSH_AUTH_SOCK: `${target.dir}/agent.sock` },
        input: 'text',
      });
    await up();
    expect((await sign()).status).toBe(0);
    expect(await person.ok('pause')).toMatch(/^Paused: over no bridge is anything signed/);
    expect((await sign()).stderr).toMatch(/signing failed: Not operational/);
    expect((await sshSign()).status).not.toBe(0);
    expect((await status()).paused).toEqual({ until: null });
    expect(await person.ok('status')).toMatch(
      /^ {2}paused +nothing is signed or decrypted until `gpg-bridge resume`$/m,
    );
    // A daemon that starts anew finds it, and `up` says so.
    await person.ok('down', name);
    expect(await up()).toMatch(/! bridges are paused until they are resumed: go on with `gpg-bridge resume`/);
    expect((await sign()).status).not.toBe(0);
    expect(await person.ok('resume')).toMatch(/^Resumed/);
    expect((await sign()).status).toBe(0);
    expect((await sshSign()).status).toBe(0);
    expect((await status()).paused).toBeNull();
    expect(await person.ok('resume')).toBe('Nothing was paused.\n');
    const log = readFileSync(await person.file('.log'), 'utf8');
    expect(log).toMatch(/paused: no key is used until they are resumed/);
    expect(log).toMatch(/"message":"resumed"/);
    const uses = await person.json<{ outcome: string }[]>('log', name, '--uses');
    expect(uses.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'ok']);
  });

  it('is an error where a bridge looks for it in another directory', async () => {
    const { person, name, sign } = await personWithTarget();
    const [runtime, one, two] = await Promise.all([tempDir(), tempDir(), tempDir()]);
    const place = { GPG_BRIDGE_STATE_DIR: undefined, XDG_RUNTIME_DIR: runtime };
    const inOne = { env: { ...place, XDG_STATE_HOME: one } };
    const inTwo = { env: { ...place, XDG_STATE_HOME: two } };
    onTestFinished(() => person.run(['down', '--all'], inOne).then(() => {}));
    expect(await person.run(['up', name], inOne)).toMatchObject({ status: 0 });
    const paused = await person.run(['pause'], inTwo);
    expect(paused).toMatchObject({ status: 1 });
    expect(paused.stdout.toString()).toBe('');
    expect(paused.stderr).toContain(`\`gpg-bridge down ${name}\``);
    expect((await sign()).status).toBe(0);
    expect(await person.run(['pause'], inOne)).toMatchObject({ status: 0 });
    expect((await sign()).status).not.toBe(0);
  });

  it('for a time ends by itself', async () => {
    const { person, up, sign, status } = await personWithTarget();
    await up();
    expect(await person.ok('pause', '--for', '1h')).toMatch(/decrypted until \S+Z\.$/m);
    expect(Date.parse((await status()).paused!.until!) - Date.now()).toBeGreaterThan(3_500_000);
    expect((await sign()).status).not.toBe(0);
    await person.ok('pause', '--for', '1s');
    await expect.poll(async () => (await sign()).status, { timeout: 20_000 }).toBe(0);
    expect((await person.run(['pause', '--for', 'long'])).status).toBe(2);
  });

  it('holds where its file can not be understood, or not be read', async () => {
    const { person, up, sign } = await personWithTarget();
    await up();
    writeFileSync(join(person.stateDir, 'paused'), 'nonsense');
    expect((await sign()).status).not.toBe(0);
    await person.ok('resume');
    expect((await sign()).status).toBe(0);
    // Nor read: a link is not followed.
    symlinkSync('/nowhere', join(person.stateDir, 'paused'));
    expect((await sign()).status).not.toBe(0);
    await person.ok('resume');
    expect((await sign()).status).toBe(0);
  });

  it('holds back what was asked before, and is answered during it', async () => {
    const pinentry = await ScriptedPinentry.create('secret');
    onTestFinished(() => pinentry.remove());
    const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
    await person.home.createKey('Ada Test <ada@example.org>', { passphrase: 'secret' });
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await person.ok('up', name);
    await pinentry.waits();
    const signing = target.gpg(['--clear-sign'], { input: 'text' });
    await pinentry.asked();
    await person.ok('pause');
    await pinentry.goOn();
    expect((await signing).stderr).toMatch(/Not operational/);
    const uses = await person.json<{ outcome: string }[]>('log', name, '--uses');
    expect(uses.map(({ outcome }) => outcome)).toEqual(['refused']);
  });
});
