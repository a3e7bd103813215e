import { readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';

// There is no Windows here: a stand-in takes the program's place, notes how it was called, and
// runs the command that it was given in a home of its own.
const TARGETS = [
  { spec: 'wsl:Debian', args: ['--user', 'dev'], program: 'wsl.exe', words: '-d Debian -u dev --exec' },
];

it.each(TARGETS)('signs in $spec through $program', async ({ spec, args, program, words }) => {
  const person = await Person.create();
  const target = await person.localHome();
  const programs = await tempDir();
  const count = words.split(' ').length;
  const body = `echo "$@" | head -n 1 > '${programs}/called'; shift ${count}; GNUPGHOME='${target.dir}' exec "$@"`;
  await writeScript(programs, program, body);
  person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
  await person.ok('up', spec, ...args);
  expect(await readFile(join(programs, 'called'), 'utf8')).toMatch(new RegExp(`^${words} sh -c `));
  const signed = await target.gpg(['--clear-sign'], { input: 'hello' });
  const verified = await target.gpg(['--status-fd', '1', '--verify'], { input: signed.stdout });
  expect(verified.stdout.toString()).toContain(`VALIDSIG ${person.fingerprint}`);
  expect(await person.ok('down', spec, ...args)).toBe(`The bridge to ${spec} is down.\n`);
});
