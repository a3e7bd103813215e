import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Up } from '@gpg-bridge/test-support/bridged';
import { Person, processesWith, type Started, serverOf } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { runOk, stopProcess } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { describe, expect, it, onTestFinished } from 'vitest';
import { claim } from '../../packages/cli/src/daemon/claim.ts';

const PASSPHRASE = 'correct-horse-battery';
const NO_CHANGE = /was not changed: it was told to end meanwhile/;

interface Status extends Up {
  state: string;
  options: { decrypt?: boolean };
}

/** A home on this machine that is entered by a command, which may be kept waiting, and a person who is slow to type. */
class Scene {
  private constructor(
    readonly person: Person,
    readonly pinentry: ScriptedPinentry,
    readonly target: GnupgHome,
    readonly enter: string,
    readonly keygrip: string,
  ) {}

  static async create(): Promise<Scene> {
    const pinentry = await ScriptedPinentry.create(PASSPHRASE);
    onTestFinished(() => pinentry.remove());
    const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
    await person.home.createKey('Ada <ada@example.org>', { passphrase: PASSPHRASE });
    const listed = await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-secret-keys']);
    const keygrip = /^grp:+([0-9A-F]{40}):/m.exec(listed)![1]!;
    await pinentry.waits();
    const target = await person.localHome();
    const { dir } = target;
    await runOk('mkfifo', [join(dir, 'entering'), join(dir, 'gate')]);
    const enter = await writeScript(
      dir,
      'enter',
      `export GNUPGHOME=${dir} HOME=${dir}
if [ -e ${dir}/closed ]; then echo > ${dir}/entering; read -r _ < ${dir}/gate; fi
exec "$@"`,
    );
    return new Scene(person, pinentry, target, enter, keygrip);
  }

  get path(): string {
    return join(this.target.dir, 'S.gpg-agent');
  }

  up(...flags: string[]): Promise<Up> {
    return this.person.json<Up>('up', '--exec', this.enter, '--runtime=perl', ...flags);
  }

  change(): Started {
    return this.person.start(['up', '--exec', this.enter, '--no-decrypt']);
  }

  down(): Promise<string> {
    return this.person.ok('down', '--exec', this.enter);
  }

  status(): Promise<Status[]> {
    return this.person.json<Status[]>('status');
  }

  /** Whoever enters from now on waits at the gate, once. */
  closeGate(): Promise<void> {
    return writeFile(join(this.target.dir, 'closed'), '');
  }

  /** Resolves when somebody waits there. */
  async entering(): Promise<void> {
    await readFile(join(this.target.dir, 'entering'));
  }

  async openGate(): Promise<void> {
    await rm(join(this.target.dir, 'closed'));
    await writeFile(join(this.target.dir, 'gate'), '\n');
  }

  /** Somebody there signs, and waits for a passphrase; `exited` is gpg's exit status. */
  async signing(): Promise<{ exited: Promise<number | null> }> {
    const gpg = spawn('gpg', ['--batch', '--clear-sign'], {
      env: this.target.env,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    const exited = once(gpg, 'exit').then(([status]) => status as number | null);
    gpg.stdin.end('hello\n');
    await this.pinentry.asked();
    return { exited };
  }

  /** A signature that needs no waiting. */
  async signs(): Promise<void> {
    await this.pinentry.gives(PASSPHRASE);
    const { status, stderr } = await this.target.gpg(['--no-autostart', '--clear-sign'], {
      input: 'hello\n',
    });
    expect(status, stderr).toBe(0);
  }

  /** The process of the daemon that is to take this one's place. */
  async successorOf(pid: number): Promise<number> {
    const all = await processesWith(`GPG_BRIDGE_STATE_DIR=${this.person.stateDir}\0`);
    return all.find((each) => each.command.includes(' serve ') && each.pid !== pid)!.pid;
  }
}

describe('a change that waits for a signature', () => {
  it.each([[['--restart']], [[]]])('comes to nothing when its bridge is ended, up %s', async (flags) => {
    const scene = await Scene.create();
    await scene.up(...flags);
    const { exited } = await scene.signing();
    const change = scene.change();
    await change.printed(/would be cut off/, 'stderr');
    expect(await scene.down()).toContain('is down');
    expect(await change.exited).toBe(1);
    expect(change.stderr).toMatch(NO_CHANGE);
    expect(await scene.status()).toEqual([]);
    expect(existsSync(scene.path)).toBe(false);
    await exited;
    await scene.pinentry.goOn();
  });
});

it('a change that can’t be made fails at once, whoever waits for a person', async () => {
  const scene = await Scene.create();
  const { pid } = await scene.up();
  const { exited } = await scene.signing();
  const { status, stderr } = await scene.person.run(['up', '--exec', scene.enter, '--keys=typo@x']);
  expect(stderr).toContain('typo@x');
  expect(status).toBe(1);
  await scene.pinentry.goOn();
  expect(await exited).toBe(0);
  expect(await scene.status()).toMatchObject([{ pid, state: 'ready' }]);
  await scene.signs();
});

describe('a bridge that has another one’s sockets, and waits for that to finish', () => {
  /** A session of the old bridge signs just before the new one takes its sockets. */
  async function changed(...flags: string[]) {
    const scene = await Scene.create();
    const { pid } = await scene.up(...flags);
    const client = await TestClient.connect(scene.path);
    await client.reads('OK ');
    await scene.closeGate();
    const change = scene.change();
    await scene.entering();
    client.write(`SIGKEY ${scene.keygrip}\nSETKEYDESC x\nSETHASH 8 ${'ab'.repeat(32)}\nPKSIGN\n`);
    await scene.pinentry.asked();
    const before = lstatSync(scene.path).ino;
    await scene.openGate();
    const inode = () => lstatSync(scene.path, { throwIfNoEntry: false })?.ino ?? before;
    await expect.poll(inode, PATIENT).not.toBe(before);
    await expect.poll(async () => (await scene.status())[0]?.state, PATIENT).toBe('ending');
    return { scene, pid, client, change };
  }

  it.each([[['--restart']], [[]]])('gives them back when its own line is lost, up %s', async (flags) => {
    const { scene, pid, client, change } = await changed(...flags);
    const server = await serverOf(await scene.successorOf(pid));
    process.kill(server, 'SIGKILL');
    expect(await change.exited).toBe(1);
    expect(change.stderr).toContain('closed its end');
    await expect.poll(() => scene.status(), PATIENT).toMatchObject([{ pid, state: 'ready' }]);
    await scene.pinentry.goOn();
    await client.reads('D (7:sig-val');
    await scene.signs();
    // What the change took away is not given back with the rest.
    expect(change.stderr).toContain('what was narrowed stays so: --no-decrypt');
    expect((await scene.status())[0]?.options.decrypt).toBe(false);
  });

  it.each([[['--restart']], [[]]])('ends when that is told to end, up %s', async (flags) => {
    const { scene, client, change } = await changed(...flags);
    expect(await scene.down()).toContain('is down');
    expect(await change.exited).toBe(1);
    expect(change.stderr).toMatch(NO_CHANGE);
    expect(await scene.status()).toEqual([]);
    expect(existsSync(scene.path)).toBe(false);
    await client.readsAll();
    await scene.pinentry.goOn();
  });
});

it('a change waits for a bridge that is attaching again', async () => {
  const scene = await Scene.create();
  const { pid } = await scene.up('--restart');
  await scene.closeGate();
  const server = await serverOf(pid);
  process.kill(server, 'SIGKILL');
  await scene.entering();
  const change = scene.change();
  await delay(1_000); // nothing tells that it waits; if it has not come that far, it finds the bridge attached
  await scene.openGate();
  expect(await change.exited, change.stderr).toBe(0);
  expect(change.stdout).toContain('was changed');
  expect(await scene.status()).toMatchObject([{ state: 'ready', options: { decrypt: false } }]);
  await scene.signs();
});

it.each([[['--restart']], [[]]])('a bridge whose target is silent can be changed, up %s', async (flags) => {
  const scene = await Scene.create();
  const { pid } = await scene.up(...flags);
  const server = await serverOf(pid);
  await stopProcess(server);
  const change = scene.change();
  expect(await change.exited, change.stderr).toBe(0);
  expect(await scene.status()).toMatchObject([{ state: 'ready', options: { decrypt: false } }]);
  await scene.signs();
});

it('down ends what has taken a bridge’s place, while that is still going', async () => {
  const scene = await Scene.create();
  const { pid } = await scene.up();
  const server = await serverOf(pid);
  await stopProcess(server); // so that its bridge takes long to end
  const log = scene.person.start(['log', '--exec', scene.enter, '-f']);
  const change = scene.change();
  await log.printed(/another bridge has taken its place/);
  expect(await scene.down()).toContain('is down');
  await change.exited;
  expect(await scene.status()).toEqual([]);
  expect(existsSync(scene.path)).toBe(false);
});

it('a change does not wait for an ssh client that has gone', async () => {
  const pinentry = await ScriptedPinentry.create(PASSPHRASE);
  onTestFinished(() => pinentry.remove());
  const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
  await person.home.createKey('Auth <auth@example.org>', { usage: 'auth', passphrase: PASSPHRASE });
  const listing = await person.home.gpgOk(['-K', '--with-keygrip', '--with-colons']);
  await writeFile(join(person.home.dir, 'sshcontrol'), `${/^grp:+([0-9A-F]{40}):/m.exec(listing)![1]}\n`);
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await person.ok('up', name, '--ssh-from-gpg', '--runtime=perl');
  const env = { ...target.env, SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
  const publicKey = join(target.dir, 'key.pub');
  await writeFile(publicKey, await runOk('ssh-add', ['-L'], { env }));
  await pinentry.waits();
  const gone = spawn('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', publicKey], {
    env,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  gone.stdin.end('hello\n');
  await pinentry.asked();
  const change = person.start(['up', name, '--runtime=node']);
  await change.printed(/sign with key SHA256:\S+ in local:.* would be cut off/, 'stderr');
  gone.kill();
  expect(await change.exited, change.stderr).toBe(0);
  expect(change.stdout).toContain('was changed');
  await pinentry.goOn();
});

it('a change is made although the time of the bridge is over meanwhile', async () => {
  const scene = await Scene.create();
  await scene.up('--for=20s');
  const { exited } = await scene.signing();
  const change = scene.person.start(['up', '--exec', scene.enter, '--no-decrypt', '--for=1h']);
  await change.printed(/would be cut off/, 'stderr');
  expect(await change.exited, change.stderr).toBe(0);
  expect(change.stdout).toContain('was changed');
  expect(await scene.status()).toMatchObject([{ state: 'ready', options: { decrypt: false } }]);
  await exited;
  await scene.pinentry.goOn();
  await scene.signs();
});

it('a first `up` says that its bridge was told to end', async () => {
  const scene = await Scene.create();
  await scene.closeGate();
  const up = scene.person.start(['up', '--exec', scene.enter]);
  await scene.entering();
  expect(await scene.down()).toContain('is down');
  expect(await up.exited).toBe(1);
  expect(up.stderr).toContain('it was told to end');
  expect(await scene.status()).toEqual([]);
});

describe('down while a change is under way', () => {
  it('has it come to nothing when the old bridge has left its sockets, and the new one starts', async () => {
    const scene = await Scene.create();
    await scene.up();
    await scene.closeGate();
    const change = scene.change();
    await scene.entering();
    expect(await scene.down()).toContain('is down');
    expect(await change.exited).toBe(1);
    expect(change.stderr).toMatch(NO_CHANGE);
    expect(await scene.status()).toEqual([]);
    expect(existsSync(scene.path)).toBe(false);
  });

  it('has it come to nothing before the old bridge was asked', async () => {
    const scene = await Scene.create();
    const { pid } = await scene.up();
    const server = await serverOf(pid);
    await stopProcess(server); // so that it takes long to find out what works of its bridge
    const change = scene.change();
    const locked = async () => (await scene.person.files()).some((name) => /^[0-9a-f]+\.lock$/.test(name));
    await expect.poll(locked, PATIENT).toBe(true);
    await stopProcess(change.child.pid!);
    const down = scene.down();
    await scene.person.settled();
    change.child.kill('SIGCONT');
    expect(await down).toContain('is down');
    expect(await change.exited).toBe(1);
    expect(change.stderr).toMatch(NO_CHANGE);
    expect(await scene.status()).toEqual([]);
  });

  it('tells an `up` that does not react to give up, and says so instead of waiting for ever', async () => {
    const scene = await Scene.create();
    await scene.up();
    const path = (await scene.person.file('.sock')).replace(/sock$/, 'lock');
    await scene.down();
    const told: string[] = [];
    const stuck = await claim(path, (socket) => {
      socket.setEncoding('utf8').on('data', (text: string) => told.push(text));
    });
    onTestFinished(() => stuck?.release());
    const busy = /^Another `gpg-bridge up` is starting or changing .*told to give up, and has not yet\.$/m;
    const [one, all] = await Promise.all([scene.down(), scene.person.ok('down', '--all')]);
    expect(one).toMatch(busy);
    expect(all).toMatch(busy);
    expect(`${one}${all}`).not.toMatch(/no bridge/i);
    expect(told).toEqual(['stop\n', 'stop\n']);
  });

  it('has it come to nothing with --force and with --all, too', async () => {
    const scene = await Scene.create();
    for (const words of [['--exec', scene.enter, '--force'], ['--all']]) {
      await scene.up('--decrypt'); // what the change before took away has stayed so
      await scene.closeGate();
      const change = scene.change();
      await scene.entering();
      await scene.person.ok('down', ...words);
      expect(await change.exited).toBe(1);
      expect(change.stderr).toMatch(NO_CHANGE);
      expect(await scene.status()).toEqual([]);
      await rm(join(scene.target.dir, 'closed'));
    }
  });
});
