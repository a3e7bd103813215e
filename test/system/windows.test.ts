import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { signInside, type Up } from '@gpg-bridge/test-support/bridged';
import type { Container, ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { WindowsPerson } from '@gpg-bridge/test-support/windows/person';
import { NODE_VERSIONS } from '@gpg-bridge/test-support/windows/programs';
import { standInWsl } from '@gpg-bridge/test-support/windows/wsl';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Signs once and prints how many milliseconds it took. */
const TIMED_SIGNATURE =
  'a=$(date +%s%N); echo x | gpg --batch --sign >/dev/null; b=$(date +%s%N); echo $(((b-a)/1000000)); ';
const SIGNATURES = 5;
const ROUNDS = 3;

describe.each(NODE_VERSIONS)('Node %s for Windows', (version) => {
  requireSystem('windows', 'docker')('as a host', () => {
    let engine: ContainerEngine;
    let container: Container;
    let person: WindowsPerson;

    beforeAll(async () => {
      engine = await sharedEngine('docker');
      container = await engine.startContainer({ image: 'git' });
      person = await WindowsPerson.create(version, engine);
    }, SETUP_MS);

    afterAll(async () => {
      try {
        await person?.leave();
      } finally {
        await container?.remove();
      }
    });

    const up = (...words: string[]) => person.json<Up>('up', container.name, '--gpg', '--no-ssh', ...words);

    it('bridges a container on an engine behind a named pipe', async () => {
      const { pid, sockets } = await up();
      expect(sockets).toEqual([{ type: 'gpg-agent', path: '/root/.gnupg/S.gpg-agent' }]);
      expect(await signInside(container)).toContain('GOODSIG');
      expect(await up()).toMatchObject({ pid });
      expect(await person.json('status')).toMatchObject([{ target: container.name, pid, state: 'ready' }]);
      expect(await person.ok('log', container.name)).toMatch(
        /signed with Ada Test <ada@example.org> \w+: ok/,
      );
      expect(await person.json('doctor', container.name)).toMatchObject({ ok: true });
      const { status, stdout } = await person.run([
        'exec',
        container.name,
        '--',
        'sh',
        '-c',
        'echo hello; exit 7',
      ]);
      expect([status, stdout]).toEqual([7, 'hello\n']);
      await person.ok('down', container.name);
      expect(await person.json('status')).toEqual([]);
      expect(await container.execOk(['sh', '-c', 'ls /root/.gnupg/S.gpg-agent 2>&1 || :'])).toContain(
        'No such',
      );
    });

    it('keeps its state in the place for it, and the name of the control pipe nowhere else', async () => {
      await up();
      const names = (await readdir(person.stateDirectory)).map((name) => name.replace(/^\w+\./, '')).sort();
      expect(names.filter((name) => !/^\d{4}-\d\d\.uses$/.test(name))).toEqual([
        'grants',
        'log',
        'pid',
        'sock',
      ]);
      const [control = ''] = (await readdir(person.stateDirectory)).filter((name) => name.endsWith('.sock'));
      const pipe = await readFile(join(person.stateDirectory, control), 'utf8');
      expect(pipe).toMatch(/^\\\\\.\\pipe\\gpg-bridge-[0-9a-f]{32}\n$/);
      await person.ok('down', container.name);
      await up();
      expect(await readFile(join(person.stateDirectory, control), 'utf8')).not.toBe(pipe);
    });

    it('makes one bridge of twenty that are asked for at once', async () => {
      await person.ok('down', '--all');
      const all = await Promise.all(Array.from({ length: 20 }, () => up()));
      expect(new Set(all.map(({ pid }) => pid)).size).toBe(1);
      expect(await signInside(container)).toContain('GOODSIG');
    });

    it('gets over a daemon that was killed', async () => {
      const { pid } = await up();
      await person.host.kill(pid);
      const again = await up();
      expect(again.pid).not.toBe(pid);
      expect(await signInside(container)).toContain('GOODSIG');
      await person.host.kill(again.pid);
      expect(await person.ok('down', container.name)).toContain('killed');
      expect(
        (await readdir(person.stateDirectory)).filter((name) => /\.(?:pid|sock|lock)$/.test(name)),
      ).toEqual([]);
    });

    it('goes on with an agent that was started again', async () => {
      await up();
      await person.gnupg('gpgconf', '--kill', 'gpg-agent');
      expect(await signInside(container)).toContain('GOODSIG');
    });
  });
});

requireSystem('windows', 'docker')('a Windows host', () => {
  const version = '22';
  let container: Container;
  let person: WindowsPerson;

  beforeAll(async () => {
    const engine = await sharedEngine('docker');
    container = await engine.startContainer({ image: 'git' });
    person = await WindowsPerson.create(version, engine);
  }, SETUP_MS);

  afterAll(async () => {
    try {
      await person?.leave();
    } finally {
      await container?.remove();
    }
  });

  it('passes input and its end on to a command, over TCP', async () => {
    const env = { DOCKER_HOST: person.tcpHost };
    const words = ['exec', container.name, '--no-ssh', '--', 'sh', '-c', 'gpg --clear-sign; exit 7'];
    const { status, stdout } = await person.run(words, { env, input: 'grüße\n' });
    expect(status).toBe(7);
    expect(stdout).toMatch(/^-----BEGIN PGP SIGNED[\s\S]*\ngrüße\n[\s\S]*-----END PGP SIGNATURE-----\n$/);
    await person.ok('down', '--all');
  });

  it('reaches a distribution through wsl.exe', async () => {
    const wsl = await standInWsl(person.host, version, container);
    const env = { ...wsl.env, PATH: `${wsl.directory};${person.env.PATH}` };
    const up = await person.run(['up', 'wsl:Ubuntu Zwölf', '--no-ssh', '--json'], { env });
    expect([up.status, up.stderr]).toEqual([0, '']);
    expect(JSON.parse(up.stdout)).toMatchObject({ target: 'wsl:Ubuntu Zwölf' });
    expect(wsl.calls[0]?.slice(0, 4)).toEqual(['-d', 'Ubuntu Zwölf', '--exec', 'sh']);
    expect(await signInside(container)).toContain('GOODSIG');
    await person.ok('down', '--all');
  });

  it.each<[number, ...string[]]>([
    [2, 'up', 'local:C:\\x'],
    [2, 'up', '--exec', 'ssh box'],
    [1, 'demo'],
  ])('says with status %i that it has no %s', async (expected, ...words) => {
    const { status, stderr } = await person.run(words);
    expect([status, stderr]).toEqual([expected, expect.stringContaining('Name a container')]);
  });

  it('signs in at most 0.3 of the time that it takes without answering ahead', async () => {
    await person.ok('down', '--all');
    // Straight to the engine: the relay behind the pipe would be most of what is measured.
    const env = { DOCKER_HOST: person.tcpHost };
    const timed = async (flag: '--ahead' | '--no-ahead') => {
      const { status, stderr } = await person.run(['up', container.name, '--no-ssh', flag], { env });
      expect([status, stderr]).toEqual([0, '']);
      await container.execOk(['sh', '-c', TIMED_SIGNATURE]); // it teaches what is asked along
      const printed = await container.execOk(['sh', '-c', TIMED_SIGNATURE.repeat(SIGNATURES)]);
      return printed.trim().split('\n').map(Number);
    };
    const times = { '--ahead': [] as number[], '--no-ahead': [] as number[] };
    for (let round = 0; round < ROUNDS; round++) {
      for (const flag of ['--ahead', '--no-ahead'] as const) times[flag].push(...(await timed(flag)));
    }
    await person.ok('down', '--all');
    // The shortest: a machine that does other things makes each of the two longer, not shorter.
    const [ahead, without] = [Math.min(...times['--ahead']), Math.min(...times['--no-ahead'])];
    expect(ahead / without).toBeLessThanOrEqual(0.3);
  });
});
