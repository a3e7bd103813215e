import { chmod, cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import type { Container } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { type Conversation, RecordingRelay } from '@gpg-bridge/test-support/recording-relay';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { expect, it, onTestFinished } from 'vitest';

// Two bridges to one real agent, one of which answers ahead: what real programs receive has to be the same, byte for
// byte but for the process number of the greeting, and so has what they print and the record of private-key uses.

type Version = '2.2' | '2.4';

/** One end of a comparison: where programs of the client's version run, and what they said to their agent. */
interface Side {
  name: string;
  relay: RecordingRelay;
  run(script: string): Promise<{ status: number | null; printed: string }>;
}

/** What every script begins with: a clock that stands still, so that the same thing is signed twice. */
const PRELUDE = `
gpg() { command gpg --batch --no-tty --no-autostart --faked-system-time '20300101T000000!' "$@"; }
gpgsm() {
  command gpgsm --batch --no-tty --no-autostart --disable-crl-checks --disable-dirmngr \\
    --faked-system-time 20300101T000000 "$@"
}
cd "$GNUPGHOME/../work"
`;

/** What a person or a program does, what it prints, and what is asked of the agent for it. */
const SCRIPTS: readonly { name: string; script: string; prints: RegExp; asks: RegExp }[] = [
  {
    name: 'a signature',
    script: 'echo hello | gpg --clear-sign',
    prints: /BEGIN PGP SIGNATURE/,
    asks: /^PKSIGN/m,
  },
  {
    name: 'a signature with an RSA key',
    script: 'echo hello | gpg -u rsa@example.org --clear-sign',
    prints: /BEGIN PGP SIGNATURE/,
    asks: /^PKSIGN/m,
  },
  {
    name: 'a signature with two keys',
    script: 'echo hello | gpg -u ada@example.org -u rsa@example.org --clear-sign',
    prints: /BEGIN PGP SIGNATURE/,
    asks: /^PKSIGN.*^PKSIGN/ms,
  },
  {
    name: 'a key that is not there',
    script: 'echo hello | gpg -u nobody@example.org --clear-sign; echo status $?',
    prints: /^status 2/,
    asks: /^/,
  },
  { name: 'a decryption', script: 'gpg --decrypt one.gpg', prints: /secret one/, asks: /^PKDECRYPT/m },
  {
    name: 'a decryption with an RSA key',
    script: 'gpg --decrypt two.gpg',
    prints: /secret two/,
    asks: /^PKDECRYPT/m,
  },
  {
    name: '--multifile',
    script: 'rm -f one two; gpg --multifile --decrypt one.gpg two.gpg; cat one two',
    prints: /secret one\nsecret two/,
    asks: /^PKDECRYPT.*^PKDECRYPT/ms,
  },
  {
    name: 'a listing',
    script: 'gpg -K --with-colons --with-keygrip',
    prints: /^sec:.*^sec:/ms,
    asks: /^HAVEKEY/m,
  },
  {
    name: '--pinentry-mode loopback',
    script: 'echo hello | gpg --pinentry-mode loopback --passphrase x --clear-sign; echo ended',
    prints: /ended/,
    asks: /^OPTION pinentry-mode=loopback/m,
  },
  {
    name: 'git',
    script: `rm -rf repo; git init -q repo; cd repo
    git config user.name Ada; git config user.email ada@example.org
    git config user.signingkey ada@example.org; git config gpg.program ../frozen-gpg
    export GIT_AUTHOR_DATE=2030-01-01T00:00:00Z GIT_COMMITTER_DATE=2030-01-01T00:00:00Z
    git commit -q -S --allow-empty -m signed && git verify-commit HEAD && git rev-parse HEAD`,
    prints: /^[0-9a-f]{40}$/m,
    asks: /^PKSIGN/m,
  },
  {
    name: 'gpgsm, with a certificate that is trusted',
    script: 'echo hello | gpgsm -u good@example.org --armor --sign',
    prints: /BEGIN SIGNED/,
    asks: /^ISTRUSTED.*^PKSIGN/ms,
  },
  {
    name: 'gpgsm, with one that is not',
    script: 'echo hello | gpgsm -u bad@example.org --armor --sign || echo not signed',
    prints: /^not signed/,
    asks: /^ISTRUSTED/m,
  },
  {
    name: 'gpgsm, a good signature',
    script: 'gpgsm --status-fd 1 --verify good.pem',
    prints: /^\[GNUPG:\] TRUST_FULLY/m,
    asks: /^ISTRUSTED/m,
  },
  {
    name: 'gpgsm, one whose root is not trusted',
    script: 'gpgsm --status-fd 1 --verify bad.pem',
    prints: /^\[GNUPG:\] TRUST_(?:UNDEFINED|NEVER)/m,
    asks: /^ISTRUSTED/m,
  },
  {
    name: 'a script of gpg-connect-agent',
    script: `gpg-connect-agent --no-autostart <<'E'
/hex
RESET
GETINFO version
OPTION ttyname=/dev/null
OPTION nonsense=1
NOP
# a comment
SIGKEY 0000000000000000000000000000000000000000
SETHASH 8 00
SETHASH --hash=sha1 0000000000000000000000000000000000000000
PKSIGN
HAVEKEY 0000000000000000000000000000000000000000
KEYINFO --list
SCD GETINFO version
ISTRUSTED 0000000000000000000000000000000000000000
LISTTRUSTED
HELP PKSIGN
UNKNOWN
/bye
E`,
    prints: /^ERR/m,
    asks: /^UNKNOWN/m,
  },
];

const QUIET = ['--batch', '--no-tty', '--disable-crl-checks', '--disable-dirmngr'];

/** Makes a key with a certificate that signs itself; returns its fingerprint. */
async function certify({ dir, env }: GnupgHome, name: string, files: Map<string, Buffer>): Promise<string> {
  const parameters = [
    ...['Key-Type: RSA', 'Key-Length: 2048', 'Key-Usage: sign', 'Serial: random', 'Hash-Algo: SHA256'],
    ...[`Name-DN: CN=${name}`, `Name-Email: ${name}@example.org`, 'Not-After: 2040-01-01', ''],
  ].join('\n');
  const loopback = ['--pinentry-mode', 'loopback', '--passphrase', ''];
  const file = join(dir, `${name}.parameters`);
  await writeFile(file, parameters);
  const made = await run('gpgsm', [...QUIET, ...loopback, '--generate-key', file], { env });
  expect(made.status, made.stderr).toBe(0);
  files.set(`${name}.crt`, made.stdout);
  await runOk('gpgsm', [...QUIET, '--import'], { env, input: made.stdout });
  const listing = await runOk('gpgsm', [...QUIET, '--with-colons', '-k', `${name}@example.org`], { env });
  return /^fpr:+([0-9A-F]{40}):/m.exec(listing)![1]!;
}

/** Two certificates and a signature with each, of which the agent trusts one by now. */
async function certificates(home: GnupgHome, files: Map<string, Buffer>): Promise<void> {
  const names = ['good', 'bad'];
  const prints = [];
  for (const name of names) prints.push(await certify(home, name, files));
  const trust = (trusted: readonly string[]) =>
    writeFile(join(home.dir, 'trustlist.txt'), trusted.map((print) => `${print} S relax\n`).join(''));
  await trust(prints);
  await home.killAgent();
  for (const name of names) {
    const options = [...QUIET, '-u', `${name}@example.org`, '--armor', '--sign'];
    const signed = await run('gpgsm', options, { env: home.env, input: 'hello\n' });
    expect(signed.status, signed.stderr).toBe(0);
    files.set(`${name}.pem`, signed.stdout);
  }
  await trust(prints.slice(0, 1));
  await home.killAgent();
}

/** A container with GnuPG 2.4 that has these homes at their own paths. */
async function with24(homes: readonly GnupgHome[]): Promise<Container> {
  const docker = await sharedEngine('docker');
  const args = homes.map(({ dir }) => `--volume=${dirname(dir)}:${dirname(dir)}`);
  const container = await docker.startContainer({ image: 'trixie', args });
  onTestFinished(() => container.remove());
  return container;
}

/** Somebody with keys of every kind and an agent of this version, and what has been made with them. */
async function host(agent: Version): Promise<{ person: Person; files: Map<string, Buffer> }> {
  const person = await Person.create({ agentConf: 'allow-loopback-pinentry\n' });
  const { home } = person;
  await home.addEncryptionKey(person.fingerprint);
  const rsa = await home.createKey('Rsa Test <rsa@example.org>', { algo: 'rsa2048', usage: 'sign' });
  await home.addEncryptionKey(rsa, 'rsa2048');
  const files = new Map<string, Buffer>();
  for (const [name, key] of Object.entries({ one: person.fingerprint, two: rsa })) {
    const options = ['--trust-model', 'always', '-r', key, '--encrypt'];
    files.set(`${name}.gpg`, (await home.gpg(options, { input: `secret ${name}\n` })).stdout);
  }
  await certificates(home, files);
  if (agent === '2.4') {
    const container = await with24([home]);
    await container.execOk(['gpg-agent', '--daemon'], { env: { GNUPGHOME: home.dir } });
  }
  return { person, files };
}

/** Two targets of one host, one of which answers ahead, each with a recording relay in front of its socket. */
async function twoSides(person: Person, files: Map<string, Buffer>, client: Version): Promise<Side[]> {
  const sides: Side[] = [];
  for (const options of [[], ['--no-ahead']]) {
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    await person.ok('up', name, '--no-ssh', ...options);
    const home = await person.localHome();
    for (const file of ['pubring.kbx', 'trustdb.gpg']) await cp(join(target.dir, file), join(home.dir, file));
    const work = join(dirname(home.dir), 'work');
    await mkdir(work);
    for (const [file, bytes] of files) await writeFile(join(work, file), bytes);
    await writeFile(join(work, 'frozen-gpg'), `#!/bin/sh\n${PRELUDE.replace(/^cd.*$/m, '')}gpg "$@"\n`);
    await chmod(join(work, 'frozen-gpg'), 0o755);
    const relay = await RecordingRelay.listen(join(home.dir, 'S.gpg-agent'), join(target.dir, 'S.gpg-agent'));
    const container = client === '2.4' ? await with24([home]) : undefined;
    const env = { GNUPGHOME: home.dir, HOME: dirname(home.dir), LC_ALL: 'C' };
    sides.push({
      name,
      relay,
      async run(script) {
        const argv = ['sh', '-c', `${PRELUDE}${script}`];
        const done = container
          ? await container.exec(argv, { env })
          : await run('sh', argv.slice(1), { env: { ...home.env, ...env } });
        return { status: done.status, printed: done.stdout.toString('latin1') };
      },
    });
    for (const certificate of ['good', 'bad']) await sides.at(-1)!.run(`gpgsm --import ${certificate}.crt`);
    await relay.take();
  }
  return sides;
}

/** Each runs some sixty programs, one after the other. */
const PATIENCE_MS = 600_000;

/** How often a pair of runs is repeated in which the clients did not say the same, since a second passed between. */
const ATTEMPTS = 5;

/** Runs a script on both sides, until both programs asked the same. */
async function inBoth(sides: readonly Side[], script: string) {
  for (let attempt = 1; ; attempt++) {
    const found = [];
    for (const side of sides) found.push({ ...(await side.run(script)), talks: await side.relay.take() });
    const [told, real] = found as [(typeof found)[0], (typeof found)[0]];
    const said = (talks: readonly Conversation[]) => talks.map(({ sent }) => sent).join('\n--\n');
    if (attempt === ATTEMPTS || said(told.talks) === said(real.talks)) return { told, real };
  }
}

const heard = (talks: readonly Conversation[]) =>
  talks.map(({ sent, received }) => ({ sent, received: received.replace(/process \d+/, 'process N') }));

const PAIRS: readonly (readonly [client: Version, agent: Version])[] = [
  ['2.2', '2.2'],
  ['2.4', '2.2'],
  ['2.2', '2.4'],
  ['2.4', '2.4'],
];

requireSystem('docker')('programs receive the same with and without answering ahead', () => {
  it.each(PAIRS)(
    'of %s, with an agent of %s',
    async (client, agent) => {
      const { person, files } = await host(agent);
      const sides = await twoSides(person, files, client);
      for (const { name, script, prints, asks } of SCRIPTS) {
        // For the first time, and when everything has been learned.
        for (const time of ['first', 'later']) {
          const { told, real } = await inBoth(sides, script);
          expect(told.printed, name).toMatch(prints);
          expect(told.talks.map(({ sent }) => sent).join(''), name).toMatch(asks);
          expect({ ...told, talks: heard(told.talks) }, `${name}, ${time}`).toEqual({
            ...real,
            talks: heard(real.talks),
          });
        }
      }
      const uses = [];
      for (const { name } of sides) {
        const found = await person.json<{ command: string; key: string; outcome: string }[]>(
          'log',
          name,
          '--uses',
        );
        uses.push(found.map(({ command, key, outcome }) => ({ command, key, outcome })));
      }
      expect(uses[0]).toEqual(uses[1]);
      expect(uses[0]!.length).toBeGreaterThan(20);
    },
    PATIENCE_MS,
  );

  it(
    'when an agent of another version takes the place of the former',
    async () => {
      const { person, files } = await host('2.2');
      const sides = await twoSides(person, files, '2.2');
      const { script } = SCRIPTS[0]!;
      await inBoth(sides, script);
      await person.home.killAgent();
      const container = await with24([person.home]);
      await container.execOk(['gpg-agent', '--daemon'], { env: { GNUPGHOME: person.home.dir } });
      // Whoever was told what the former would have said gets an error, or what the other says: never something else.
      const { told: first } = await inBoth(sides, script);
      expect(first.status === 0).toBe(/BEGIN PGP SIGNATURE/.test(first.printed));
      for (let times = 0; times < 2; times++) {
        const { told, real } = await inBoth(sides, script);
        expect(told.printed).toMatch(/BEGIN PGP SIGNATURE/);
        expect({ ...told, talks: heard(told.talks) }).toEqual({ ...real, talks: heard(real.talks) });
        expect(heard(told.talks)[0]!.received).toMatch(/^D 2\.4\./m);
      }
    },
    PATIENCE_MS,
  );
});
