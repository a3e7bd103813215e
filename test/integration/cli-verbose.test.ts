import type { Up } from '@gpg-bridge/test-support/bridged';
import { Person, serverOf } from '@gpg-bridge/test-support/cli';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { run } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { describe, expect, it } from 'vitest';

/** The sizes that the target's end told for frames of a kind, in one session. */
function sizes(log: string, session: string, frame: string): number[] {
  const lines = log.matchAll(new RegExp(`target: session ${session}: ${frame} of (\\d+) bytes`, 'g'));
  return [...lines].map(([, size]) => Number(size));
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

describe.each(['perl', 'node', 'native'] as const)('over %s', (runtime) => {
  requireRuntime(runtime)('a log with --verbose', () => {
    it('tells a session from both ends by one number, and how much went over the wire, but not what', async () => {
      const person = await Person.create();
      const target = await person.localHome();
      const name = `local:${target.dir}`;
      await person.ok('up', name, `--runtime=${runtime}`, '--verbose', '--no-ssh');
      await target.gpgOk(['--clear-sign'], { input: 'hello' });
      const log = () => person.ok('log', name);
      await expect.poll(log, PATIENT).toMatch(/session \d+: ended after/);
      await person.ok('down', name);

      const text = await log();
      const [, session = ''] = /session (\d+): PKSIGN ok/.exec(text) ?? [];
      const [, toHost, toTarget] =
        new RegExp(`session ${session}: ended .*, (\\d+) bytes to the host, (\\d+) back`).exec(text) ?? [];
      expect(sizes(text, session, 'sent OPEN')).toHaveLength(1);
      expect(sizes(text, session, '(?:sent|received) CLOSE').length).toBeGreaterThanOrEqual(1);
      expect(sum(sizes(text, session, 'sent DATA'))).toBe(Number(toHost));
      expect(sum(sizes(text, session, 'received DATA'))).toBe(Number(toTarget));
      expect(text).toMatch(
        /target: call \d+: received CALL of \d+ bytes[\s\S]*target: call \d+: sent RESULT of/,
      );
      expect(text).not.toMatch(/SETHASH \d|sig-val|SETKEYDESC \S+\+/);
    });

    it('tells the same of a session with the ssh-agent, what the bridge itself answers included', async () => {
      const person = await Person.create({ key: false });
      const agent = await startSshAgent();
      await agent.addKey('ada@example.org');
      person.env.SSH_AUTH_SOCK = agent.socketPath;
      const target = await person.localHome();
      const name = `local:${target.dir}`;
      const { sockets } = await person.json<Up>('up', name, `--runtime=${runtime}`, '--verbose', '--no-gpg');
      const env = { ...target.env, SSH_AUTH_SOCK: sockets[0]!.path };
      for (const words of [['-l'], ['-D']]) await run('ssh-add', words, { env });
      await person.ok('down', name);
      const text = await person.ok('log', name);
      const ended = [...text.matchAll(/session (\d+): ended .*, (\d+) bytes to the host, (\d+) back/g)];
      expect(ended.length).toBeGreaterThanOrEqual(2);
      for (const [, session = '', toHost, toTarget] of ended) {
        expect(sum(sizes(text, session, 'sent DATA'))).toBe(Number(toHost));
        expect(sum(sizes(text, session, 'received DATA'))).toBe(Number(toTarget));
      }
    });

    it('says why a bridge ended without the frames that the target told last', async () => {
      const person = await Person.create({ key: false });
      const target = await person.localHome();
      const name = `local:${target.dir}`;
      const { pid } = await person.json<Up>('up', name, `--runtime=${runtime}`, '--verbose', '--no-ssh');
      await target.gpgOk(['--list-secret-keys']);
      process.kill(await serverOf(pid), 'SIGKILL');
      const over = () => person.ok('log', name);
      await expect.poll(over, PATIENT).toMatch(/the bridge is over: /);
      expect(/the bridge is over: .*/.exec(await over())?.[0]).not.toMatch(/frame [<>]/);
    });
  });
});
