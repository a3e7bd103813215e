import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { Person, processesWith } from '@gpg-bridge/test-support/cli';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { run } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Use {
  command: string;
  outcome: string;
}

/** Somebody who wants to be asked, and the keys of whom have no passphrase: only the bridge asks. */
async function personWhoConfirms(agentConf?: string) {
  const pinentry = await ScriptedPinentry.create('');
  onTestFinished(() => pinentry.remove());
  const person = await Person.create({ agentConf: agentConf ?? pinentry.agentConf });
  await person.home.addEncryptionKey(person.fingerprint);
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  const uses = () => person.json<Use[]>('log', name, '--uses');
  const sign = () => target.gpg(['--clear-sign'], { input: 'text' });
  return { person, pinentry, target, name, uses, sign };
}

describe('--confirm', () => {
  it('asks before each use, and takes no for an answer', async () => {
    const { person, pinentry, name, uses, sign } = await personWhoConfirms();
    await person.ok('up', name, '--confirm');
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toEqual([
      expect.stringMatching(
        /^local:\S+ wants to sign with your GPG key\.%0AAda Test <ada@example\.org>%0A[0-9A-F]{40}$/,
      ),
    ]);
    await pinentry.confirms('cancel');
    const refused = await sign();
    expect(refused.stderr).toMatch(/signing failed: Not confirmed/);
    await pinentry.confirms('close');
    expect((await sign()).status).not.toBe(0);
    expect((await uses()).map(({ outcome }) => outcome)).toEqual(['ok', 'refused', 'refused']);
    expect(await pinentry.questions()).toHaveLength(2);
    const [status] = await person.json<{ options: { confirm: boolean } }[]>('status');
    expect(status!.options.confirm).toBe(true);
    await person.ok('up', name, '--no-confirm');
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toEqual([]);
  });

  it('allows a use for ten minutes, and no other', async () => {
    const { person, pinentry, target, name, sign } = await personWhoConfirms();
    const sealed = await person.home.gpgOk(
      ['--trust-model', 'always', '--armor', '-r', person.fingerprint, '--encrypt'],
      { input: 'secret' },
    );
    await person.ok('up', name, '--confirm');
    await pinentry.confirms('other');
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toHaveLength(1);
    await pinentry.confirms('cancel');
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toEqual([]);
    expect((await target.gpg(['--decrypt'], { input: sealed })).status).not.toBe(0);
    expect(await pinentry.questions()).toEqual([expect.stringMatching(/wants to decrypt/)]);
  });

  it('does not believe a third button that a pinentry does not have', async () => {
    const { person, pinentry, name, sign } = await personWhoConfirms();
    await pinentry.isOf('gnome3');
    await person.ok('up', name, '--confirm');
    await pinentry.confirms('other');
    expect((await sign()).status).not.toBe(0);
    await pinentry.confirms('ok');
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toHaveLength(2);
    // Who is asked again is offered ten minutes as a second question.
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toHaveLength(2);
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toEqual([]);
  });

  it('takes a question back with the bridge', async () => {
    const { person, pinentry, target, name, uses } = await personWhoConfirms();
    await person.ok('up', name, '--confirm');
    await pinentry.confirms('waits');
    const listing = await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-secret-keys']);
    const [, keygrip] = /^grp:+([0-9A-F]{40}):/m.exec(listing)!;
    const client = connect(`${target.dir}/S.gpg-agent`);
    client.write(`SIGKEY ${keygrip}\nSETHASH 8 ${'00'.repeat(32)}\nPKSIGN\n`);
    await pinentry.asked();
    const questions = async () =>
      (await processesWith(`GPG_BRIDGE_STATE_DIR=${person.stateDir}\0`)).filter(({ command }) =>
        command.includes(pinentry.program),
      );
    expect(await questions()).toHaveLength(1);
    await person.ok('down', name);
    await expect.poll(questions).toEqual([]);
    expect(await uses()).toMatchObject([{ command: 'PKSIGN', outcome: 'closed' }]);
  });

  it('says no where nobody can be asked', async () => {
    const { person, name, sign } = await personWhoConfirms('pinentry-program /nowhere/pinentry\n');
    await person.ok('up', name, '--confirm');
    expect((await sign()).stderr).toMatch(/Not confirmed/);
    expect(readFileSync(await person.file('.log'), 'utf8')).toMatch(
      /nobody could be asked about PKSIGN, so it was refused: .*ENOENT/,
    );
  });

  it('says no where the real pinentry has no terminal', async () => {
    const { person, name, sign } = await personWhoConfirms('pinentry-program /usr/bin/pinentry-curses\n');
    person.env = { ...person.env, DISPLAY: undefined, GPG_TTY: undefined };
    await person.ok('up', name, '--confirm');
    expect((await sign()).stderr).toMatch(/Not confirmed/);
  });

  it('asks about SSH keys, too', async () => {
    const { person, pinentry, target, name, uses } = await personWhoConfirms();
    const agent = await startSshAgent();
    const key = await agent.addKey('mine');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await person.ok('up', name, '--confirm');
    const sign = () =>
      run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], {
        env: { ...process.env, SSH_AUTH_SOCK: `${target.dir}/agent.sock` },
        input: 'text',
      });
    expect((await sign()).status).toBe(0);
    expect(await pinentry.questions()).toEqual([
      expect.stringMatching(/wants to sign data with your SSH key\.%0Amine%0ASHA256:/),
    ]);
    expect(await person.ok('log', name, '--uses')).toMatch(/ {2}signed with SHA256:/);
    await pinentry.confirms('cancel');
    expect((await sign()).status).not.toBe(0);
    expect((await uses()).map(({ command, outcome }) => `${command} ${outcome}`)).toEqual([
      'sign ok',
      'sign refused',
    ]);
  });
});

requireSystem('tmux')('a real pinentry', () => {
  it('shows the question of --confirm in the terminal that GPG_TTY names', async () => {
    const { person, name, sign } = await personWhoConfirms('pinentry-program /usr/bin/pinentry-curses\n');
    const terminal = await Terminal.start('tty; sleep 600', person.env);
    const tty = /\/dev\/\S+/.exec(await terminal.shows(/\/dev\/pts\/\d+/))![0];
    person.env = { ...person.env, GPG_TTY: tty, TERM: 'xterm', DISPLAY: undefined };
    await person.ok('up', name, '--confirm');
    const first = sign();
    const screen = await terminal.shows(/Allow for ten minutes/);
    expect(screen).toMatch(/wants to sign with your GPG key/);
    expect(screen).toMatch(/Ada Test <ada@example\.org>/);
    expect(screen).toMatch(/<Allow once>/);
    await terminal.press('Tab', 'Tab', 'Enter');
    expect((await first).stderr).toMatch(/Not confirmed/);
    const second = sign();
    await terminal.shows(/Allow for ten minutes/);
    await terminal.press('Tab', 'Enter');
    expect((await second).status).toBe(0);
    const [status] = await person.json<{ lastOperation: Use }[]>('status');
    expect(status!.lastOperation).toMatchObject({ command: 'PKSIGN', outcome: 'ok' });
    expect((await sign()).status).toBe(0);
  });
});
