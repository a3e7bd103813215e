import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { FickleAgent } from '@gpg-bridge/test-support/fickle-agent';
import { runOk } from '@gpg-bridge/test-support/process';
import { expect, it, onTestFinished, vi } from 'vitest';

// A real gpg-agent some of whose answers change, after the target's end has learned them and told them to a client.

const REFUSED = 'ERR 67108889 Not today <GPG Agent>\n';
const CHANGED = "ERR 67108941 No agent running <GPG Agent> - the agent's answers changed\n";
const FORBIDDEN = 'ERR 67109115 Forbidden <GPG Agent>\n';
const SHA256 = '0'.repeat(64);

/** A bridge to an agent that can change its mind, and the keygrip of its key. */
async function bridged() {
  const person = await Person.create();
  const fickle = await FickleAgent.start(await launched(person));
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await person.ok('up', name, '--no-ssh', '--gpg-socket', fickle.path);
  const listing = await person.home.gpgOk(['--with-colons', '--with-keygrip', '-K', person.fingerprint]);
  const grip = /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!;
  fickle.lines.length = 0;
  return { person, fickle, name, grip, connect: () => Client.connect(`${target.dir}/S.gpg-agent`) };
}

async function launched({ home }: Person): Promise<string> {
  await home.launchAgent();
  return home.socket('agent-extra-socket');
}

/** A client that asks one thing after the other. */
class Client {
  #said = '';

  private constructor(readonly socket: net.Socket) {
    socket.setEncoding('latin1').on('data', (text: string) => {
      this.#said += text;
    });
    onTestFinished(() => void socket.destroy());
  }

  static async connect(path: string): Promise<Client> {
    const client = new Client(net.connect(path));
    expect(await client.answer()).toMatch(/^OK /);
    return client;
  }

  ask(line: string): Promise<string> {
    this.socket.write(Buffer.from(`${line}\n`, 'latin1'));
    return this.answer();
  }

  /** The next whole answer. */
  async answer(): Promise<string> {
    for (;;) {
      const found = /^(?:(?!OK|ERR|INQUIRE)[^\n]*\n)*(?:OK|ERR|INQUIRE)[^\n]*\n/.exec(this.#said)?.[0];
      if (found === undefined) {
        await once(this.socket, 'data');
        continue;
      }
      this.#said = this.#said.slice(found.length);
      return found;
    }
  }
}

it.each(['RESET', 'SIGKEY', 'SETKEYDESC', 'SETHASH'])(
  'makes no signature behind a %s that failed, until a RESET was really answered OK',
  async (failing) => {
    const { fickle, grip, connect, person, name } = await bridged();
    const settings = ['RESET', `SIGKEY ${grip}`, 'SETKEYDESC for+you', `SETHASH 8 ${SHA256}`];
    fickle.whim = (line) => (line.startsWith(failing) ? REFUSED : undefined);
    const client = await connect();
    for (const setting of settings) expect(await client.ask(setting)).toBe('OK\n');
    expect(await client.ask('PKSIGN')).toBe(REFUSED);
    expect(await client.ask('PKSIGN')).toBe(REFUSED);
    expect(fickle.lines).not.toContain('PKSIGN');
    fickle.whim = () => undefined;
    for (const setting of settings) expect(await client.ask(setting)).toBe('OK\n');
    expect(await client.ask('PKSIGN')).toMatch(/^D \(7:sig-val.*\nOK\n$/s);
    expect(await person.ok('log', name)).toMatch(/had been told OK/);
    const uses = await person.json<{ outcome: string }[]>('log', name, '--uses');
    expect(uses.filter(({ outcome }) => outcome === 'ok')).toHaveLength(1);
  },
);

it('gives nobody an OK that its command did not earn, and tells the entry no more', async () => {
  const { fickle, connect } = await bridged();
  const [card, trusted] = ['SCD GETINFO version', `ISTRUSTED ${'0'.repeat(40)}`];
  fickle.whim = (line) => (line === card ? FORBIDDEN : undefined);
  await (await connect()).ask(card);
  const client = await connect();
  expect(await client.ask(card)).toBe(FORBIDDEN);
  expect(await client.ask(trusted)).toMatch(/^ERR \d+ Not trusted/);
  // The same agent, with other options.
  fickle.whim = (line) => (line === card ? 'OK\n' : undefined);
  expect(await client.ask(card)).toBe(FORBIDDEN);
  expect(await client.ask(trusted)).toBe(CHANGED);
  expect(await client.ask(trusted)).toMatch(/^ERR \d+ Not trusted/);
  expect(await (await connect()).ask(card)).toBe('OK\n');
});

it('learns anew from an agent of another version', async () => {
  const { fickle, connect } = await bridged();
  const client = await connect();
  expect(await client.ask('RESET')).toBe('OK\n');
  const version = 'D 9.9.9\nOK\n';
  fickle.whim = (line) => (line === 'GETINFO version' ? version : undefined);
  // A client that is told the former version, before the host has seen the other agent, gets no further with it.
  const former = await connect();
  const told = await former.ask('GETINFO version');
  expect(await former.ask('NOP')).toBe(told === version ? 'OK\n' : CHANGED);
  expect(await former.ask('NOP')).toBe('OK\n');
  const later = await connect();
  expect(await later.ask('GETINFO version')).toBe(version);
  expect(await later.ask('NOP')).toBe('OK\n');
});

it('takes an inquiry in reply to a told line for a difference, and cancels it', async () => {
  const { fickle, grip, connect } = await bridged();
  fickle.whim = (line) => {
    if (line.startsWith('SETKEYDESC')) return 'INQUIRE MORE\n';
    return line === 'CAN' ? 'ERR 67109141 IPC call has been cancelled <GPG Agent>\n' : undefined;
  };
  const client = await connect();
  expect(await client.ask(`SIGKEY ${grip}`)).toBe('OK\n');
  expect(await client.ask('SETKEYDESC for+you')).toBe('OK\n');
  expect(await client.ask('PKSIGN')).toBe(CHANGED);
  expect(fickle.lines).toContain('CAN');
  expect(fickle.lines).not.toContain('PKSIGN');
});

it('answers a client that sends early in order, also behind a setting that failed', async () => {
  const { fickle, grip, connect } = await bridged();
  fickle.whim = (line) => (line.startsWith('SETHASH') ? REFUSED : undefined);
  const client = await connect();
  const lines = [
    'RESET',
    `SIGKEY ${grip}`,
    `SETHASH 8 ${SHA256}`,
    'PKSIGN',
    `HAVEKEY ${grip}`,
    'PKSIGN',
    'NOP',
  ];
  client.socket.write(lines.map((line) => `${line}\n`).join(''));
  const answers = [];
  for (const _line of lines) answers.push(await client.answer());
  expect(answers).toEqual(['OK\n', 'OK\n', 'OK\n', REFUSED, 'OK\n', REFUSED, 'OK\n']);
  expect(fickle.lines).not.toContain('PKSIGN');
});

it('gives the agent what a client was told that died before the real answer, and nothing else of it', async () => {
  const { fickle, grip, connect } = await bridged();
  const client = await connect();
  // A client that dies before its session has an agent asks nothing of one.
  expect(await client.ask('NOP')).toBe('OK\n');
  expect(await client.ask(`SIGKEY ${grip}`)).toBe('OK\n');
  expect(await client.ask(`SETHASH 8 ${SHA256}`)).toBe('OK\n');
  client.socket.destroy();
  await vi.waitFor(() => expect(fickle.lines).toContain(`SETHASH 8 ${SHA256}`), { timeout: 20_000 });
  expect(fickle.lines).not.toContain('PKSIGN');
  const other = await connect();
  expect(await other.ask('PKSIGN')).toMatch(/^ERR/);
});

it('goes on with a real agent that was reloaded or started again with other options', async () => {
  const person = await Person.create();
  const target = await person.localHome();
  await person.ok('up', `local:${target.dir}`, '--no-ssh');
  const sign = () => target.gpgOk(['--clear-sign'], { input: 'hello' });
  await sign();
  const conf = join(person.home.dir, 'gpg-agent.conf');
  for (const options of ['no-allow-external-cache\ndisable-scdaemon\n', 'allow-loopback-pinentry\n']) {
    await writeFile(conf, options);
    await runOk('gpgconf', ['--reload', 'gpg-agent'], { env: person.home.env });
    for (let times = 0; times < 2; times++) expect(await sign()).toContain('BEGIN PGP SIGNATURE');
    await person.home.killAgent();
    for (let times = 0; times < 2; times++) expect(await sign()).toContain('BEGIN PGP SIGNATURE');
  }
});
