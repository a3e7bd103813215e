import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { talk } from '@gpg-bridge/test-support/talk';
import { firstVersion, testedWith } from '@gpg-bridge/test-support/tested-with';
import { expect, it, onTestFinished } from 'vitest';

requireSystem('docker')('a host with the gpg-agent of GnuPG 2.4', () => {
  /** Somebody whose agent runs in a container that shares both homes, so that it can be of another version. */
  async function personWith24() {
    const pinentry = await ScriptedPinentry.create('what was typed');
    onTestFinished(() => pinentry.remove());
    const person = await Person.create({ agentConf: pinentry.agentConf });
    const { home } = person;
    const other = await home.createKey('Bob Test <bob@example.org>');
    await home.killAgent();
    const docker = await sharedEngine('docker');
    const target = await person.localHome();
    const shared = [home.dir, target.dir, pinentry.program].map((path) => {
      const directory = dirname(path);
      return `--volume=${directory}:${directory}`;
    });
    const container = await docker.startContainer({
      image: 'trixie',
      env: { GNUPGHOME: home.dir },
      args: shared,
    });
    onTestFinished(() => container.remove());
    await container.execOk(['gpg-agent', '--daemon']);
    await testedWith('gnupg-agent', async () =>
      firstVersion(await container.execOk(['gpg-agent', '--version'])),
    );
    const name = `local:${target.dir}`;
    const ask = async (text: string) =>
      (await talk(`${target.dir}/S.gpg-agent`, `${text}\nBYE\n`)).split('\n').slice(1, -2).join('\n');
    await person.ok('up', name);
    expect(await ask('GETINFO version')).toMatch(/^D 2\.4\./);
    return { person, other, name, ask, pinentry, container };
  }

  it('stays well whatever an inquiry is answered with, and whatever is asked', async () => {
    const { person, name } = await personWith24();
    const grip = await person.home.addEncryptionKey(person.fingerprint);
    const socket = `${name.slice('local:'.length)}/S.gpg-agent`;
    for (const data of ['D %', 'D a%4', 'END now']) {
      const said = await talk(socket, `SETKEY ${grip}\nPKDECRYPT\n${data}\nEND\nNOP\n`);
      expect(said).toMatch(/INQUIRE CIPHERTEXT\nERR 67109140 IPC syntax error [^\n]*\n$/);
    }
    const refused = [
      ...['INPUT FD=8', 'OUTPUT FD=8', 'output fd=8', 'KEYWRAP_KEY --export', 'SCD INPUT FD=8'],
      ...['SETHASH --inquire', `SETHASH 8 ${'00'.repeat(31)}`],
    ];
    const said = await talk(socket, `${refused.join('\n')}\nBYE\n`);
    expect(said.match(/^ERR 67109115 Forbidden <GPG Agent>$/gm)).toHaveLength(refused.length);
    expect((await person.home.gpg(['--clear-sign'], { input: 'text' })).status).toBe(0);
  });

  it('asks for no passphrase in the target’s words, unless --allow-passphrase is given', async () => {
    const { person, name, ask, pinentry } = await personWith24();
    const question = 'GET_PASSPHRASE --data X X Prompt Give+me+your+password';
    expect(await ask(question)).toBe('ERR 67109115 Forbidden <GPG Agent>');
    await person.ok('up', name, '--allow-passphrase');
    expect(await ask(question)).toBe('D what was typed\nOK');
    const uses = await person.json<{ command: string; outcome: string }[]>('log', name, '--uses');
    expect(uses).toMatchObject([{ command: 'GET_PASSPHRASE', outcome: 'ok' }]);
    for (const file of ['.log', '.uses']) {
      expect(readFileSync(await person.file(file), 'utf8')).not.toContain('what was typed');
    }
    await person.ok('up', name, '--confirm');
    await pinentry.confirms('cancel');
    expect(await ask(question)).toMatch(/^ERR 67108978 Not confirmed <GPG Agent> - /);
    expect(await pinentry.questions()).toEqual([
      expect.stringMatching(
        / wants to ask you for a passphrase in its own words, and will get what you type\.$/,
      ),
    ]);
    await person.ok('up', name, '--no-allow-passphrase');
    expect(await ask(question)).toBe('ERR 67109115 Forbidden <GPG Agent>');
  });

  it('decrypts what gpgsm encrypts for an elliptic curve', async () => {
    const { person, name, container } = await personWith24();
    const home = name.slice('local:'.length);
    const subkey = ['--quick-add-key', person.fingerprint, 'nistp256', 'encr', 'never'];
    await person.home.gpgOk(['--batch', '--passphrase', '', ...subkey]);
    const grips = await person.home.gpgOk(['--with-colons', '--with-keygrip', '-k', person.fingerprint]);
    const grip = [...grips.matchAll(/^grp:+([0-9A-F]{40}):/gm)].at(-1)![1]!;
    const parameters = `Key-Type: ECC\nKey-Grip: ${grip}\nName-DN: CN=Ada\nName-Email: ada@example.org\nSerial: 1\n`;
    const offline = ['gpgsm', '--batch', '--no-autostart', '--disable-dirmngr', '--disable-crl-checks'];
    const certificate = await container.execOk(['gpgsm', '--batch', '--armor', '--gen-key'], {
      input: parameters,
    });
    const gpgsm = (args: string[], input: string) =>
      container.execOk([...offline, ...args], { env: { GNUPGHOME: home }, input });
    await gpgsm(['--import'], certificate);
    const print = /^fpr:+([0-9A-F]{40}):/m.exec(await gpgsm(['--with-colons', '-k'], ''))![1]!;
    await writeFile(join(person.home.dir, 'trustlist.txt'), `${print} S relax\n`);
    await container.execOk(['gpg-connect-agent', 'RELOADAGENT', '/bye']);
    const sealed = await gpgsm(['--armor', '--encrypt', '-r', 'ada@example.org'], 'text');
    expect(await gpgsm(['--decrypt'], sealed)).toBe('text');
  });

  it('tells nothing about a key that was not chosen', async () => {
    const { person, other, name, ask } = await personWith24();
    const gripOf = async (key: string) => {
      const listing = await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', key]);
      return /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!;
    };
    const [mine, others] = [await gripOf(person.fingerprint), await gripOf(other)];
    const answers = () =>
      Promise.all(
        [`KEYINFO ${others}`, `HAVEKEY ${others}`, `HAVEKEY --info ${others}`].map(async (line) =>
          (await ask(line)).replace(/ - this target.*/, ''),
        ),
      );
    const unknown = [
      `KEYINFO ${'0'.repeat(40)}`,
      `HAVEKEY ${'0'.repeat(40)}`,
      `HAVEKEY --info ${'0'.repeat(40)}`,
    ];
    expect((await answers()).every((answer) => answer.endsWith('OK'))).toBe(true);
    await person.ok('up', name, '--gpg-key', person.fingerprint);
    // The same that the agent says about a key which it does not have.
    expect(await answers()).toEqual(await Promise.all(unknown.map((line) => ask24(line))));
    expect(await ask(`KEYINFO ${mine}`)).toMatch(new RegExp(`^S KEYINFO ${mine} D .*\nOK$`));
    expect(await ask(`HAVEKEY ${others} ${mine}`)).toBe('OK');

    async function ask24(line: string): Promise<string> {
      const socket = await person.home.socket('agent-extra-socket');
      return (await talk(socket, `${line}\nBYE\n`)).split('\n').slice(1, -2).join('\n');
    }
  });
});
