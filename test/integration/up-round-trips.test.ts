import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

/** What a first `up` may take, from the launcher to the last socket. */
const LIMIT = 12;

/**
 * Runs a command and counts, in a file, how often the host says something after it has heard something: each of
 * these may be an answer that had to cross the line first.
 */
const COUNTING_RELAY = `
const { spawn } = require('node:child_process');
const { writeFileSync } = require('node:fs');
const [, , file, program, ...args] = process.argv;
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
let [heard, trips] = [true, 0];
process.stdin.on('data', (bytes) => {
  if (heard) writeFileSync(file, String(++trips));
  heard = false;
  child.stdin.write(bytes);
}).on('end', () => child.stdin.end());
child.stdout.on('data', (bytes) => {
  heard = true;
  process.stdout.write(bytes);
});
child.on('close', (status) => process.exit(status ?? 1));
`;

describe.each(['perl', 'python', 'node'] as const)('a first up over %s', (runtime) => {
  requireRuntime(runtime)('alone', () => {
    it(`makes both sockets, with keys and trust, in ${LIMIT} round trips at most`, async () => {
      const agent = await startSshAgent();
      await agent.addKey('a key');
      const person = await Person.create();
      person.env.SSH_AUTH_SOCK = agent.socketPath;
      const target = await person.localHome();
      const dir = await tempDir();
      await writeFile(join(dir, 'relay.cjs'), COUNTING_RELAY);
      const enter = await writeScript(
        dir,
        'enter',
        `GNUPGHOME=${target.dir} HOME=${dir} exec ${process.execPath} ${dir}/relay.cjs ${dir}/trips "$@"`,
      );
      const up = await person.json<{ sockets: unknown[] }>('up', '--exec', enter, '--runtime', runtime);
      expect(up.sockets).toHaveLength(2);
      expect(await target.gpgOk(['--list-keys'])).toContain('ultimate');
      // The launcher's command line is the first of them, and has not crossed the relay.
      const trips = 1 + Number(await readFile(join(dir, 'trips'), 'utf8'));
      expect(trips).toBeGreaterThan(2);
      expect(trips).toBeLessThanOrEqual(LIMIT);
      await person.ok('down', '--exec', enter);
    });
  });
});
