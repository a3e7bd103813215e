import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Person, untilGone } from '@gpg-bridge/test-support/cli';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { describe, expect, it } from 'vitest';

interface Status {
  pid: number;
  endsAt: string | null;
  options: { gpgKeys?: string[]; decrypt?: boolean; until?: string; for?: string; allowPassphrase?: boolean };
  grant: Record<string, unknown>;
}

/** What is stored, by file. */
function grantFiles(person: Person): [path: string, text: string][] {
  const directory = join(person.stateDir, 'grants');
  return readdirSync(directory).map((name) => {
    const path = join(directory, name);
    return [path, readFileSync(path, 'utf8')];
  });
}

/** Replaces a file as `up` does. */
function putInPlace(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Somebody with two keys, and a target. */
async function personWithTwoKeys() {
  const person = await Person.create();
  const other = await person.home.createKey('Bob Test <bob@example.org>');
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  const up = (...options: string[]) => person.ok('up', name, ...options);
  const signWith = (key: string) => target.gpg(['-u', key, '--clear-sign'], { input: 'text' });
  const status = async () => (await person.json<Status[]>('status'))[0]!;
  /** Ends the daemon without a chance to do anything. */
  const kill = async () => {
    process.kill((await status()).pid, 'SIGKILL');
    await untilGone(join(target.dir, 'S.gpg-agent'));
  };
  const refusal = async (...words: string[]) => {
    const done = await person.run([...words, '--json']);
    expect(done.status).toBe(1);
    return (JSON.parse(done.stdout.toString()) as { error: { code: string; why: string; fix: string } })
      .error;
  };
  return { person, other, target, name, up, signWith, status, kill, refusal };
}

describe('restrictions', () => {
  it('hold after the daemon was killed, for up and for exec', async () => {
    const { person, name, up, signWith, status, kill } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org', '--no-decrypt', '--allow-passphrase');
    await kill();
    expect(await up()).toMatch(/--gpg-key, --no-decrypt/);
    expect((await status()).options).toMatchObject({ gpgKeys: ['ada@example.org'], decrypt: false });
    expect((await status()).options.allowPassphrase).toBeUndefined();
    expect((await signWith('ada@example.org')).status).toBe(0);
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    await kill();
    expect((await person.run(['exec', name, '--', 'true'])).status).toBe(0);
    expect((await signWith('bob@example.org')).status).not.toBe(0);
  });

  it('hold after down, until they are changed by name or forgotten', async () => {
    const { person, name, up, signWith } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org');
    expect(await person.ok('down', name)).toMatch(/restrictions are kept.*gpg-bridge down --forget/i);
    const shown = await person.run(['status', name]);
    expect(shown.status).toBe(3);
    expect(shown.stdout.toString()).toMatch(/may sign and decrypt with ada@example\.org/);
    await up();
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    await up('--gpg-key', 'all');
    expect((await signWith('bob@example.org')).status).toBe(0);
    expect(await person.ok('down', name)).not.toMatch(/restrictions/i);
    await up('--no-decrypt', '--gpg-key', 'ada@example.org');
    await person.ok('down', name);
    expect(await person.ok('down', '--forget', name)).toMatch(/restrictions are dropped/i);
    await up();
    expect((await signWith('bob@example.org')).status).toBe(0);
    expect(await person.files()).not.toContain('grants');
  });

  it('hold for a bridge in the foreground', async () => {
    const { person, name, up, signWith, status } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org');
    await person.ok('down', name);
    const serve = person.start(['serve', '--target', name]);
    await serve.printed(/bridged/, 'stderr');
    expect((await status()).options.gpgKeys).toEqual(['ada@example.org']);
    expect((await signWith('bob@example.org')).status).not.toBe(0);
  });

  it('that a change which fails would have brought are not kept for a bridge that is down', async () => {
    const { person, name, up, signWith, refusal } = await personWithTwoKeys();
    expect((await refusal('up', name, '--gpg-key', 'eve@example.org')).code).toBe('GPG_KEY_UNKNOWN');
    await up();
    expect((await signWith('bob@example.org')).status).toBe(0);
    await up('--gpg-key', 'ada@example.org');
    await person.ok('down', name);
    // Neither are wider ones.
    expect((await refusal('up', name, '--gpg-key', 'all', '--keys', 'eve@example.org')).code).toBe(
      'KEY_EXPORT_FAILED',
    );
    await up();
    expect((await signWith('bob@example.org')).status).not.toBe(0);
  });

  it('hold for a bridge whose daemon was never told of them, and are said to', async () => {
    const { person, name, up, signWith, status } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org');
    const narrow = grantFiles(person);
    await up('--gpg-key', 'all');
    expect((await signWith('bob@example.org')).status).toBe(0);
    // As an `up` leaves it that is killed between storing and narrowing.
    for (const [path, text] of narrow) putInPlace(path, text);
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    // Until keys have been looked up none is used.
    await expect.poll(() => signWith('ada@example.org'), PATIENT).toMatchObject({ status: 0 });
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    expect((await status()).options.gpgKeys).toEqual(['ada@example.org']);
    expect(await up()).toContain('may sign and decrypt with ada@example.org ');
    await up('--gpg-key', 'all');
    for (const [path, text] of narrow) putInPlace(path, text);
    expect((await person.run(['up', name])).stdout.toString()).toContain('decrypt with ada@example.org ');
    await up('--gpg-key', 'all');
    for (const [path, text] of narrow) putInPlace(path, text);
    expect(await person.ok('status', name)).toContain('decrypt with ada@example.org ');
  });

  it('that a bridge which runs can not read keep every key from being used', async () => {
    const { person, name, up, signWith } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org');
    const good = grantFiles(person);
    for (const [path] of good) putInPlace(path, 'nonsense');
    expect((await signWith('ada@example.org')).status).not.toBe(0);
    const shown = await person.run(['status', name]);
    expect(shown.status).toBe(1);
    expect(shown.stdout.toString()).toMatch(/no key is used: can't read the restrictions/);
    const doctor = await person.run(['doctor', name, '--json']);
    const { checks } = JSON.parse(doctor.stdout.toString()) as { checks: { id: string }[] };
    const unreadable = expect.stringContaining("can't read the restrictions");
    const fix = expect.stringContaining('Restore the file.'); // an `up` would fail
    for (const id of ['line-bridge', 'line-grant'])
      expect(checks.find((check) => check.id === id)).toMatchObject({
        status: 'fail',
        detail: unreadable,
        fix,
      });
    for (const [path, text] of good) putInPlace(path, text);
    expect((await signWith('ada@example.org')).status).toBe(0);
    for (const [path, text] of good) putInPlace(path, text.replace('ada@example.org', 'eve@example.org'));
    const told = async () => (await person.run(['status', name])).stdout.toString();
    await expect.poll(told, PATIENT).toMatch(/no key is used: can't offer the GPG key eve@example.org/);
    expect((await signWith('ada@example.org')).status).not.toBe(0);
    for (const [path, text] of good) putInPlace(path, text);
    expect((await signWith('ada@example.org')).status).toBe(0);
  });

  it('hold for a bridge of another directory for bridges', async () => {
    const { person, target, name, up, signWith } = await personWithTwoKeys();
    const { GPG_BRIDGE_STATE_DIR: _own, ...env } = person.env;
    person.env = { ...env, XDG_STATE_HOME: dirname(person.stateDir), XDG_RUNTIME_DIR: '' };
    await up();
    expect((await signWith('bob@example.org')).status).toBe(0);
    const elsewhere = await person.localHome();
    await chmod(elsewhere.dir, 0o700);
    const other = { XDG_RUNTIME_DIR: elsewhere.dir };
    // That bridge does not get the sockets, which the first one has; what it stores holds all the same.
    await person.run(['up', name, '--gpg-key', 'ada@example.org'], { env: other });
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    await expect.poll(() => signWith('ada@example.org'), PATIENT).toMatchObject({ status: 0 });
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    await person.run(['down', '--all'], { env: other });
    await person.ok('down', '--all');
    await untilGone(join(target.dir, 'S.gpg-agent'));
  });

  it('are kept when the first up fails for another reason, which it says', async () => {
    const { name, up, signWith, refusal } = await personWithTwoKeys();
    const error = await refusal('up', name, '--gpg-key', 'ada@example.org', '--keys', 'eve@example.org');
    expect(error.code).toBe('KEY_EXPORT_FAILED');
    expect(error.why).toMatch(/restrictions that were named are kept: --gpg-key/);
    await up();
    expect((await signWith('ada@example.org')).status).toBe(0);
    expect((await signWith('bob@example.org')).status).not.toBe(0);
  });

  it('are stored for a bridge whose daemon does not answer, which then keeps to them', async () => {
    const { person, name, up, signWith, status } = await personWithTwoKeys();
    await up();
    const { pid } = await status();
    process.kill(pid, 'SIGSTOP');
    const failed = await person.run(['up', name, '--gpg-key', 'ada@example.org']);
    process.kill(pid, 'SIGCONT');
    expect(failed.status).not.toBe(0);
    expect(failed.stderr).toMatch(/restrictions that were named are kept: --gpg-key/);
    expect((await signWith('bob@example.org')).status).not.toBe(0);
    expect((await status()).options.gpgKeys).toEqual(['ada@example.org']);
  });

  it('hold for a command whatever else is in the environment', async () => {
    const { person, status } = await personWithTwoKeys();
    const home = await person.localHome();
    const command = `env GNUPGHOME=${home.dir}`;
    const elsewhere = { XDG_RUNTIME_DIR: '/nowhere/run', KUBECONFIG: '/nowhere/kube' };
    await person.run(['up', '--exec', command, '--gpg-key', 'ada@example.org', '--no-decrypt'], {
      env: elsewhere,
    });
    await person.run(['down', '--exec', command], { env: elsewhere });
    expect((await person.run(['up', '--exec', `env  GNUPGHOME=${home.dir} `])).status).toBe(0);
    expect((await status()).options).toMatchObject({ gpgKeys: ['ada@example.org'], decrypt: false });
  });

  it('that leave no key together give way to keys that are named, also for a bridge that runs', async () => {
    const { person } = await personWithTwoKeys();
    const { dir } = await person.localHome();
    person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
    const up = (context: string, ...options: string[]) =>
      person.run(['up', '--exec', `env GNUPGHOME=${dir}`, ...options], { env: { DOCKER_CONTEXT: context } });
    expect(await up('one', '--gpg-key', 'ada@example.org')).toMatchObject({ status: 0 });
    expect(await up('two', '--gpg-key', 'bob@example.org', '--takeover')).toMatchObject({ status: 0 });
    expect((await up('one', '--takeover')).stdout.toString()).toContain('may use no GPG key');
    const said = (await up('one', '--gpg-key', 'ada@example.org')).stdout.toString();
    expect(said).toContain('may sign and decrypt with ada@example.org');
  });

  it('that can not be read keep the bridge down, and name the file', async () => {
    const { person, name, up, refusal } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org');
    await person.ok('down', name);
    const [file] = readdirSync(join(person.stateDir, 'grants'));
    expect(file).toMatch(/^[0-9a-f]{64}\.json$/);
    const path = join(person.stateDir, 'grants', file!);
    const good = readFileSync(path, 'utf8');
    for (const bad of [
      'nonsense',
      '{}',
      good.replace('gpgKeys', 'gpgKey'),
      good.replace('"version":1', '"version":2'),
    ]) {
      writeFileSync(path, bad);
      const error = await refusal('up', name);
      expect(error).toMatchObject({ code: 'GRANT_UNREADABLE', what: expect.stringContaining(path) });
      expect(error.fix).not.toMatch(/--forget|--gpg-key all|remove|GPG_BRIDGE_STATE_DIR/);
      const exec = await person.run(['exec', name, '--', 'true']);
      expect(exec.status).toBe(1);
      const shown = await person.run(['status', name]);
      expect(shown.status).toBe(3);
      expect(shown.stderr).toContain(`can't read the restrictions in ${path}`);
    }
    expect(await person.json('status')).toEqual([]);
    writeFileSync(path, good);
    await up();
  });
});

describe('--for', () => {
  it('stores an end, after which exec and a plain up refuse until a person names a time', async () => {
    const { person, name, up, status, refusal } = await personWithTwoKeys();
    await up('--for', '1h');
    const { endsAt } = await status();
    await person.ok('down', name);
    await up();
    expect((await status()).endsAt).toBe(endsAt);
    // Given again to a bridge that runs, it is the new end that is stored.
    await up('--for', '1h');
    const later = (await status()).endsAt!;
    expect(later > endsAt!).toBe(true);
    await person.ok('down', name);
    await up();
    expect((await status()).endsAt).toBe(later);
    // Its daemon ends when it is over, and when it sees that it is.
    for (const [path, text] of grantFiles(person))
      putInPlace(path, text.replace(/"until":"[^"]*"/, '"until":"2026-01-01T00:00:00.000Z"'));
    await person.run(['status', name]);
    await person.settled();
    const error = await refusal('up', name);
    expect(error.code).toBe('TIME_OVER');
    expect(error.fix).toMatch(/--for 1h/);
    // A plain `up` would be refused, so it is not suggested.
    const shown = (await person.run(['status', name])).stdout.toString();
    expect(shown.match(/`gpg-bridge up [^`]*`/g)).toEqual([`\`gpg-bridge up ${name} --for 1h\``]);
    const exec = await person.run(['exec', name, '--', 'true']);
    expect(exec.status).toBe(1);
    expect(exec.stderr).toMatch(/--for/);
    expect((await refusal('up', name, '--no-decrypt')).code).toBe('TIME_OVER');
    await up('--for', '1h');
    // What that one named is stored although it failed.
    expect((await status()).grant).toMatchObject({ decrypt: false });
    await person.ok('down', name);
    await up('--for', 'none');
    expect((await status()).endsAt).toBeNull();
  });
});

describe('what a target may do', () => {
  it('is one sentence of up, up again, status and doctor, and data in JSON', async () => {
    const { person, name, up, status } = await personWithTwoKeys();
    const all = `${name} may sign and decrypt with every GPG key and use no SSH key, until \`gpg-bridge down\`.`;
    expect(await up()).toContain(all);
    expect(await up()).toContain(all);
    expect(await person.ok('status')).toContain(all);
    expect((await person.run(['doctor', name])).stdout.toString()).toContain(all);
    expect((await person.run(['doctor'])).stdout.toString()).toContain(all);
    expect((await status()).grant).toEqual({
      gpgKeys: 'all',
      decrypt: true,
      sshKeys: [],
      confirm: false,
      notify: false,
      passphrase: false,
      until: null,
      idle: null,
    });
    const narrow = `${name} may sign with ada@example.org (not decrypt) and use no SSH key; each use is confirmed; until `;
    expect(await up('--gpg-key', 'ada@example.org', '--no-decrypt', '--confirm', '--for', '1h')).toContain(
      narrow,
    );
    expect(await up()).toContain(narrow);
    expect(await person.ok('status', name)).toContain(narrow);
    expect((await status()).grant).toMatchObject({
      gpgKeys: ['ada@example.org'],
      decrypt: false,
      confirm: true,
    });
    const info = await person.json<Status>('up', name);
    expect(info.grant).toMatchObject({ gpgKeys: ['ada@example.org'], decrypt: false, confirm: true });
  });
});
