import { once } from 'node:events';
import net from 'node:net';
import { countedHomes } from '@gpg-bridge/test-support/counted-homes';
import { run } from '@gpg-bridge/test-support/process';
import { expect, it } from 'vitest';

it.each([
  ['ECC', ['ed25519', 'cv25519']],
  ['RSA', ['rsa2048', 'rsa2048']],
] as const)(
  'with an %s key a signature is two calls, and a decryption at most four',
  async (_name, algorithms) => {
    for (const options of [[], ['-u', 'ada@example.org']]) {
      const { target, calls } = await countedHomes({ algorithms });
      const sign = () => target.gpgOk([...options, '--clear-sign'], { input: 'hello' });
      // The import of the public keys was the first client, which brought the table back.
      expect(await calls(sign)).toBe(2);
      expect(await calls(sign)).toBe(2);
    }
    const { target, calls } = await countedHomes({ algorithms });
    const { stdout } = await target.gpg(['-r', 'ada@example.org', '--encrypt'], { input: 'secret' });
    const decrypt = async () => expect(await target.gpgOk(['--decrypt'], { input: stdout })).toBe('secret');
    expect(await calls(decrypt)).toBe(4);
    expect(await calls(decrypt)).toBe(3);
  },
);

it('without it every command is a call', async () => {
  let isOn = true;
  const { target, calls } = await countedHomes({ agentConfig: { ahead: () => isOn } });
  const sign = () => target.gpgOk(['--clear-sign'], { input: 'hello' });
  await sign();
  isOn = false;
  await sign(); // is told
  expect(await calls(sign)).toBeGreaterThan(10);
  isOn = true;
  await sign();
  expect(await calls(sign)).toBe(2);
});

it('lines of a client that leaves reach the agent, and what is asked first is the agent’s own answer', async () => {
  const { target, requestProxy, calls } = await countedHomes();
  await target.gpgOk(['--clear-sign'], { input: 'hello' });
  const talk = async (text: string, lines: number) => {
    const socket = net.connect(requestProxy.socketPath);
    let said = '';
    socket.setEncoding('latin1').on('data', (piece: string) => {
      said += piece;
    });
    socket.write(text);
    while (said.split('\n').length - 1 < lines) await once(socket, 'data');
    socket.destroy();
    return said;
  };
  expect(await calls(() => talk('GETINFO restricted\n', 2))).toBe(1);
  const before = await calls(async () => expect(await talk('RESET\n', 2)).toMatch(/^OK [^\n]*\nOK\n$/));
  // It is sent when the client is seen to have left.
  expect(before).toBeLessThanOrEqual(1);
});

it('nothing is answered for a host that refused the client before', async () => {
  const { target, calls, refuse } = await countedHomes();
  const sign = () => target.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' });
  await sign();
  refuse();
  expect((await sign()).status).not.toBe(0);
  const ask = ['--no-autostart', 'GETINFO version', '/bye'];
  const asked = run('gpg-connect-agent', ask, { env: target.env });
  expect(await calls(() => asked)).toBe(1);
  expect((await asked).stdout.toString()).not.toMatch(/^D 2\./m);
});

it('a setting that failed makes no signature, and the client gets the agent’s error', async () => {
  const { target, requestProxy } = await countedHomes();
  await target.gpgOk(['--clear-sign'], { input: 'hello' });
  const socket = net.connect(requestProxy.socketPath);
  let said = '';
  socket.setEncoding('latin1').on('data', (piece: string) => {
    said += piece;
  });
  // 2.2 and 2.4 refuse a digest that is not of the algorithm's length; SHA-1 has 40 digits, as the table says.
  socket.write(`RESET\nSIGKEY ${'0'.repeat(40)}\nSETHASH 8 ${'0'.repeat(64)}\nPKSIGN\n`);
  while (!said.includes('ERR')) await once(socket, 'data');
  expect(said).toMatch(/^OK [^\n]*\nOK\nOK\nOK\nERR \d+ No secret key <GPG Agent>\n$/);
  socket.destroy();
});
