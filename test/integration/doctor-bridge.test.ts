import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { Patient } from '@gpg-bridge/test-support/doctor';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { runOk, stopProcess } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

/** A person with a bridge to a local target. */
async function withBridge(agentConf = '', key = true) {
  const person = await Person.create({ agentConf, key });
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  return { person, target, name, patient: await Patient.create(person, [name]) };
}

describe('gpg-bridge doctor about a bridge', () => {
  it('a socket that another forward has taken', async () => {
    const { person, target, name, patient } = await withBridge();
    await person.ok('up', name);
    const relayTo = await person.home.socket('agent-extra-socket');
    const path = join(target.dir, 'S.gpg-agent');
    await SocketHolder.start(`${path}.other`, { relayTo });
    await rename(`${path}.other`, path);
    await patient.isCuredOf('target-socket', { status: 'warn', detail: /another forward/ });
    await SocketHolder.start(`${path}.other`, { relayTo });
    await rename(`${path}.other`, path);
    await patient.isCuredOf('line-bridge', { status: 'fail', detail: /./ });
  });

  it('a home that another bridge has taken', async () => {
    const { person, target, patient } = await withBridge();
    const dir = await tempDir();
    const enter = (name: string) =>
      writeScript(dir, name, `export GNUPGHOME=${target.dir} HOME=${dir}\nexec "$@"`);
    const [one, two] = [await enter('one'), await enter('two')];
    await person.ok('up', '--exec', one);
    await person.ok('up', '--exec', two, '--takeover');
    const found = { status: 'fail', detail: /the bridge to \S+\/two \(pid \d+\) listens there/ } as const;
    await patient.with().isCuredOf(`bridge:${one}`, found);
  });

  it('a daemon that does not answer, of which nothing else can be told', async () => {
    const { person, name, patient } = await withBridge();
    const { pid } = await person.json<{ pid: number }>('up', name);
    await stopProcess(pid);
    const { checks } = await patient.report();
    expect(checks.filter(({ id }) => id === 'line-bridge' || id === 'line-agents')).toEqual([
      {
        id: 'line-bridge',
        status: 'fail',
        detail: `its daemon (pid ${pid}) does not answer`,
        fix: `gpg-bridge down ${name} --force`,
      },
    ]);
    await person.ok('down', name, '--force');
  });

  it('a pause', async () => {
    const { person, name, patient } = await withBridge();
    await person.ok('up', name);
    await person.ok('pause');
    const signing = patient.with(name, '--sign');
    expect(await signing.check('sign')).toMatchObject({ status: 'fail', fix: 'gpg-bridge resume' });
    await signing.isCuredOf('line-bridge', { status: 'warn', detail: /it is paused: nothing is signed/ });
    expect(await signing.check('sign')).toMatchObject({ status: 'ok' });
  });

  it('a signing key that the bridge does not offer', async () => {
    const { person, name, patient } = await withBridge();
    const other = await person.home.createKey('Other <other@example.org>');
    await runOk('git', ['config', '--global', 'user.signingkey', other], { env: person.env });
    await person.ok('up', name, '--gpg-key', person.fingerprint);
    const signing = patient.with(name, '--sign');
    expect(await signing.check('sign')).toMatchObject({
      status: 'fail',
      fix: `gpg-bridge up ${name} --gpg-key all`,
    });
    await signing.isCuredOf('git-signing-key', { status: 'fail', detail: /offers other keys alone/ });
    expect(await signing.check('sign')).toMatchObject({
      status: 'ok',
      detail: expect.stringContaining(other.slice(-16)),
    });
  });

  it('nothing in a choice of GPG keys that was made before --no-gpg', async () => {
    const { person, name, patient } = await withBridge();
    person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
    const other = await person.home.createKey('Other <other@example.org>');
    await runOk('git', ['config', '--global', 'user.signingkey', other], { env: person.env });
    await person.ok('up', name, '--gpg-key', person.fingerprint);
    await person.ok('up', name, '--no-gpg');
    expect(await patient.check('git-signing-key')).toMatchObject({ status: 'ok' });
  });

  it('a signature that waits for a person, and one that they refused', async () => {
    const pinentry = await ScriptedPinentry.create('open');
    onTestFinished(() => pinentry.remove());
    const { person, target, name, patient } = await withBridge(pinentry.agentConf, false);
    await person.home.createKey('Ada <ada@example.org>', { passphrase: 'open' });
    await person.ok('up', name);
    await pinentry.cancels();
    const signing = patient.with(name, '--sign');
    const refused = await signing.check('sign');
    expect(refused).toMatchObject({ status: 'fail', detail: expect.stringMatching(/cancelled/) });
    expect(refused?.fix).toBe(`gpg-bridge doctor ${name} --sign`);
    await pinentry.waits();
    const signature = target.gpg(['--clear-sign'], { input: 'x' });
    await pinentry.asked();
    await expect
      .poll(async () => (await patient.check('line-waiting'))?.status, { timeout: 20_000 })
      .toBe('warn');
    await patient.isCuredOf('line-waiting', {
      status: 'warn',
      detail: /PKSIGN with key .* has waited for your PIN/,
    });
    expect((await signature).status).not.toBe(0);
  });
});
