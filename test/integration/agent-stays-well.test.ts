import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { agentsOf } from '@gpg-bridge/test-support/agent-processes';
import { Person } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { joinHomes } from '@gpg-bridge/test-support/proxied-homes';
import { talk } from '@gpg-bridge/test-support/talk';
import { describe, expect, it, onTestFinished } from 'vitest';

// What a target sends is decided on the host, in front of a real gpg-agent that logs every line it gets.

interface Bridged {
  host: GnupgHome;
  /** The keygrip of an encryption key. */
  grip: string;
  socket: string;
}

/** Has the agent of a home log every line. */
async function withLog(host: GnupgHome): Promise<GnupgHome> {
  await host.killAgent();
  await writeFile(join(host.dir, 'gpg-agent.conf'), `log-file ${join(host.dir, 'lines.log')}\ndebug ipc\n`);
  await host.launchAgent();
  return host;
}

async function overTheWire(): Promise<Bridged> {
  const person = await Person.create();
  const grip = await person.home.addEncryptionKey(person.fingerprint);
  await withLog(person.home);
  const target = await person.localHome();
  await person.ok('up', `local:${target.dir}`, '--no-ssh');
  return { host: person.home, grip, socket: join(target.dir, 'S.gpg-agent') };
}

async function overCommands(): Promise<Bridged> {
  const homes = await joinHomes();
  onTestFinished(() => homes.remove());
  const grip = await homes.host.addEncryptionKey(await homes.host.createKey('Ada Test <ada@example.org>'));
  return { host: await withLog(homes.host), grip, socket: homes.requestProxy.socketPath };
}

const TRANSPORTS: readonly (readonly [string, () => Promise<Bridged>])[] = [
  ['the wire protocol', overTheWire],
  ['VS Code commands', overCommands],
];

/** The lines that the agent got so far. */
const received = (host: GnupgHome) =>
  [...readFileSync(join(host.dir, 'lines.log'), 'latin1').matchAll(/DBG: chan_\d+ <- (.*)$/gm)].map(
    ([, line]) => line!,
  );

/** Processor seconds of an agent, with its open descriptors. */
async function load(host: GnupgHome): Promise<{ seconds: number; descriptors: number }> {
  const [pid] = await agentsOf(host);
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/.*\) /s, '').split(' ');
  const seconds = (Number(fields[11]) + Number(fields[12])) / 100;
  return { seconds, descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

/** A client of the host's own on the main socket. */
async function hostClient(host: GnupgHome) {
  const socket = net.connect(await host.socket('agent-socket'));
  onTestFinished(() => void socket.destroy());
  await once(socket, 'data');
  return async (line: string) => {
    socket.write(`${line}\n`);
    return String((await once(socket, 'data'))[0]);
  };
}

describe.each(TRANSPORTS)('gpg-agent behind %s', (_name, bridged) => {
  it('gets no command that GnuPG’s own clients do not send, and no other descriptor is touched', async () => {
    const { host, socket } = await bridged();
    const own = await hostClient(host);
    const { descriptors } = await load(host);
    const refused = [
      ...Array.from({ length: 24 }, (_, n) => [`INPUT FD=${n}`, `OUTPUT FD=${n}`]).flat(),
      ...['input fd=8', 'Output FD=8', 'INPUT FD', 'MESSAGE FD=8', 'OPTION ttyname=/dev/tty', 'LISTTRUSTED'],
      ...['\tINPUT FD=8', 'NOP INPUT FD=8', 'KEYWRAP_KEY --export', 'SCD INPUT FD=8', 'NO\0P', 'NONSENSE'],
      ...['SETHASH --inquire', `SETHASH 8 ${'00'.repeat(31)}`],
    ];
    const said = await talk(socket, `${refused.map((line) => `${line}\nNOP\n`).join('')}BYE\n`);
    const answers = said.split('\n').slice(1, -2);
    expect(answers).toEqual(refused.flatMap(() => ['ERR 67109115 Forbidden <GPG Agent>', 'OK']));
    expect(await own('GETINFO restricted')).toMatch(/^ERR \d+ False/);
    expect(received(host).filter((line) => refused.includes(line))).toEqual([]);
    await expect.poll(async () => (await load(host)).descriptors).toBeLessThanOrEqual(descriptors + 2);
  });

  it.each(['D %', 'D a%4', 'D %zz', `D ${'x'.repeat(1_000)}`, 'PKSIGN', 'END now', 'D a\rb'])(
    'is cancelled, and goes on, when an inquiry is answered with %j',
    async (line) => {
      const { host, grip, socket } = await bridged();
      const before = (await load(host)).seconds;
      const said = await talk(socket, `SETKEY ${grip}\nPKDECRYPT\n${line}\nEND\nNOP\n`);
      expect(said).toMatch(/\nERR \d+ [^\n]*\n$/);
      expect(said).not.toMatch(/\nOK\n.*\nOK\n.*\nOK\n/s);
      expect(received(host)).not.toContain(line.trimEnd());
      // The host's own use of the same agent.
      expect((await host.gpg(['--clear-sign'], { input: 'text' })).status).toBe(0);
      expect((await load(host)).seconds - before).toBeLessThan(2);
    },
  );
});

it('gpg-agent is asked for no decryption with a key that only signs: libgcrypt crashes on some', async () => {
  const { host, socket } = await overTheWire();
  const listing = await host.gpgOk(['--with-colons', '--with-keygrip', '--list-keys']);
  const signing = /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!;
  const said = await talk(socket, `SETKEY ${signing}\nPKDECRYPT\nBYE\n`);
  expect(said).toMatch(/\nERR 67109115 Forbidden <GPG Agent> - that key does not decrypt\n/);
  expect(received(host)).not.toContain('PKDECRYPT');
});
