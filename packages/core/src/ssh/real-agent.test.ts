import { once } from 'node:events';
import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { type Finished, type RunOptions, run, runOk } from '@gpg-bridge/test-support/process';
import { startSshAgent, type TestSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import {
  agentMessage,
  askAll,
  signRequest,
  userAuthData,
  withLeadingZero,
} from '@gpg-bridge/test-support/ssh-requests';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SshAgentFilter, type SshOperation } from './filter.ts';
import { chosenKeys } from './identities.ts';

interface Filtered {
  agent: TestSshAgent;
  socketPath: string;
  operations: SshOperation[];
  /** Runs a program whose agent is behind the filter. */
  run(command: string, args: readonly string[], options?: RunOptions): Promise<Finished>;
}

/** A real ssh-agent behind a socket that lets only through what the filter does. */
async function filtered(agent: TestSshAgent, keys?: readonly string[]): Promise<Filtered> {
  const operations: SshOperation[] = [];
  const server = createServer((client) => {
    const upstream = connect(agent.socketPath);
    const filter = new SshAgentFilter({
      offers: keys && chosenKeys(keys),
      onOperation: (one) => operations.push(one),
    });
    const pass = ({ toAgent, toClient }: ReturnType<SshAgentFilter['fromClient']>): void => {
      for (const bytes of toAgent) upstream.write(bytes);
      for (const bytes of toClient) client.write(bytes);
    };
    client.on('data', (bytes) => pass(filter.fromClient(bytes)));
    upstream.on('data', (bytes) => pass(filter.fromAgent(bytes)));
    client.on('close', () => upstream.destroy()).on('error', () => {});
    upstream.on('close', () => client.destroy()).on('error', () => {});
  });
  const path = join(agent.dir, 'filtered');
  server.listen(path);
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    await once(server, 'close');
  });
  return {
    agent,
    socketPath: path,
    operations,
    run: (command, args, options = {}) =>
      run(command, args, { ...options, env: { ...agent.env, ...options.env, SSH_AUTH_SOCK: path } }),
  };
}

/** What the agent itself has, asked past the filter. */
async function directList(agent: TestSshAgent): Promise<string> {
  return (await run('ssh-add', ['-l'], { env: agent.env })).stdout.toString();
}

describe('a real ssh-agent behind the filter', () => {
  it('is listed by ssh-add -l and -L as it is directly', async () => {
    const { agent, run, operations } = await filtered(await startSshAgent());
    await agent.addKey('one');
    await agent.addKey('two', 'ecdsa');
    const listed = await run('ssh-add', ['-l']);
    expect(listed.stdout.toString()).toBe(await directList(agent));
    expect(listed.stdout.toString().trim().split('\n')).toHaveLength(2);
    expect((await run('ssh-add', ['-L'])).stdout.toString()).toBe(
      await runOk('ssh-add', ['-L'], { env: agent.env }),
    );
    expect(operations).toMatchObject([{ command: 'list', outcome: 'ok' }, { command: 'list' }]);
  });

  it.each([
    ['-d', async (key: string) => [`${key}.pub`], 'remove'],
    ['-D', async () => [], 'remove-all'],
    ['-x', async () => [], 'lock'],
    ['-X', async () => [], 'unlock'],
    ['-s', async () => ['/usr/lib/none.so'], 'add-smartcard'],
    ['-e', async () => ['/usr/lib/none.so'], 'remove-smartcard'],
  ])('is not changed by ssh-add %s', async (flag, operands, command) => {
    const { agent, run, operations } = await filtered(await startSshAgent());
    const key = await agent.addKey('one');
    const before = await directList(agent);
    const askpass = join(agent.dir, 'askpass');
    await writeFile(askpass, '#!/bin/sh\necho secret\n');
    await chmod(askpass, 0o700);
    const env = { SSH_ASKPASS: askpass, SSH_ASKPASS_REQUIRE: 'force', DISPLAY: ':0' };
    const done = await run('ssh-add', [flag, ...(await operands(key))], { env });
    expect(done.status).not.toBe(0);
    expect(await directList(agent)).toBe(before);
    expect(operations.map((one) => `${one.command} ${one.outcome}`)).toContain(`${command} refused`);
  });

  it('takes no new key from ssh-add', async () => {
    const { agent, run, operations } = await filtered(await startSshAgent());
    const key = join(agent.dir, 'new');
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    for (const args of [[key], ['-t', '60', key], ['-c', key]]) {
      expect((await run('ssh-add', args)).status).not.toBe(0);
    }
    expect(await directList(agent)).toContain('no identities');
    expect(operations.map((one) => one.outcome)).not.toContain('ok');
  });

  it('signs for ssh-keygen -Y, and the signature is good', async () => {
    const { agent, run, operations } = await filtered(await startSshAgent());
    const key = await agent.addKey('signer');
    await writeFile(join(agent.dir, 'message'), 'hello');
    const signed = await run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], {
      input: 'hello',
    });
    expect(signed.status).toBe(0);
    const signature = join(agent.dir, 'signature');
    await writeFile(signature, signed.stdout);
    const check = ['-Y', 'check-novalidate', '-n', 'file', '-s', signature];
    expect(await runOk('ssh-keygen', check, { input: 'hello' })).toContain('Good');
    const print = await agent.fingerprint(key);
    expect(operations).toContainEqual(
      expect.objectContaining({ command: 'sign', key: print, outcome: 'ok' }),
    );
  });

  it.each(['fingerprint', 'comment'])('narrowed by %s lists and signs with that key alone', async (how) => {
    const agent = await startSshAgent();
    const [mine, other] = [await agent.addKey('mine'), await agent.addKey('other')];
    const print = await agent.fingerprint(mine);
    const { run } = await filtered(agent, [how === 'comment' ? 'mine' : print]);
    const listed = (await run('ssh-add', ['-l'])).stdout.toString();
    expect(listed.trim().split('\n')).toEqual([expect.stringContaining(print)]);
    const sign = (key: string): Promise<Finished> =>
      run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', `${key}.pub`], { input: 'hello' });
    expect((await sign(mine)).status).toBe(0);
    // ssh-keygen would fall back to the private file beside the public one.
    await runOk('mv', [other, `${other}.away`]);
    expect((await sign(other)).status).not.toBe(0);
  });

  it('does not sign what ssh-add -T and ssh-keygen -Us send', async () => {
    const { agent, run, operations } = await filtered(await startSshAgent());
    const key = await agent.addKey('one');
    expect((await run('ssh-add', ['-T', `${key}.pub`])).status).not.toBe(0);
    const subject = join(agent.dir, 'subject');
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', subject]);
    await rename(key, `${key}.away`);
    expect((await run('ssh-keygen', ['-Us', `${key}.pub`, '-I', 'id', `${subject}.pub`])).status).not.toBe(0);
    const refusal = 'the data is neither a login nor an SSHSIG signature';
    const signs = operations.filter(({ command }) => command === 'sign');
    expect(signs.length).toBeGreaterThanOrEqual(2);
    for (const sign of signs) expect(sign).toMatchObject({ outcome: 'refused', note: refusal });
  });

  it('signs with an RSA key by the one name that it lists it by', async () => {
    const { agent, socketPath, operations } = await filtered(await startSshAgent());
    const key = await agent.addKey('rsa', 'rsa');
    const blob = await blobOf(`${key}.pub`);
    const renamed = withLeadingZero(blob);
    const login = (key: Buffer, flags: number) =>
      signRequest(key, userAuthData(key, { algorithm: 'rsa-sha2-256' }), flags);
    // The agent itself takes both for one key.
    expect(await askAll(agent.socketPath, [login(renamed, 2)])).toEqual([14]);
    expect(await askAll(socketPath, [login(renamed, 2), login(blob, 2), login(blob, 4)])).toEqual([
      5, 14, 14,
    ]);
    const print = await agent.fingerprint(key);
    expect(operations.map(({ outcome, key }) => [outcome, key === print])).toEqual([
      ['refused', false],
      ['ok', true],
      ['ok', true],
    ]);
  });

  it('signs with a certificate if it lists that very one', async () => {
    const agent = await startSshAgent();
    const key = await agent.addKey('certified');
    await agent.addKey('other');
    const authority = join(agent.dir, 'authority');
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', authority]);
    const certify = (serial: string) =>
      runOk('ssh-keygen', ['-q', '-s', authority, '-I', 'id', '-z', serial, '-n', 'ada', `${key}.pub`]);
    await certify('1');
    await runOk('ssh-add', ['-q', key], { env: agent.env });
    const listed = await blobOf(`${key}-cert.pub`);
    await certify('2');
    const unlisted = await blobOf(`${key}-cert.pub`);
    // By the fingerprint of the key in it.
    const { run, socketPath } = await filtered(agent, [await agent.fingerprint(key)]);
    expect((await run('ssh-add', ['-l'])).stdout.toString()).toMatch(/ED25519\)\n.*ED25519-CERT\)\n$/);
    const login = (blob: Buffer) => signRequest(blob, userAuthData(blob));
    expect(await askAll(socketPath, [login(unlisted), login(listed)])).toEqual([5, 14]);
  });

  it('signs with a key that was added after the client listed, and not with one that was removed', async () => {
    const { agent, socketPath } = await filtered(await startSshAgent());
    const key = await agent.addKey('early');
    const early = await blobOf(`${key}.pub`);
    const late = join(agent.dir, 'late');
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', late]);
    const blob = await blobOf(`${late}.pub`);
    const client = connect(socketPath);
    onTestFinished(() => void client.destroy());
    const ask = async (message: Buffer) => {
      client.write(message);
      return ((await once(client, 'data')) as [Buffer])[0][4];
    };
    const login = (of: Buffer) => signRequest(of, userAuthData(of));
    expect(await ask(agentMessage(11))).toBe(12);
    expect(await ask(login(blob))).toBe(5);
    await runOk('ssh-add', ['-q', late], { env: agent.env });
    expect(await ask(login(blob))).toBe(14);
    await runOk('ssh-add', ['-q', '-d', `${key}.pub`], { env: agent.env });
    expect(await ask(login(early))).toBe(5);
  });
});

async function blobOf(file: string): Promise<Buffer> {
  return Buffer.from((await readFile(file, 'utf8')).split(' ')[1]!, 'base64');
}
