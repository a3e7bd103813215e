import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { residentKiB } from '../processes.mjs';
import { interleave, median } from '../statistics.mjs';
import { ms, table } from '../tables.mjs';

const RUNTIMES = [
  { id: 'node', label: 'Node', file: 'server.cjs', bare: ['node', '-e', '0'] },
  { id: 'perl', label: 'Perl', file: 'server.pl', bare: ['perl', '-e', '0'] },
];
const READY = 5;
const HEADER_BYTES = 9;

/** What it takes to have a socket server run, from the shell that is started to READY. */
export const serverStart = {
  id: 'server-start',
  title: 'Start and size of the socket servers',

  async run(bench, scale, say) {
    const skipped = {};
    const rows = {};
    const usable = [];
    for (const runtime of RUNTIMES) {
      try {
        const source = await readFile(join(bench.directory, 'dist/servers', runtime.file), 'utf8');
        const started = await start(bench, runtime.id, source);
        rows[runtime.id] = { label: runtime.label, bytes: started.bytes, residentKiB: started.residentKiB };
        usable.push({ ...runtime, source });
      } catch (error) {
        skipped[runtime.label] = error.message;
      }
    }
    say('starts');
    const starts = await interleave(usable, scale.serverStarts, async ({ id, source }) => [
      (await start(bench, id, source)).us,
    ]);
    const bare = await interleave(usable, scale.serverStarts, ({ bare: argv }) =>
      bench.client(['time', 1, '--', ...argv]),
    );
    for (const runtime of usable) {
      rows[runtime.id].us = median(starts.get(runtime));
      rows[runtime.id].bareUs = median(bare.get(runtime));
    }
    return { rows, skipped };
  },

  render({ rows, skipped }) {
    return [
      'From the start of the launching shell to READY, with the ssh socket alone, so that no gpg is run. The size is',
      'what travels through standard input.',
      '',
      table(
        ['server', 'start to READY', 'the bare runtime', 'size', 'resident'],
        Object.values(rows).map(({ label, us, bareUs, bytes, residentKiB: kib }) => [
          label,
          `${ms(us)} ms`,
          `${ms(bareUs)} ms`,
          `${(bytes / 1024).toFixed(1)} KiB`,
          `${(kib / 1024).toFixed(1)} MiB`,
        ]),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};

async function start(bench, runtime, source) {
  const { launcherCommand, serverPayload, parseLauncherLine, SERVER_CONFIG } = bench.support;
  const payload = serverPayload(runtime, SERVER_CONFIG, source);
  const [program, ...args] = launcherCommand(runtime);
  const begun = performance.now();
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const closed = once(child, 'close');
  let complaint = '';
  child.stderr.on('data', (text) => {
    complaint += text;
  });
  child.stdin.on('error', () => {});
  try {
    await new Promise((resolve, reject) => {
      let printed = Buffer.alloc(0);
      let launched = false;
      closed.then(() => reject(new Error(`it ended: ${complaint.trim().slice(-300)}`)));
      child.stdout.on('data', (chunk) => {
        printed = Buffer.concat([printed, chunk]);
        if (!launched) {
          const line = parseLauncherLine(printed);
          if (!line) return;
          launched = true;
          printed = line.rest;
          child.stdin.write(payload);
        }
        if (printed.length < HEADER_BYTES) return;
        if (printed[4] === READY) resolve();
        else reject(new Error(`the server said ${printed.subarray(HEADER_BYTES).toString().slice(0, 300)}`));
      });
    });
    return {
      us: (performance.now() - begun) * 1000,
      bytes: payload.length,
      residentKiB: residentKiB([child.pid]),
    };
  } finally {
    child.stdin.end();
    await closed;
  }
}
