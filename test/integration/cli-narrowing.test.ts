import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CIPHERTEXT } from '@gpg-bridge/test-support/ciphertext';
import { Person, type Started } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { run } from '@gpg-bridge/test-support/process';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { agentMessage, openSshClient, signRequest, sshsigData } from '@gpg-bridge/test-support/ssh-requests';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askDaemon } from '../../packages/cli/src/daemon/control.ts';

const PASSPHRASE = 'correct-horse-battery';
const NO_KEY = 'ERR 67108881';
const FORBIDDEN = 'ERR 67109115';
const SIGNATURE = 'D (7:sig-val';

/** Somebody with a key that has a passphrase and one that has none, and a bridge that offers both. */
async function personWithTwoKeys() {
  const pinentry = await ScriptedPinentry.create(PASSPHRASE);
  onTestFinished(() => pinentry.remove());
  const person = await Person.create({ agentConf: pinentry.agentConf });
  await person.home.addEncryptionKey(person.fingerprint);
  const locked = await person.home.createKey('Locked <locked@example.org>', { passphrase: PASSPHRASE });
  const grips = async (key: string) => {
    const listing = await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', key]);
    return [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].map(([, grip]) => grip!);
  };
  const [ada, adaEncrypts] = await grips(person.fingerprint);
  const [lockedGrip] = await grips(locked);
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await person.ok('up', name);
  const connect = async () => {
    const client = await TestClient.connect(`${target.dir}/S.gpg-agent`);
    await client.reads('OK');
    return client;
  };
  /** A client that has asked for a signature. */
  const signing = async (grip: string) => {
    const client = await connect();
    client.write(`SIGKEY ${grip}\nSETHASH 8 ${'00'.repeat(32)}\nHELP\nPKSIGN\n`);
    await client.reads('# RESET');
    return client;
  };
  /** A client that has asked for a decryption, and does not say of what. */
  const decrypting = async (answer: string) => {
    const client = await connect();
    client.write(`SETKEY ${adaEncrypts}\nPKDECRYPT\n`);
    await client.reads(answer);
    return client;
  };
  const inquired = () => decrypting('INQUIRE CIPHERTEXT');
  const waiting = async () => (await person.json<{ waiting: unknown }[]>('status'))[0]!.waiting;
  const uses = async () =>
    (await person.json<{ key: string; outcome: string }[]>('log', name, '--uses')).map(
      ({ key, outcome }) => `${key === ada ? 'ada' : key === lockedGrip ? 'locked' : 'other'} ${outcome}`,
    );
  return {
    person,
    pinentry,
    name,
    target,
    ada: ada!,
    locked: lockedGrip!,
    signing,
    decrypting,
    inquired,
    waiting,
    uses,
  };
}

describe('a narrower grant', () => {
  it('holds for what is asked while the bridge still waits for a use that it allows', async () => {
    const { person, pinentry, name, ada, locked, signing, waiting, uses } = await personWithTwoKeys();
    await pinentry.waits();
    const allowed = await signing(locked);
    await pinentry.asked();
    await expect.poll(waiting, PATIENT).not.toBeNull();
    // This one waits for its turn, behind the person who is asked.
    const before = await signing(ada);
    const up = person.start(['up', name, '--gpg-key', 'locked@example.org']);
    await up.printed(/has waited for a person/, 'stderr');
    const after = await signing(ada);
    await after.reads(NO_KEY);
    await pinentry.goOn();
    await allowed.reads(SIGNATURE);
    await before.reads(FORBIDDEN);
    expect(await up.exited).toBe(0);
    expect(await uses()).toEqual(['locked ok']);
  });

  it('is not held off by a client that owes the data of an inquiry, nor by those behind it', async () => {
    const { person, name, ada, inquired, signing, waiting, uses } = await personWithTwoKeys();
    // As many as may be with the agent at once: whoever asks now waits for a turn.
    const open = await Promise.all(Array.from({ length: 8 }, () => inquired()));
    const behind = await signing(ada);
    expect(await waiting()).toBeNull();
    await person.ok('up', name, '--gpg-key', 'locked@example.org');
    for (const client of [...open, behind]) expect(await client.readsAll()).not.toContain(SIGNATURE);
    const late = await signing(ada);
    await late.reads(NO_KEY);
    expect(await uses()).not.toContain('ada ok');
  });

  it('ends what a client has kept open, also where the bridge goes on with it', async () => {
    const { person, pinentry, name, inquired, decrypting, uses } = await personWithTwoKeys();
    const open = await Promise.all([inquired(), inquired()]);
    // The change fails, so the same daemon goes on: it asks now.
    const failed = await person.run(['up', name, '--confirm', '--keys', 'eve@example.org']);
    expect(failed.stderr).toMatch(/what was narrowed stays so: --confirm/);
    for (const client of open) {
      client.write(`D ${CIPHERTEXT}\nEND\n`);
      expect(await client.readsAll()).toContain(FORBIDDEN);
    }
    expect(await uses()).toEqual(['other refused', 'other refused']);
    await pinentry.confirms('cancel');
    await decrypting('Not confirmed');
  });

  it('stays when the rest of the change fails, and the error says so', async () => {
    const { person, name, ada, locked, signing, uses } = await personWithTwoKeys();
    const failed = await person.run([
      'up',
      name,
      '--gpg-key',
      'locked@example.org',
      '--keys',
      'eve@example.org',
    ]);
    expect(failed.status).toBe(1);
    expect(failed.stderr).toMatch(/what was narrowed stays so: --gpg-key/);
    await (await signing(ada)).reads(NO_KEY);
    await (await signing(locked)).reads(SIGNATURE);
    expect(await uses()).toContain('locked ok');
    const [status] = await person.json<{ options: { gpgKeys: string[] } }[]>('status');
    expect(status!.options.gpgKeys).toEqual(['locked@example.org']);
    await person.ok('down', name);
    await person.ok('up', name);
    await (await signing(ada)).reads(NO_KEY);
  });

  it('that names a key which is not there changes nothing', async () => {
    const { person, name, ada, signing } = await personWithTwoKeys();
    const failed = await person.run(['up', name, '--gpg-key', 'eve@example.org']);
    expect(failed.status).toBe(1);
    expect(failed.stderr).not.toMatch(/stays so/);
    await (await signing(ada)).reads(SIGNATURE);
    await person.ok('down', name);
    await person.ok('up', name);
    await (await signing(ada)).reads(SIGNATURE);
  });

  it('of SSH keys, decryption, agents and confirmation stays when the rest of the change fails', async () => {
    const { person, pinentry, name, target, locked, signing, decrypting } = await personWithTwoKeys();
    const agent = await startSshAgent();
    const [one, two] = [await agent.addKey('one'), await agent.addKey('two')];
    // ssh-keygen takes a private key from its file where the agent does not list it.
    for (const key of [one, two]) await rm(key);
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await person.ok('up', name);
    const sshSign = async (key: string) =>
      (
        await run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], {
          env: { ...process.env, SSH_AUTH_SOCK: `${target.dir}/agent.sock` },
          input: 'text',
        })
      ).status;
    const narrow = async (...options: string[]) =>
      expect((await person.run(['up', name, ...options, '--keys', 'eve@example.org'])).stderr).toMatch(
        /what was narrowed stays so/,
      );
    await narrow('--ssh-key', 'one');
    expect(await sshSign(one)).toBe(0);
    expect(await sshSign(two)).not.toBe(0);
    await narrow('--no-decrypt');
    await decrypting(FORBIDDEN);
    await pinentry.confirms('cancel');
    await narrow('--confirm');
    await (await signing(locked)).reads('ERR');
    expect(await pinentry.questions()).not.toEqual([]);
    await narrow('--no-ssh');
    expect(await sshSign(one)).not.toBe(0);
    await expect
      .poll(async () => (await person.json<{ options: object }[]>('status'))[0]!.options, PATIENT)
      .toMatchObject({ ssh: false, decrypt: false, confirm: true });
  });

  it('is not held off by another change, which waits for a person', async () => {
    const { person, pinentry, name, ada, locked, signing, waiting } = await personWithTwoKeys();
    await pinentry.waits();
    await signing(locked);
    await pinentry.asked();
    await expect.poll(waiting, PATIENT).not.toBeNull();
    const other = person.start(['up', name, '--notify']);
    await other.printed(/has waited for a person/, 'stderr');
    // The new bridge serves already, and is known to nobody until the old one has ended.
    const narrowing = person.start(['up', name, '--gpg-key', 'locked@example.org']);
    const chosen = async () =>
      (await person.json<{ options: { gpgKeys?: string[] } }[]>('status'))[0]!.options.gpgKeys;
    await expect.poll(chosen, PATIENT).toEqual(['locked@example.org']);
    const client = await signing(ada);
    expect(await Promise.race([client.reads('ERR').then(() => 'refused'), narrowing.exited])).toBe('refused');
    await pinentry.goOn();
    expect(await other.exited).toBe(0);
    expect(await narrowing.exited).toBe(0);
    await (await signing(ada)).reads(NO_KEY);
  });

  it('needs no ssh-agent that answers: nothing is signed until its keys are known', async () => {
    const { person, name, target, decrypting } = await personWithTwoKeys();
    const agent = await startSshAgent();
    const [one, two] = [await agent.addKey('one'), await agent.addKey('two')];
    for (const key of [one, two]) await rm(key);
    const inFront = await PausedAgent.start(agent.socketPath);
    person.env.SSH_AUTH_SOCK = inFront.path;
    await person.ok('up', name);
    const sshSign = async (key: string) =>
      (
        await run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], {
          env: { ...process.env, SSH_AUTH_SOCK: `${target.dir}/agent.sock` },
          input: 'text',
        })
      ).status;
    expect(await sshSign(two)).toBe(0);
    inFront.silenceNewClients();
    const failed = await person.run(['up', name, '--ssh-key', 'one', '--no-decrypt']);
    expect(failed.status).not.toBe(0);
    expect(failed.stderr).toMatch(/what was narrowed stays so: --ssh-key, --no-decrypt/);
    await decrypting(FORBIDDEN);
    inFront.answerAgain();
    expect(await sshSign(two)).not.toBe(0);
    await expect.poll(() => sshSign(one), PATIENT).toBe(0);
    expect(await sshSign(two)).not.toBe(0);
    await person.ok('down', name);
    await person.ok('up', name);
    expect(await sshSign(two)).not.toBe(0);
  });

  it('of a bridge that goes on is told with the number of the keys that are left', async () => {
    const { person, name } = await personWithTwoKeys();
    person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
    await person.ok('up', name);
    const control = await person.file('.sock');
    await askDaemon(control, 'narrow', 20_000, { gpgKeys: ['locked@example.org'] });
    expect(await person.ok('up', name)).toMatch(/^ {2}keys 1 GPG key, 0 SSH keys$/m);
    await askDaemon(control, 'narrow', 20_000, { gpg: false });
    expect(await person.ok('up', name)).toMatch(/^ {2}keys 0 SSH keys$/m);
  });

  it('and a pause hold for a signature that was allowed before the ssh-agent has listed its keys again', async () => {
    const { person, pinentry, name, target } = await personWithTwoKeys();
    const agent = await startSshAgent();
    const file = await agent.addKey('one');
    const blob = Buffer.from((await readFile(`${file}.pub`, 'utf8')).split(' ')[1]!, 'base64');
    const inFront = await PausedAgent.start(agent.socketPath);
    person.env.SSH_AUTH_SOCK = inFront.path;
    await person.ok('up', name, '--confirm');
    const isRefusedBehind = async (change: () => Promise<unknown>) => {
      const client = await openSshClient(`${target.dir}/agent.sock`);
      onTestFinished(client.close);
      expect(await client.ask(agentMessage(11))).toBe(12);
      await pinentry.confirms('waits');
      const answered = client.ask(signRequest(blob, sshsigData()));
      await pinentry.asked();
      await delay(1_100); // by then its list is too old
      const lists = inFront.requests(11);
      inFront.keepAnswers();
      await pinentry.goOn();
      await expect.poll(() => inFront.requests(11), PATIENT).toBeGreaterThan(lists);
      await change();
      inFront.giveAnswers();
      expect(await answered).toBe(5);
    };
    let change: Started | undefined;
    await isRefusedBehind(async () => {
      change = person.start(['up', name, '--no-decrypt']); // which waits for the ssh-agent
      await expect.poll(() => person.ok('log', name), PATIENT).toMatch(/narrowed: .*--no-decrypt/);
    });
    expect(await change?.exited).toBe(0);
    await isRefusedBehind(() => person.ok('pause'));
    expect(inFront.requests(13)).toBe(0);
  });
});

/** What stands before an ssh-agent that asks a person, and answers nobody else meanwhile. */
class PausedAgent {
  #isSilent = false;
  readonly #types: number[] = [];
  #kept: (() => void)[] | undefined;

  private constructor(readonly path: string) {}

  static async start(agent: string): Promise<PausedAgent> {
    const paused = new PausedAgent(join(await tempDir(), 'paused'));
    const server = net.createServer((client) => {
      client.on('error', () => {});
      if (paused.#isSilent) return void client.resume();
      const there = net.connect(agent);
      there.on('error', () => client.destroy());
      client.on('data', (bytes) => paused.#types.push(bytes[4]!)).pipe(there);
      there.on('data', (bytes) => {
        const give = () => void client.write(bytes);
        if (paused.#kept) paused.#kept.push(give);
        else give();
      });
      there.on('end', () => client.end());
    });
    server.listen(paused.path);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    return paused;
  }

  silenceNewClients(): void {
    this.#isSilent = true;
  }

  answerAgain(): void {
    this.#isSilent = false;
  }

  /** How many requests of a type have come. */
  requests(type: number): number {
    return this.#types.filter((each) => each === type).length;
  }

  keepAnswers(): void {
    this.#kept = [];
  }

  giveAnswers(): void {
    const kept = this.#kept ?? [];
    this.#kept = undefined;
    for (const give of kept) give();
  }
}
