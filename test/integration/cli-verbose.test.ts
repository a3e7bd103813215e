import { Person } from '@gpg-bridge/test-support/cli';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { describe, expect, it } from 'vitest';

/** The sizes that the target's end told for frames of a kind, in one session. */
function sizes(log: string, session: string, frame: string): number[] {
  const lines = log.matchAll(new RegExp(`target: session ${session}: ${frame} of (\\d+) bytes`, 'g'));
  return [...lines].map(([, size]) => Number(size));
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

describe.each(['perl', 'python', 'node', 'native'] as const)('over %s', (runtime) => {
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

    it('says why the target ended in the words of the target, not in frames', async () => {
      const person = await Person.create({ key: false });
      const target = await person.localHome();
      const name = `local:${target.dir}`;
      await person.ok('up', name, `--runtime=${runtime}`, '--verbose', '--no-ssh');
      await target.gpgOk(['--list-secret-keys']);
      await person.ok('down', name);
      const told = (await person.ok('log', name)).split('\n').filter((line) => !line.includes('target: '));
      expect(told.join('\n')).not.toMatch(/frame [<>]|(?:sent|received) [A-Z]+ of/);
    });
  });
});
