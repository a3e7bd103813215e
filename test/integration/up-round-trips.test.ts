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
 * Runs a command and notes, in a file, how many round trips it takes: the launcher's line is one, READY the second,
 * and a call is one more than the latest result that the host had before it.
 */
const COUNTING_RELAY = `
const { spawn } = require('node:child_process');
const { writeFileSync } = require('node:fs');
const [, , file, program, ...args] = process.argv;
const [READY, CALL, RESULT] = [5, 11, 12];
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const tripOf = new Map();
let heard = 1;

/** Calls back for every frame behind what 'start' takes away. */
function frames(start, onFrame) {
  let held = Buffer.alloc(0);
  let started = false;
  return (bytes) => {
    held = Buffer.concat([held, bytes]);
    if (!started) {
      const skipped = start(held);
      if (skipped === undefined || skipped > held.length) return;
      started = true;
      held = held.subarray(skipped);
    }
    while (held.length >= 4 && held.length >= 4 + held.readUInt32BE(0)) {
      onFrame(held[4], held.readUInt32BE(5));
      held = held.subarray(4 + held.readUInt32BE(0));
    }
  };
}
const lineEnd = (bytes) => (bytes.includes(10) ? bytes.indexOf(10) + 1 : undefined);
const source = (bytes) => {
  const end = lineEnd(bytes);
  const [text, settings] = bytes.toString('latin1', 0, end ?? 0).split(' ').map(Number);
  if (settings !== undefined || end === undefined) return end === undefined ? undefined : end + text + settings;
  // A program: blocks, and a line of settings.
  const settingsEnd = bytes.indexOf(10, end + 1024 * text);
  return settingsEnd < 0 ? undefined : settingsEnd + 1;
};

const fromHost = frames(source, (type, call) => {
  if (type !== CALL) return;
  tripOf.set(call, heard + 1);
  writeFileSync(file, String(Math.max(...tripOf.values())));
});
const fromTarget = frames(lineEnd, (type, call) => {
  if (type === READY) heard = 2;
  else if (type === RESULT) heard = Math.max(heard, tripOf.get(call));
});
process.stdin.on('data', (bytes) => {
  fromHost(bytes);
  child.stdin.write(bytes);
}).on('end', () => child.stdin.end());
// As over a line: what the host says together has left before the first answer comes.
child.stdout.on('data', (bytes) => setTimeout(() => {
  fromTarget(bytes);
  process.stdout.write(bytes);
}, 50));
child.on('close', (status) => setTimeout(() => process.exit(status ?? 1), 100));
`;

describe.each(['perl', 'node', 'native'] as const)('a first up over %s', (runtime) => {
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
      const trips = Number(await readFile(join(dir, 'trips'), 'utf8'));
      expect(trips).toBeGreaterThan(2);
      expect(trips).toBeLessThanOrEqual(LIMIT);
      await person.ok('down', '--exec', enter);
    });
  });
});
