import { once } from 'node:events';
import { existsSync, lstatSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Up } from '@gpg-bridge/test-support/bridged';
import { childrenOf, Person, serverOf } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { FarMachine } from '@gpg-bridge/test-support/far-machine';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { stopProcess } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { TcpRelay } from '@gpg-bridge/test-support/tcp-relay';
import { describe, expect, it } from 'vitest';

interface Status extends Up {
  state: string;
  problems: string[];
}

/** Long enough for a process of a busy machine to answer, short enough to wait for: two seconds of silence. */
const USUAL = '400';
/** Silence that is not noticed while the test looks. */
const PATIENT_TICKS = '100,200';
const REFUSAL = /ERR 67108941 No agent running <GPG Agent> - [^\n]+\n$/;

/** A person, a machine elsewhere, and a relay on the way to it. */
class Scene {
  private constructor(
    readonly person: Person,
    readonly target: GnupgHome,
    readonly machine: FarMachine,
    readonly relay: TcpRelay,
  ) {}

  static async create(heartbeat = USUAL): Promise<Scene> {
    const person = await Person.create();
    person.env.GPG_BRIDGE_HEARTBEAT = heartbeat;
    person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
    const target = await person.localHome();
    const machine = await FarMachine.start({ ...target.env, HOME: target.dir, GNUPGHOME: target.dir });
    return new Scene(person, target, machine, await TcpRelay.to(machine.port));
  }

  get path(): string {
    return join(this.target.dir, 'S.gpg-agent');
  }

  get sshPath(): string {
    return join(this.target.dir, '.ssh/agent.sock');
  }

  up(...flags: string[]): Promise<Up> {
    return this.person.json<Up>('up', '--exec', this.machine.enter(this.relay), ...flags);
  }

  async status(): Promise<Status | undefined> {
    return (await this.person.json<Status[]>('status'))[0];
  }

  async log(): Promise<string> {
    return readFile(await this.person.file('.log'), 'utf8');
  }

  async sign(): Promise<void> {
    const { status, stderr } = await this.target.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' });
    expect(status, stderr).toBe(0);
  }

  /** The sockets and the process in the target are gone. */
  async untilNothingIsThere(): Promise<void> {
    await expect.poll(() => this.machine.running.length, PATIENT).toBe(0);
    expect([existsSync(this.path), existsSync(this.sshPath)]).toEqual([false, false]);
  }
}

const FAULTS = [
  ['freezes', (relay: TcpRelay) => relay.freeze()],
  ['loses everything', (relay: TcpRelay) => relay.drop()],
] as const;

describe.each(FAULTS)('a line that %s', (_name, fault) => {
  describe.each(['perl', 'node', 'native'] as const)('to a server on %s', (runtime) => {
    requireRuntime(runtime)('alone', () => {
      it('is noticed by both ends, and every session gets an error', async () => {
        const scene = await Scene.create();
        const elsewhere = await scene.person.localHome();
        await scene.person.ok('up', `local:${elsewhere.dir}`);
        const other = await TestClient.connect(join(elsewhere.dir, 'S.gpg-agent'));
        await scene.up(`--runtime=${runtime}`);
        const greeted = await TestClient.connect(scene.path);
        await greeted.reads('OK ');
        const ssh = await TestClient.connect(scene.sshPath);
        fault(scene.relay);

        greeted.write('KEYINFO --list\n');
        const late = await TestClient.connect(scene.path);
        late.write('HAVEKEY 0000000000000000000000000000000000000000\n');
        ssh.write('\0\0\0\u0001\u000b');
        expect(await greeted.readsAll()).toMatch(REFUSAL);
        expect(await late.readsAll()).toMatch(/^OK [^\n]*\nERR 67108941 No agent running[^\n]*\n$/);
        expect(await ssh.readsAll()).toBe('');
        for (const { socket } of [greeted, late, ssh]) socket.destroy();
        await scene.untilNothingIsThere();

        // The daemon of that line ends, with a reason; the other bridge goes on.
        const enter = scene.machine.enter(scene.relay);
        await expect
          .poll(async () => (await scene.person.run(['status', '--exec', enter])).status, PATIENT)
          .toBe(3);
        other.write('GETINFO version\nBYE\n');
        expect(await other.readsAll()).toMatch(/^OK [^\n]*\nD 2[^\n]*\nOK\nOK closing connection\n$/);
        expect((await scene.person.json<Status[]>('status')).map(({ target }) => target)).toEqual([
          `local:${elsewhere.dir}`,
        ]);
      });
    });
  });

  it('is attached to again with --restart when it is back', async () => {
    const scene = await Scene.create();
    const { pid } = await scene.up('--restart', '--runtime=perl');
    await scene.sign();
    const client = await TestClient.connect(scene.path);
    fault(scene.relay);
    expect(await client.readsAll()).toMatch(REFUSAL);
    client.socket.destroy();
    await scene.untilNothingIsThere();
    await expect.poll(async () => (await scene.status())?.state, PATIENT).toBe('waiting-for-target');
    expect(await scene.log()).toMatch(/the bridge is over: nothing came from the target for 2\.4 s/);

    scene.relay.pass();
    await expect.poll(async () => (await scene.status())?.state, PATIENT).toBe('ready');
    expect(await scene.status()).toMatchObject({ pid });
    await scene.sign();
    expect(scene.machine.running).toHaveLength(1);
  });

  it('shows in status while it is waited for', async () => {
    const scene = await Scene.create(PATIENT_TICKS);
    await scene.up('--runtime=perl');
    expect(await scene.status()).toMatchObject({ state: 'ready' });
    fault(scene.relay);
    const shown = await scene.person.run(['status', '--exec', scene.machine.enter(scene.relay)]);
    expect(shown.status).toBe(1);
    expect(shown.stdout.toString()).toMatch(/ broken for .*problem +[^\n]*the target does not answer/s);
    scene.relay.leadTo(0);
  });

  it('leaves no server behind that puts sockets back', async () => {
    const scene = await Scene.create(PATIENT_TICKS);
    await scene.up('--runtime=perl');
    fault(scene.relay);
    await scene.person.ok('down', '--exec', scene.machine.enter(scene.relay));
    // The server does not know yet. Without its socket it asks the host, which decides nothing any more.
    expect(existsSync(scene.path)).toBe(true);
    await rm(scene.path);
    await delay(500);
    expect(existsSync(scene.path)).toBe(false);
    scene.relay.pass();
    await delay(500);
    expect(existsSync(scene.path)).toBe(false);
    scene.relay.leadTo(0);
    await scene.untilNothingIsThere();
  });
});

describe('two bridges to one target whose lines are dead', () => {
  it('do not take each other’s place', async () => {
    const scene = await Scene.create('1000');
    await scene.up('--runtime=perl');
    const first = lstatSync(scene.path).ino;
    scene.relay.freeze();
    const again = await TcpRelay.to(scene.machine.port);
    await scene.person.ok('up', '--exec', scene.machine.enter(again), '--runtime=node');
    const second = lstatSync(scene.path).ino;
    expect(second).not.toBe(first);
    again.freeze();
    expect(scene.machine.running).toHaveLength(2);
    const client = await TestClient.connect(scene.path);
    const seen = new Set<number>();
    // Until both have ended the path leads to the second one, and then nowhere.
    while (existsSync(scene.path)) {
      const { ino } = lstatSync(scene.path, { throwIfNoEntry: false }) ?? {};
      if (ino !== undefined) seen.add(ino);
      await delay(20);
    }
    expect([...seen]).toEqual([second]);
    expect(await client.readsAll()).toMatch(REFUSAL);
  });
});

describe('a line that is alive', () => {
  it('carries next to nothing while nobody uses it', async () => {
    const [tickMs, idleTicks] = [50, 40];
    const scene = await Scene.create(`${tickMs},100,${idleTicks}`);
    await scene.up('--runtime=perl');
    await scene.sign();
    const idleMs = idleTicks * tickMs;
    await delay(idleMs / 2);
    const before = { ...scene.relay.bytes };
    const started = performance.now();
    await delay(4 * idleMs);
    const minutes = (performance.now() - started) / idleMs;
    const { fromNear, fromFar } = scene.relay.bytes;
    const bytes = fromNear - before.fromNear + fromFar - before.fromFar;
    // A PING and a PONG for each end are 36 bytes; one of them is enough most of the time.
    expect(bytes).toBeLessThanOrEqual(36 * (minutes + 1));
    await scene.sign();
  });

  it('is not given up while a person types a passphrase', async () => {
    const scene = await Scene.create('200,10');
    await scene.up('--runtime=perl');
    const client = await TestClient.connect(scene.path);
    await client.reads('OK ');
    const { fromNear } = scene.relay.bytes;
    // Longer than a line may be silent.
    await delay(30 * 200);
    expect(scene.relay.bytes.fromNear).toBeGreaterThan(fromNear);
    client.write('GETINFO version\nBYE\n');
    expect(await client.readsAll()).toMatch(/\nD 2[^\n]*\nOK\nOK closing connection\n$/);
  });
});

describe('a line that has ended before the program that carried it', () => {
  it.each([
    ['with --restart', ['--restart'], 'waiting-for-target'],
    ['without', [], 'ending'],
  ])('is not said to be up, %s', async (_name, flags, state) => {
    const person = await Person.create();
    const target = await person.localHome();
    const over = join(target.dir, 'over');
    const enter = await writeScript(
      target.dir,
      'enter',
      `[ -e ${over} ] && exit 1
      GNUPGHOME=${target.dir} HOME=${target.dir} "$@"
      exec >&-
      : >${over}
      exec sleep 2`,
    );
    const { pid } = await person.json<Up>('up', '--exec', enter, '--runtime=perl', ...flags);
    const [program] = await childrenOf(pid);
    const [server] = await childrenOf(program!);
    process.kill(server!, 'SIGTERM');
    await expect.poll(() => existsSync(over), PATIENT).toBe(true);
    const { status, stdout } = await person.run(['status', '--exec', enter, '--json']);
    // A slow look may find it gone.
    const shown = JSON.parse(stdout.toString()) as Status[];
    if (state === 'ending' && shown.length === 0) expect(status).toBe(3);
    else {
      const lastError = expect.stringMatching(/^the target closed its end/);
      expect([status, shown]).toMatchObject([1, [{ state, lastError }]]);
    }
  });
});

describe('a line that ends', () => {
  /** Enters a home on this machine, with programs of a test's own first. */
  async function enterScript(target: GnupgHome): Promise<string> {
    const words = `GNUPGHOME=${target.dir} HOME=${target.dir} PATH=${target.dir}/bin:$PATH`;
    return writeScript(target.dir, 'enter', `export ${words}\nexec "$@"`);
  }

  it.each([[['--restart']], [[]]])(
    'while `up %s` looks at its bridge is there again behind it',
    async (flags) => {
      const person = await Person.create();
      const target = await person.localHome();
      const up = ['up', '--exec', await enterScript(target), '--runtime=perl', ...flags];
      const { pid } = await person.json<Up>(...up);
      const server = await serverOf(pid);
      await stopProcess(server); // so that the look takes until the end
      const again = person.run(up);
      await delay(700);
      process.kill(server, 'SIGKILL');
      const { status, stderr } = await again;
      expect(status, stderr).toBe(0);
      expect(await person.json<Status[]>('status')).toMatchObject([{ state: 'ready' }]);
      const signed = await target.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' });
      expect(signed.status, signed.stderr).toBe(0);
    },
  );

  it('while another bridge was to take its place is blamed on nobody', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const enter = await enterScript(target);
    const { pid } = await person.json<Up>('up', '--exec', enter, '--runtime=perl', '--restart');
    const server = await serverOf(pid);
    const successor = connect(await person.file('.sock'));
    successor.write('handover\n');
    await once(successor, 'data');
    process.kill(server, 'SIGKILL');
    const state = async () => (await person.json<Status[]>('status')).map((bridge) => bridge.state);
    await expect.poll(state, PATIENT).toEqual(['waiting-for-target']);
    successor.destroy();
    await expect.poll(state, PATIENT).toEqual(['ready']);
    expect(await person.ok('log', '--exec', enter)).not.toContain('something replaced');
  });

  it('while git is set up in the target ends the bridge that was being started', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await mkdir(join(target.dir, 'bin'));
    await writeScript(join(target.dir, 'bin'), 'git', 'kill -KILL $PPID');
    const enter = await enterScript(target);
    const { status, stderr } = await person.run([
      'up',
      '--exec',
      enter,
      '--runtime=perl',
      '--git',
      '--restart',
    ]);
    expect(stderr).toContain('closed its end');
    expect(status).not.toBe(0);
    expect(await person.json('status')).toEqual([]);
  });
});

it('a session on a dead line has its error after some ten seconds, as things are set', async () => {
  const scene = await Scene.create();
  delete scene.person.env.GPG_BRIDGE_HEARTBEAT;
  await scene.up('--runtime=perl');
  await scene.sign();
  scene.relay.freeze();
  const started = performance.now();
  const client = await TestClient.connect(scene.path);
  client.write('HAVEKEY 0000000000000000000000000000000000000000\n');
  expect(await client.readsAll()).toMatch(REFUSAL);
  // Nine seconds without an answer end the line; the rest is for a busy machine.
  expect(performance.now() - started).toBeLessThan(20_000);
});
