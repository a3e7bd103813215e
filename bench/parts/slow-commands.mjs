import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startProxies } from '../bridges.mjs';
import { interleave, summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

/** What a call of a command takes, in each direction. */
const DELAY_MS = 25;
const WAYS = [
  { id: 'ahead', label: 'the target answers ahead', words: [] },
  { id: 'no-ahead', label: 'it does not', words: ['--no-ahead'] },
];

/** A signature over VS Code's commands, when each takes as long as it does to a far remote. */
export const slowCommands = {
  id: 'slow-commands',
  title: 'Over slow commands of VS Code',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const open = [];
    try {
      for (const way of WAYS) {
        const home = await newHome(bench, host);
        const words = [join(home, 'S.gpg-agent'), '--delay', String(DELAY_MS), ...way.words];
        const { stop } = await startProxies(bench, host, { words });
        open.push({ ...way, home, stop });
      }
      const run = ({ home }) => {
        const words = [
          'gpg',
          '--batch',
          '--yes',
          '-o',
          join(home, 'out'),
          '--clear-sign',
          join(home, 'text'),
        ];
        return bench.client(['time', scale.farRuns, '--', ...words], { ...process.env, GNUPGHOME: home });
      };
      for (const way of open) await run(way);
      say(`${DELAY_MS} ms each way`);
      const samples = await interleave(open, scale.farRounds, run);
      return { rows: Object.fromEntries(open.map((way) => [way.id, summary(samples.get(way))])) };
    } finally {
      for (const { stop } of open) await stop();
    }
  },

  render({ rows }) {
    return [
      `Both proxies in one process, with a carrier that takes ${DELAY_MS} ms in each direction for every call: wall time of`,
      '`gpg --clear-sign` in milliseconds.',
      '',
      table(
        [...WAYS.map(({ label }) => label), 'ratio'],
        [[...WAYS.map(({ id }) => ms(rows[id].median)), ratio(rows.ahead.median / rows['no-ahead'].median)]],
      ),
    ].join('\n');
  },
};

/** A home of the target with the host's public key in it, where gpg finds its agent. */
async function newHome(bench, host) {
  const home = join(await bench.newDirectory(), 'h');
  await mkdir(home, { mode: 0o700 });
  const { stdout } = await host.home.gpg(['--export', host.fingerprint]);
  const env = { ...process.env, GNUPGHOME: home };
  await bench.support.runOk('gpg', ['--batch', '--import'], { env, input: stdout });
  await bench.support.runOk('gpgconf', ['--kill', 'gpg-agent'], { env });
  await writeFile(join(home, 'text'), 'hello\n');
  return home;
}
