import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Person } from '@gpg-bridge/test-support/cli';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';

/** Of one processor; without a budget it is most of one, and all of one for short lines. */
const MOST = 0.25;
const MEASURED_MS = 2_000;
/** What Linux counts a process's time in. */
const TICKS_PER_SECOND = 100;

/** Seconds of a processor that a process has used. */
function usedSeconds(pid: number): number {
  // The name, in parentheses, may have spaces in it.
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** Writes one text again and again, also where the server has made the stream one that does not wait. */
const FLOOD =
  '$text = (shift) x 4096; for (;;) { vec($w = "", 2, 1) = 1; select(undef, $w, undef, undef); syswrite(STDERR, $text) }';

const LEFT_OUT = /\d+ (?:bytes|lines) were left out: too many came/;

it.each([
  ['short lines', "'y\n'", LEFT_OUT],
  ['long lines', `'${'x'.repeat(500)}\n'`, LEFT_OUT],
  ['a line without an end', "'x'", /bridged/],
])(
  'a target that floods its standard error with %s takes little of the host',
  async (_name, text, logged) => {
    const person = await Person.create();
    const { dir } = await person.localHome();
    const enter = join(await tempDir(), 'enter');
    await writeScript(
      join(enter, '..'),
      'enter',
      `perl -e '${FLOOD}' ${text} & trap "kill $!" EXIT\nGNUPGHOME='${dir}' "$@" <&0`,
    );
    const { pid } = await person.json<{ pid: number }>('up', '--exec', enter);
    const sign = () => person.home.gpg(['--clear-sign'], { input: 'text', env: { GNUPGHOME: dir } });
    await sign();
    const [before, since] = [usedSeconds(pid), performance.now()];
    await delay(MEASURED_MS);
    const used = (usedSeconds(pid) - before) / ((performance.now() - since) / 1_000);
    expect(used).toBeLessThan(MOST);
    const begun = performance.now();
    expect((await sign()).status).toBe(0);
    expect(performance.now() - begun).toBeLessThan(5_000);
    expect(await person.ok('log', '--exec', enter)).toMatch(logged);
  },
);
