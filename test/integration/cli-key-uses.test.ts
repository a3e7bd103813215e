import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { readUseRecord } from '@gpg-bridge/core/host/use-record-file';
import { Person } from '@gpg-bridge/test-support/cli';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { talk } from '@gpg-bridge/test-support/talk';
import { describe, expect, it, onTestFinished } from 'vitest';

async function personWithBridge() {
  const person = await Person.create();
  const target = await person.localHome();
  await person.ok('up', `local:${target.dir}`);
  const keygrip = /^grp:+([0-9A-F]{40}):/m.exec(
    await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', person.fingerprint]),
  )![1]!;
  const record = () =>
    readdirSync(person.stateDir)
      .filter((name) => name.endsWith('.uses'))
      .flatMap((name) => readUseRecord(join(person.stateDir, name)));
  return { person, target, keygrip, record, socket: `${target.dir}/S.gpg-agent` };
}

const HASH = '00'.repeat(32);

describe('every use of a private key', () => {
  it('is on record with its key, behind thousands of commands that were sent ahead of it', async () => {
    const { keygrip, record, socket, target } = await personWithBridge();
    const ahead = 'NOP\nRESET\n'.repeat(2_100);
    const said = await talk(socket, `${ahead}SIGKEY ${keygrip}\nSETHASH 8 ${HASH}\nPKSIGN\nBYE\n`);
    expect(said).toMatch(/^D \(7:sig-val/m);
    expect(record()).toMatchObject([
      { target: `local:${target.dir}`, command: 'PKSIGN', key: keygrip, outcome: 'ok' },
    ]);
  });

  it('stays on record whatever else is asked', async () => {
    const { keygrip, record, socket } = await personWithBridge();
    await talk(socket, `sigkey ${keygrip}\nsethash 8 ${HASH}\npksign\nBYE\n`);
    const [first] = record();
    expect(first).toMatchObject({ command: 'PKSIGN', outcome: 'ok' });
    for (let round = 0; round < 2; round++) {
      await talk(socket, `${Array.from({ length: 10_000 }, (_, n) => `JUNK${n}`).join('\n')}\nBYE\n`);
    }
    expect(record()).toEqual([first]);
  });

  it('never hides behind a line of an inquiry that gpg-agent would cut', async () => {
    const { person, record, socket } = await personWithBridge();
    const keygrip = await person.home.addEncryptionKey(person.fingerprint);
    const cut = 'D '.padEnd(1_002, 'x');
    const said = await talk(socket, `SETKEY ${keygrip}\nPKDECRYPT\n${cut}PKSIGN\nBYE\n`);
    expect(said).toMatch(/INQUIRE CIPHERTEXT\nERR 67109140 IPC syntax error [^\n]*\n$/);
    expect(record()).toMatchObject([{ command: 'PKDECRYPT', outcome: 'refused' }]);
  });

  it('that fails or is not allowed is on record, too', async () => {
    const { person, target, record, socket } = await personWithBridge();
    const said = await talk(socket, `SIGKEY ${'0'.repeat(40)}\nSETHASH 8 ${HASH}\nPKSIGN\nBYE\n`);
    expect(said).toMatch(/^ERR \d+ No secret key/m);
    expect(record()).toMatchObject([{ command: 'PKSIGN', outcome: 'error' }]);
    await person.ok('down', '--all');
    expect(await person.ok('log', `local:${target.dir}`, '--uses')).toMatch(
      /signature with 0{16} \(a key of unknown usage\): error after \d+ ms \(session \d+\)/,
    );
    expect(await person.json('log', `local:${target.dir}`, '--uses')).toEqual(record());
  });
});

describe('a target', () => {
  it('can neither copy, make, remove nor replace a private key, nor change the agent', async () => {
    const { person, keygrip, socket } = await personWithBridge();
    const before = await person.home.gpgOk(['--with-colons', '--list-secret-keys']);
    const commands = [
      `EXPORT_KEY ${keygrip}`,
      'KEYWRAP_KEY --export',
      'IMPORT_KEY',
      'GENKEY',
      `DELETE_KEY --force ${keygrip}`,
      `PASSWD ${keygrip}`,
      `PRESET_PASSPHRASE ${keygrip} -1 61`,
      'CLEAR_PASSPHRASE x',
      'OPTION pinentry-mode=loopback',
      'PUTVAL x y',
      'SCD SERIALNO',
      'RELOADAGENT',
      'KILLAGENT',
    ];
    const said = await talk(socket, `${commands.join('\n')}\nBYE\n`);
    const answers = said.split('\n').slice(1, -1);
    expect(answers.slice(0, -1).map((answer) => answer.replace(/ <.*/, ''))).toEqual(
      commands.map(() => 'ERR 67109115 Forbidden'),
    );
    expect(await person.home.gpgOk(['--with-colons', '--list-secret-keys'])).toBe(before);
  });

  it('can not have a passphrase asked for in its own words', async () => {
    const { socket } = await personWithBridge();
    const said = await talk(socket, 'GET_PASSPHRASE X X Prompt Give+me+your+password\nBYE\n');
    expect(said).toMatch(/^ERR 67109115 Forbidden <GPG Agent>/m);
  });

  it('with more idle clients than the host has descriptors leaves the host’s own gpg alone', async () => {
    const { person, socket } = await personWithBridge();
    const idle = Array.from({ length: 1_500 }, () => net.connect(socket));
    onTestFinished(() => {
      for (const client of idle) client.destroy();
    });
    await Promise.all(idle.map((client) => once(client, 'connect')));
    const signed = await person.home.gpg(['--clear-sign'], { input: 'text' });
    expect(signed.status).toBe(0);
    // Those beyond the limit have their turn when others leave.
    const last = idle.pop()!;
    const greeted = once(last, 'data');
    for (const client of idle) client.destroy();
    expect(String((await greeted)[0])).toMatch(/^OK/);
  });

  it('that opens and closes without end costs the host nothing', async () => {
    const { person, socket } = await personWithBridge();
    for (let round = 0; round < 30; round++) {
      const clients = Array.from({ length: 100 }, () => net.connect(socket));
      await Promise.all(
        clients.map(async (client) => {
          client.on('error', () => {});
          await once(client, 'connect');
          client.write('GETINFO version\n');
          client.destroy();
        }),
      );
    }
    const [status] = await person.json<{ pid: number; sessions: { total: number } }[]>('status');
    await expect
      .poll(() => readdirSync(`/proc/${status!.pid}/fd`).length, { timeout: 10_000 })
      .toBeLessThan(60);
    expect(await talk(socket, 'GETINFO version\nBYE\n')).toMatch(/^D 2\./m);
  });
});

describe('an ssh key that is bound to a destination', () => {
  it('is not offered over a bridge, and others are', async () => {
    const agent = await startSshAgent();
    const free = await agent.addKey('free');
    const bound = await agent.addKey('bound');
    await runOk('ssh-add', ['-q', '-d', bound], { env: agent.env });
    const known = join(agent.dir, 'known_hosts');
    await runOk('sh', ['-c', `printf 'somewhere ' > ${known}; cat ${free}.pub >> ${known}`]);
    await runOk('ssh-add', ['-q', '-H', known, '-h', 'somewhere', bound], { env: agent.env });
    expect(await runOk('ssh-add', ['-l'], { env: agent.env })).toContain('bound');
    await rm(bound); // the agent alone has it now
    const person = await Person.create();
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const target = await person.localHome();
    const up = await person.run(['up', `local:${target.dir}`]);
    expect(up.stdout.toString()).toMatch(/1 SSH key is bound to destinations/);
    const inside = { ...process.env, SSH_AUTH_SOCK: `${target.dir}/agent.sock` };
    const listed = await runOk('ssh-add', ['-l'], { env: inside });
    expect(listed).toContain('free');
    expect(listed).not.toContain('bound');
    const sign = (key: string) =>
      run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], { env: inside, input: 'text' });
    expect((await sign(free)).status).toBe(0);
    expect((await sign(bound)).status).not.toBe(0);
  });
});
