import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import {
  agentMessage,
  askAll,
  certificateShaped,
  openSshClient,
  signRequest,
  sshsigData,
  userAuthData,
} from '@gpg-bridge/test-support/ssh-requests';
import { talk } from '@gpg-bridge/test-support/talk';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askDaemon } from '../../packages/cli/src/daemon/control.ts';

const [FAILURE, SIGNATURE] = [5, 14];
const DIGEST = createHash('sha256').update('an OpenPGP document').digest();

interface SshKey {
  fingerprint: string;
  keygrip: string;
  blob: Buffer;
}

/** A key of gpg's that is also an SSH key; gpg-agent lists it once it is in sshcontrol. */
async function sshKey(home: GnupgHome, name: string, algo = 'ed25519'): Promise<SshKey> {
  const fingerprint = await home.createKey(`${name} <${name}@example.org>`, { algo, usage: 'sign,auth' });
  const listing = await home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', fingerprint]);
  const exported = await home.gpgOk(['--export-ssh-key', `${fingerprint}!`]);
  return {
    fingerprint,
    keygrip: /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!,
    blob: Buffer.from(exported.split(' ')[1]!, 'base64'),
  };
}

/** Somebody whose gpg-agent is the ssh-agent: it has three keys, and lists the first two. */
async function personWithKeys() {
  const person = await Person.create({ key: false });
  const [ada, bob, eve] = [
    await sshKey(person.home, 'ada'),
    await sshKey(person.home, 'bob'),
    await sshKey(person.home, 'eve'),
  ];
  await writeFile(join(person.home.dir, 'sshcontrol'), `${ada.keygrip}\n${bob.keygrip}\n`);
  await person.home.launchAgent();
  const target = await person.localHome();
  const up = (...options: string[]) => person.ok('up', `local:${target.dir}`, ...options);
  const socket = join(target.dir, 'agent.sock');
  const listed = async () =>
    (await run('ssh-add', ['-L'], { env: { ...target.env, SSH_AUTH_SOCK: socket } })).stdout
      .toString()
      .split('\n')
      .flatMap((line) => (line.startsWith('ssh-') ? [line.split(' ')[1]!] : []));
  const log = () =>
    person.json<{ command: string; outcome: string; key?: string; note?: string }[]>(
      'log',
      `local:${target.dir}`,
    );
  return { person, target, up, socket, listed, log, ada, bob, eve };
}

const blobIn = (file: string) => Buffer.from(readFileSync(`${file}.pub`, 'utf8').split(' ')[1]!, 'base64');
const base64 = ({ blob }: SshKey) => blob.toString('base64');
const login = ({ blob }: SshKey) => signRequest(blob, userAuthData(blob));

describe('with gpg-agent as the ssh-agent, a target', () => {
  it('can not use a key that gpg-agent has and does not list', async () => {
    const { up, socket, log, ada, eve } = await personWithKeys();
    await up('--ssh-from-gpg', '--no-gpg');
    expect(await askAll(socket, [login(eve), login(ada), login(eve)])).toEqual([FAILURE, SIGNATURE, FAILURE]);
    expect((await log()).map(({ outcome, note }) => [outcome, note])).toEqual([
      ['refused', 'the ssh-agent does not list this key'],
      ['ok', undefined],
      ['refused', 'the ssh-agent does not list this key'],
    ]);
  });

  it('can not have an OpenPGP digest signed as SSH data', async () => {
    const { person, target, up, socket, log, ada } = await personWithKeys();
    await up('--ssh-from-gpg', '--no-gpg');
    expect(await askAll(socket, [signRequest(ada.blob, DIGEST)])).toEqual([FAILURE]);
    const reason = 'the data is neither a login nor an SSHSIG signature';
    expect(await log()).toMatchObject([{ command: 'sign', outcome: 'refused', note: reason }]);
    expect(await person.ok('log', `local:${target.dir}`)).toContain(`refused (${reason})`);
    expect(await person.ok('status', `local:${target.dir}`)).toContain(`refused (${reason})`);
  });

  it('can not name another key by a blob that is shaped like a certificate', async () => {
    const { up, socket, log, ada, eve } = await personWithKeys();
    await up('--ssh-from-gpg', '--no-gpg', '--ssh-key', sha256(ada.blob));
    const shaped = [certificateShaped(ada.blob), certificateShaped(ada.blob, eve.blob)];
    const requests = shaped.map((blob) => signRequest(blob, userAuthData(blob)));
    expect(await askAll(socket, [...requests, login(ada)])).toEqual([FAILURE, FAILURE, SIGNATURE]);
    const entries = await log();
    expect(entries.map(({ outcome }) => outcome)).toEqual(['refused', 'refused', 'ok']);
    expect(entries.map(({ key }) => key === sha256(ada.blob))).toEqual([false, false, true]);
  });
});

describe('--gpg-key', () => {
  it.each(['--ssh-from-gpg', 'SSH_AUTH_SOCK', 'a link'])(
    'also chooses among the SSH keys of gpg-agent, found by %s',
    async (how) => {
      const { person, up, socket, listed, ada, bob } = await personWithKeys();
      const path = await person.home.socket('agent-ssh-socket');
      if (how === 'a link') await symlink(path, (person.env.SSH_AUTH_SOCK = join(await tempDir(), 'agent')));
      else if (how === 'SSH_AUTH_SOCK') person.env.SSH_AUTH_SOCK = path;
      const options = how.startsWith('--') ? [how] : [];
      const said = await up(...options, '--gpg-key', ada.fingerprint);
      expect(said).toMatch(/^ {2}keys 1 GPG key, 1 SSH key$/m);
      expect(said).toContain('--gpg-key leaves out 1 SSH key');
      expect(said).toContain(`and use the SSH key ${sha256(ada.blob)}`);
      const [status] = await person.json<{ grant: { sshKeys: string[] } }[]>('status');
      expect(status!.grant.sshKeys).toEqual([sha256(ada.blob)]);
      expect(await listed()).toEqual([base64(ada)]);
      expect(await askAll(socket, [login(bob), login(ada)])).toEqual([FAILURE, SIGNATURE]);
      await up('--gpg-key', 'all');
      expect((await listed()).toSorted()).toEqual([ada, bob].map(base64).toSorted());
    },
  );

  it.each(['its socket', 'a link'])(
    'leaves no SSH key of a gpg-agent with another home, by %s',
    async (how) => {
      const { person, up, listed, socket, ada } = await personWithKeys();
      const other = await GnupgHome.create();
      onTestFinished(() => other.remove());
      const foreign = await sshKey(other, 'foreign');
      await writeFile(join(other.dir, 'sshcontrol'), `${foreign.keygrip}\n`);
      await other.launchAgent();
      const path = await other.socket('agent-ssh-socket');
      person.env.SSH_AUTH_SOCK = how === 'a link' ? join(await tempDir(), 'agent') : path;
      if (how === 'a link') await symlink(path, person.env.SSH_AUTH_SOCK);
      expect(await up('--gpg-key', ada.fingerprint)).toMatch(/^ {2}keys 1 GPG key, 0 SSH keys$/m);
      expect(await listed()).toEqual([]);
      expect(await askAll(socket, [login(foreign)])).toEqual([FAILURE]);
    },
  );

  it('goes on to choose among the SSH keys of gpg-agent under --no-gpg', async () => {
    const { up, socket, listed, ada, bob } = await personWithKeys();
    await up('--ssh-from-gpg', '--gpg-key', ada.fingerprint);
    expect(await up('--no-gpg')).toContain(`use no GPG key and the SSH key ${sha256(ada.blob)}`);
    expect(await listed()).toEqual([base64(ada)]);
    expect(await askAll(socket, [login(bob), login(ada)])).toEqual([FAILURE, SIGNATURE]);
    await up('--gpg-key', 'all');
    expect(await listed()).toHaveLength(2);
  });

  it('leaves the keys of another ssh-agent as they are, and so does --no-gpg those of gpg-agent', async () => {
    const { person, up, listed, ada, bob } = await personWithKeys();
    const agent = await startSshAgent();
    await agent.addKey('work');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    expect(await up('--gpg-key', ada.fingerprint)).toMatch(/^ {2}keys 1 GPG key, 1 SSH key$/m);
    expect(await listed()).toHaveLength(1);
    await up('--gpg-key', 'all', '--no-gpg', '--ssh-from-gpg');
    expect((await listed()).toSorted()).toEqual([ada, bob].map(base64).toSorted());
  });
});

it('offers no key under --no-gpg that could make an OpenPGP signature, and says which', async () => {
  const { person, up, listed, socket, ada, bob } = await personWithKeys();
  const rsa = await sshKey(person.home, 'rsa', 'rsa2048');
  await writeFile(
    join(person.home.dir, 'sshcontrol'),
    `${[ada, bob, rsa].map((key) => key.keygrip).join('\n')}\n`,
  );
  await up('--ssh-from-gpg');
  expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([SIGNATURE, SIGNATURE]);
  expect(await up('--no-gpg')).toContain("can't log in here: it also makes OpenPGP signatures");
  expect((await listed()).toSorted()).toEqual([ada, bob].map(base64).toSorted());
  expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([FAILURE, SIGNATURE]);
});

it('offers no key of another ssh-agent under --gpg-key that gpg-agent has for OpenPGP signatures, too', async () => {
  const pinentry = await ScriptedPinentry.create('passphrase');
  onTestFinished(() => pinentry.remove());
  const person = await Person.create({ agentConf: `${pinentry.agentConf}enable-ssh-support\n` });
  const { home, env } = person;
  const agent = await startSshAgent();
  const both = await agent.addKey('both', 'rsa');
  await home.launchAgent();
  const ofGpg = { ...env, SSH_AUTH_SOCK: await home.socket('agent-ssh-socket') };
  await runOk('ssh-add', ['-q', both], { env: ofGpg });
  const control = join(home.dir, 'sshcontrol');
  const keygrip = /^[0-9A-F]{40}/m.exec(await readFile(control, 'utf8'))![0];
  await rm(control);
  const parameters = [
    'Key-Type: RSA',
    `Key-Grip: ${keygrip}`,
    'Key-Usage: sign',
    'Name-Real: Both',
    '%commit',
    '',
  ];
  await home.gpgOk(['--batch', '--full-generate-key'], { input: parameters.join('\n') });
  person.env.SSH_AUTH_SOCK = agent.socketPath;
  const target = await person.localHome();
  const up = (...options: string[]) => person.ok('up', `local:${target.dir}`, ...options);
  const login = signRequest(blobIn(both), userAuthData(blobIn(both)));
  const ask = () => askAll(join(target.dir, 'agent.sock'), [login]);
  expect(await up('--gpg-key', person.fingerprint)).toContain(
    "the SSH key both can't log in here: it also makes OpenPGP signatures, and --gpg-key does not name it",
  );
  expect(await ask()).toEqual([FAILURE]);
  expect(await up('--gpg-key', 'Both')).not.toContain("can't log in");
  expect(await ask()).toEqual([SIGNATURE]);
});

/** The same, and an RSA key of each kind that gpg-agent lists: the second one is on no certificate. */
async function personWithRsaKeys() {
  const known = await personWithKeys();
  const { person, ada, bob } = known;
  const rsa = await sshKey(person.home, 'rsa', 'rsa2048');
  const nameless = await sshKey(person.home, 'nameless', 'rsa2048');
  const list = (...keys: SshKey[]) =>
    writeFile(join(person.home.dir, 'sshcontrol'), keys.map(({ keygrip }) => `${keygrip}\n`).join(''));
  await list(ada, bob, rsa, nameless);
  return { ...known, rsa, nameless, list };
}

describe('a bridge that runs is narrowed to --no-gpg: RSA keys that sign are left out', () => {
  it('by the control verb, with all that is told of it', async () => {
    const { person, target, up, listed, socket, ada, bob, rsa } = await personWithRsaKeys();
    await up('--ssh-from-gpg');
    const before = await askAll(socket, [login(rsa), login(ada)]);
    expect(before).toEqual([SIGNATURE, SIGNATURE]);
    const control = await person.file('.sock');
    const narrowed = await askDaemon(control, 'narrow', 5_000, { gpg: false });
    expect(narrowed?.narrow).toEqual({});
    expect((await listed()).toSorted()).toEqual([ada, bob].map(base64).toSorted());
    expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([FAILURE, SIGNATURE]);
    const status = await person.ok('status', `local:${target.dir}`);
    expect(status).toContain("can't log in here: it also makes OpenPGP signatures");
    expect(status).not.toContain('every SSH key');
    expect(await up('--no-gpg')).toContain("can't log in here: it also makes OpenPGP signatures");
  });

  it('and one choice of keys does not lift the one before', async () => {
    const { person, up, socket, ada, bob } = await personWithKeys();
    await up('--ssh-from-gpg');
    const control = await person.file('.sock');
    await askDaemon(control, 'narrow', 5_000, { sshKeys: [sha256(ada.blob)] });
    expect(await askAll(socket, [login(ada), login(bob)])).toEqual([SIGNATURE, FAILURE]);
    await askDaemon(control, 'narrow', 5_000, { gpgKeys: [bob.fingerprint] });
    expect(await askAll(socket, [login(ada), login(bob)])).toEqual([FAILURE, FAILURE]);
  });

  it('at once, also while the ssh-agent is stuck', async () => {
    const { person, up, target, ada } = await personWithKeys();
    const dir = await tempDir();
    const path = join(dir, 'agent');
    let isStuck = false;
    // Answers a list of no keys, and FAILURE to anything else, until it is stuck.
    const server = createServer((client) => {
      client
        .on('error', () => {})
        .on('data', (bytes) => {
          if (isStuck) return;
          client.write(
            Buffer.from(bytes.includes('session-bind') ? '0000000105' : '000000050c00000000', 'hex'),
          );
        });
    });
    server.listen(path);
    onTestFinished(() => void server.close());
    person.env.SSH_AUTH_SOCK = path;
    await up();
    isStuck = true;
    const narrowed = askDaemon(await person.file('.sock'), 'narrow', 20_000, { gpg: false });
    const grip = `SIGKEY ${ada.keygrip}\nSETHASH 8 ${'00'.repeat(32)}\nPKSIGN\nBYE\n`;
    expect(await talk(join(target.dir, 'S.gpg-agent'), grip)).not.toContain('sig-val');
    await narrowed;
    // Its status is 1 while an agent is stuck.
    const status = async () => (await person.run(['status', `local:${target.dir}`])).stdout.toString();
    expect(await status()).toContain('no SSH key can be used until the ssh-agent lists its keys');
    isStuck = false;
    await expect
      .poll(status, { timeout: 30_000, interval: 500 })
      .not.toContain('no SSH key can be used until');
  });

  it('also where the rest of the change fails', async () => {
    const { person, rsa, ada } = await personWithRsaKeys();
    const dir = await tempDir();
    await mkdir(join(dir, 'home'), { mode: 0o700 });
    const script = await writeScript(
      dir,
      'target',
      `[ -e "${dir}/refuse" ] && exit 9; unset GNUPGHOME XDG_RUNTIME_DIR; HOME="${dir}/home" exec "$@"`,
    );
    await person.ok('up', '--exec', script, '--ssh-from-gpg');
    const socket = join(dir, 'home', '.ssh', 'agent.sock');
    expect(await askAll(socket, [login(rsa)])).toEqual([SIGNATURE]);
    await writeFile(join(dir, 'refuse'), '');
    const failed = await person.run(['up', '--exec', script, '--no-gpg']);
    expect(failed.stderr).toMatch(/what was narrowed stays so: --no-gpg/);
    expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([FAILURE, SIGNATURE]);
    await rm(join(dir, 'refuse'));
  });
});

describe('under --no-gpg a key of unknown usage is left out, and named,', () => {
  it('where its certificate was deleted', async () => {
    const { person, up, socket, nameless, ada } = await personWithRsaKeys();
    // gpg would delete the private key as well.
    await person.home.gpgOk(['--yes', '--expert', '--delete-keys', nameless.fingerprint]).catch(() => {});
    const other = await GnupgHome.create();
    onTestFinished(() => other.remove());
    await other.gpgOk(['--import'], {
      input: await person.home.gpgOk(['--armor', '--export', ada.fingerprint]),
    });
    for (const name of ['pubring.kbx', 'pubring.kbx~'])
      await rm(join(person.home.dir, name), { force: true });
    await rename(join(other.dir, 'pubring.kbx'), join(person.home.dir, 'pubring.kbx'));
    const said = await up('--ssh-from-gpg', '--no-gpg');
    expect(await askAll(socket, [login(nameless), login(ada)])).toEqual([FAILURE, SIGNATURE]);
    expect(said).toContain(
      `the SSH key ${sha256(nameless.blob)} can't log in here: the host doesn't know whether it also makes OpenPGP signatures`,
    );
  });

  it('where the lookup fails', async () => {
    const { person, up, listed, socket, rsa, ada, bob } = await personWithRsaKeys();
    await writeFile(join(person.home.dir, 'trustdb.gpg'), 'corrupt');
    const said = await up('--ssh-from-gpg', '--no-gpg');
    expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([FAILURE, SIGNATURE]);
    expect((await listed()).toSorted()).toEqual([ada, bob].map(base64).toSorted());
    expect(said).toMatch(/the host doesn't know whether it also makes OpenPGP signatures.*\(/);
  });

  it('where it is of a gpg-agent with another home', async () => {
    const { person, up, socket, rsa, ada } = await personWithRsaKeys();
    const other = await Person.create({ key: false });
    other.env.SSH_AUTH_SOCK = await person.home.socket('agent-ssh-socket');
    const target = await other.localHome();
    const said = await other.ok('up', `local:${target.dir}`, '--no-gpg');
    expect(said).toContain("the host doesn't know whether");
    expect(await askAll(join(target.dir, 'agent.sock'), [login(rsa), login(ada)])).toEqual([
      FAILURE,
      SIGNATURE,
    ]);
    void [up, socket];
  });
});

describe('what the ssh-agent is, is judged at every connection', () => {
  it.each([
    ['--gpg-key', (ada: SshKey) => ['--gpg-key', ada.fingerprint]],
    ['--no-gpg', () => ['--no-gpg']],
  ] as const)(
    'a link that leads to gpg-agent after `up` gives it no more under %s',
    async (_name, optionsFor) => {
      const { person, up, socket, listed, ada, rsa } = await personWithRsaKeys();
      const agent = await startSshAgent();
      await agent.addKey('work');
      const link = join(await tempDir(), 'agent');
      await symlink(agent.socketPath, link);
      person.env.SSH_AUTH_SOCK = link;
      await up(...optionsFor(ada));
      expect(await listed()).toHaveLength(1);
      const open = askAll(socket, [login(ada)]);
      expect(await open).toEqual([FAILURE]);
      await rm(link);
      await symlink(await person.home.socket('agent-ssh-socket'), link);
      expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([FAILURE, SIGNATURE]);
      await rm(link);
      await symlink(agent.socketPath, link);
      expect(await listed()).toHaveLength(1);
    },
  );

  it('also for a bridge that was narrowed since', async () => {
    const { person, up, socket, listed, ada, rsa } = await personWithRsaKeys();
    const agent = await startSshAgent();
    await agent.addKey('work');
    const link = join(await tempDir(), 'agent');
    await symlink(agent.socketPath, link);
    person.env.SSH_AUTH_SOCK = link;
    await up();
    const control = await person.file('.sock');
    await askDaemon(control, 'narrow', 5_000, { gpgKeys: [ada.fingerprint] });
    expect(await listed()).toHaveLength(1);
    await rm(link);
    await symlink(await person.home.socket('agent-ssh-socket'), link);
    expect(await askAll(socket, [login(rsa), login(ada)])).toEqual([FAILURE, SIGNATURE]);
  });
});

it.each(['SSH_AUTH_SOCK', "gpg-agent's own socket file"])(
  '--gpg-key follows a redirect of libassuan: %s',
  async (which) => {
    const { person, up, listed, ada } = await personWithRsaKeys();
    const own = await person.home.socket('agent-ssh-socket');
    const place = join(await tempDir(), 'redirected');
    if (which === 'SSH_AUTH_SOCK') {
      await writeFile(place, `%Assuan%\nsocket=${own}\n`);
      person.env.SSH_AUTH_SOCK = place;
    } else {
      await person.home.killAgent();
      await rm(own, { force: true });
      await writeFile(own, `%Assuan%\nsocket=${place}\n`);
      await person.home.launchAgent();
      person.env.SSH_AUTH_SOCK = place;
    }
    await up('--gpg-key', ada.fingerprint);
    expect(await listed()).toEqual([base64(ada)]);
  },
);

it('a connection that has listed a key signs no more with it when gpg-agent stops listing it', async () => {
  const { up, socket, list, ada, bob } = await personWithRsaKeys();
  await up('--ssh-from-gpg');
  const client = await openSshClient(socket);
  onTestFinished(client.close);
  expect(await client.ask(agentMessage(11))).toBe(12);
  expect(await client.ask(login(ada))).toBe(SIGNATURE);
  await list(bob);
  await expect.poll(() => client.ask(login(ada)), { timeout: 10_000, interval: 300 }).toBe(FAILURE);
  expect(await client.ask(login(bob))).toBe(SIGNATURE);
});

it('signs for ssh-keygen -Y and git with a key of gpg-agent', async () => {
  const { target, up, socket, ada } = await personWithKeys();
  await up('--ssh-from-gpg');
  expect(await askAll(socket, [signRequest(ada.blob, sshsigData({ namespace: 'git' }))])).toEqual([
    SIGNATURE,
  ]);
  const dir = await tempDir();
  const env = { ...target.env, SSH_AUTH_SOCK: socket };
  await writeFile(join(dir, 'key.pub'), `ssh-ed25519 ${base64(ada)} ada\n`);
  await writeFile(join(dir, 'signers'), `ada@example.org ssh-ed25519 ${base64(ada)}\n`);
  const git = (...args: string[]) => runOk('git', ['-C', dir, ...args], { env });
  await git('init', '-q');
  for (const [name, value] of [
    ['user.name', 'Ada'],
    ['user.email', 'ada@example.org'],
    ['gpg.format', 'ssh'],
    ['user.signingkey', join(dir, 'key.pub')],
    ['gpg.ssh.allowedSignersFile', join(dir, 'signers')],
  ] as const)
    await git('config', name, value);
  await git('commit', '-q', '-S', '--allow-empty', '-m', 'signed');
  await git('verify-commit', 'HEAD');
});

function sha256(blob: Buffer): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}
