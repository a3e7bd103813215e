import { once } from 'node:events';
import net from 'node:net';
import { Person } from '@gpg-bridge/test-support/cli';
import fc from 'fast-check';
import { expect, it } from 'vitest';

// Two bridges to one real agent, one of which answers ahead: what a client receives has to be the same, byte for byte
// but for the process number of the greeting.

const SHA256 = '0'.repeat(64);

async function twoBridges() {
  const person = await Person.create();
  await person.home.addEncryptionKey(person.fingerprint);
  const [ahead, plain] = [await person.localHome(), await person.localHome()];
  await person.ok('up', `local:${ahead.dir}`);
  await person.ok('up', `local:${plain.dir}`, '--no-ahead');
  const listing = await person.home.gpgOk([
    '--with-colons',
    '--with-keygrip',
    '--list-keys',
    person.fingerprint,
  ]);
  const [sign = '', encrypt = ''] = [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].map(([, grip]) => grip!);
  return { person, ahead, plain, sign, encrypt };
}

/** What a client gets that sends pieces: each when the one before is answered, or all at once and then no more. */
async function received(path: string, pieces: readonly string[], isEarly: boolean): Promise<string> {
  const socket = net.connect({ path, allowHalfOpen: true });
  let said = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    said += text;
  });
  const ended = once(socket, 'end');
  if (isEarly) {
    socket.end(Buffer.from(`${pieces.join('')}BYE\n`, 'latin1'));
  } else {
    let answered = 1;
    for (const piece of pieces) {
      await answers(answered);
      socket.write(Buffer.from(piece, 'latin1'));
      answered += 1;
    }
    await answers(answered);
    socket.write('BYE\n');
  }
  await ended;
  socket.destroy();
  return said.replace(/process \d+/, 'process N');

  async function answers(count: number): Promise<void> {
    while ([...said.matchAll(/^(?:OK|ERR|INQUIRE)\b[^\n]*\n/gm)].length < count) {
      await Promise.race([once(socket, 'data'), ended]);
      if (socket.readableEnded) return;
    }
  }
}

/** Commands of every shape, each of which has exactly one answer. */
function commands(sign: string, encrypt: string) {
  return fc.constantFrom(
    ...['RESET', 'reset', 'RESET now', 'NOP', 'HELP', 'UNKNOWN', 'GETINFO', 'GETINFO nothing'],
    ...['restricted', 'version', 'pid', 'cmd_has_option PKSIGN x'].map((what) => `GETINFO ${what}`),
    ...[
      'ttyname=/dev/pts/0',
      'ttyname=',
      'ttyname',
      'agent-awareness=2.1.0',
      'agent-awareness=',
      '=x',
      '',
    ].map((option) => `OPTION ${option}`),
    ...[
      '--ttytype=xterm',
      'pinentry-mode=loopback',
      'allow-pinentry-notify',
      'lc-ctype = C',
      'nonsense=1',
    ].map((option) => `OPTION ${option}`),
    ...['SIGKEY', 'SETKEY'].flatMap((word) => [
      `${word} ${sign}`,
      `${word} ${encrypt.toLowerCase()}`,
      `${word} ${'0'.repeat(40)}`,
      `${word} ${sign}00`,
      `${word} abc`,
      word,
    ]),
    ...['', ' ', ' Please+sign%0Athis', ' \xc3\xa4\xff', ' two words'].map((text) => `SETKEYDESC${text}`),
    ...[
      `8 ${SHA256}`,
      '8 00',
      `2 ${'a'.repeat(40)}`,
      `10 ${'f'.repeat(128)}`,
      `99 ${SHA256}`,
      `--hash=sha256 ${SHA256}`,
    ].map((hash) => `SETHASH ${hash}`),
    ...[sign, `${'0'.repeat(40)} ${sign}`, '0'.repeat(40), '', '--list=1000', '--list'].map(
      (keys) => `HAVEKEY ${keys}`,
    ),
    ...[sign, '0'.repeat(40), '--list', ''].map((key) => `KEYINFO ${key}`),
    ...[
      'SCD SERIALNO',
      'SCD LEARN',
      'GETEVENTCOUNTER',
      'LISTTRUSTED',
      'KILLAGENT',
      'PKSIGN',
      'pksign --hash=sha1',
    ],
    `PASSWD ${sign}`,
  );
}

it('real conversations are the same with and without, in turn and sent early', async () => {
  const { ahead, plain, sign, encrypt } = await twoBridges();
  const command = commands(sign, encrypt);
  await fc.assert(
    fc.asyncProperty(
      fc.array(command, { minLength: 1, maxLength: 14 }),
      fc.boolean(),
      async (lines, isEarly) => {
        const pieces = lines.map((line) => `${line}\n`);
        const [told, real] = await Promise.all(
          [ahead, plain].map(({ dir }) => received(`${dir}/S.gpg-agent`, pieces, isEarly)),
        );
        // A signature of an EdDSA key is the same each time.
        expect(told).toBe(real);
      },
    ),
    { numRuns: 60 },
  );
}, 200_000);

it('the record of uses is the same, and an agent that was started again is no reason to fail', async () => {
  const { person, ahead, plain, sign } = await twoBridges();
  const uses: unknown[] = [];
  for (const { dir } of [ahead, plain]) {
    const pieces = [
      `SIGKEY ${sign}\n`,
      `SETHASH 8 ${SHA256}\n`,
      'PKSIGN\n',
      `SIGKEY ${'0'.repeat(40)}\n`,
      'PKSIGN\n',
    ];
    expect(await received(`${dir}/S.gpg-agent`, pieces, false)).toMatch(/D \(7:sig-val/);
    const found = await person.json<{ command: string; key: string; outcome: string }[]>(
      'log',
      `local:${dir}`,
      '--uses',
    );
    uses.push(found.map(({ command, key, outcome }) => ({ command, key, outcome })));
  }
  expect(uses[0]).toEqual(uses[1]);
  expect(uses[0]).toHaveLength(2);
  await person.home.killAgent();
  for (const home of [ahead, plain]) {
    await home.gpgOk(['--clear-sign'], { input: 'hello' });
    await home.gpgOk(['--clear-sign'], { input: 'hello' });
  }
});
