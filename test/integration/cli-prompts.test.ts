import net from 'node:net';
import { Person } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { describe, expect, it, onTestFinished } from 'vitest';

const PASSPHRASE = 'correct-horse-battery';

/** Somebody whose key has a passphrase, with a bridge, and clients in its target that want a signature. */
async function personWhoIsAsked(...options: string[]) {
  const pinentry = await ScriptedPinentry.create(PASSPHRASE);
  onTestFinished(() => pinentry.remove());
  const person = await Person.create({ agentConf: pinentry.agentConf });
  const locked = await person.home.createKey('Locked <locked@example.org>', { passphrase: PASSPHRASE });
  const listing = await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', locked]);
  const [, keygrip] = /^grp:+([0-9A-F]{40}):/m.exec(listing)!;
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await person.ok('up', name, ...options);
  const commands = `SIGKEY ${keygrip}\nSETHASH 8 ${'00'.repeat(32)}\nHELP\nPKSIGN\n`;
  const path = `${target.dir}/S.gpg-agent`;
  /** A client that has asked for a signature. */
  const signing = async (): Promise<TestClient> => {
    const client = await TestClient.connect(path);
    await client.reads('OK');
    // Only the agent answers HELP; what is behind it is decided about in the same moment.
    client.write(commands);
    await client.reads('# RESET');
    return client;
  };
  /** A client that asks for a signature and leaves; as it has read nothing, the other end sees that at once. */
  const leaving = async (isSeen: () => Promise<unknown>, behind = ''): Promise<void> => {
    const socket = net.connect(path).pause();
    socket.on('error', () => {}).write(commands);
    await isSeen();
    if (behind) await new Promise((written) => socket.write(behind, written));
    socket.destroy();
  };
  const uses = async () =>
    (await person.json<{ outcome: string }[]>('log', name, '--uses')).map(({ outcome }) => outcome);
  return { person, name, pinentry, signing, leaving, uses };
}

describe('a target whose clients leave while a person is asked', () => {
  it('has two prompts at most behind it, and the next one waits until they are gone', async () => {
    const { pinentry, signing, leaving, uses } = await personWhoIsAsked();
    await pinentry.waits();
    await leaving(() => pinentry.asked());
    await expect.poll(uses, PATIENT).toEqual(['closed']);
    await leaving(() => expect.poll(uses, PATIENT).toEqual(['closed', 'begun']));
    await expect.poll(uses, PATIENT).toEqual(['closed', 'closed']);
    const others = await Promise.all(Array.from({ length: 5 }, () => signing()));
    expect(await uses()).toEqual(['closed', 'closed']);
    await pinentry.gives(PASSPHRASE);
    await pinentry.goOn();
    for (const client of others) expect(await client.reads('\nD (7:sig-val')).not.toMatch(/ERR/);
  });

  it('is not asked about by --confirm again and again', async () => {
    const { pinentry, signing, leaving, uses } = await personWhoIsAsked('--confirm');
    await pinentry.confirms('waits');
    for (const so of [['closed'], ['closed', 'closed']]) {
      await leaving(() => pinentry.asked());
      await expect.poll(uses, PATIENT).toEqual(so);
    }
    await signing();
    expect(await uses()).toEqual(['closed', 'closed']);
    expect(await pinentry.questions()).toHaveLength(2);
  });

  it('has their questions taken back, whatever they sent behind them, also when the bridge ends', async () => {
    const { person, name, pinentry, signing, leaving, uses } = await personWhoIsAsked('--confirm');
    const behind = 'NOP\n'.repeat(30_000);
    await pinentry.confirms('waits');
    await leaving(() => pinentry.asked(), behind);
    await expect.poll(uses, PATIENT).toEqual(['closed']);
    const client = await signing();
    await pinentry.asked();
    client.write(behind);
    await person.ok('down', name);
    await expect.poll(uses, PATIENT).toEqual(['closed', 'closed']);
  });
});
