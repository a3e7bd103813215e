import { withCandidates } from '../candidates.mjs';
import { startClient } from '../client.mjs';
import { residentKiB } from '../processes.mjs';
import { table } from '../tables.mjs';

/** Many sessions at once on one bridge, and what each costs the host. */
export const sessions = {
  id: 'sessions',
  title: 'A thousand sessions at once',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const skipped = {};
    const rows = {};
    const paths = ['proxies', 'local-node', 'local-perl', 'api-perl'];
    await withCandidates(bench, host, paths, skipped, async (candidates) => {
      for (const { id, label, path, daemon } of candidates) {
        say(id);
        await bench.client(['rtt', path, 1_000]);
        const before = residentKiB([daemon]);
        const client = startClient(bench.programs.client, ['sessions', path, scale.sessions]);
        await client.said;
        const during = residentKiB([daemon]);
        client.process.stdin.end();
        const [seconds, retries, served] = await client.done;
        rows[id] = {
          label,
          seconds,
          retries,
          served,
          before,
          during,
          each: (during - before) / scale.sessions,
        };
      }
    });
    return { rows, skipped, count: scale.sessions };
  },

  render({ rows, skipped, count }) {
    return [
      `${count.toLocaleString('en')} clients connect to one bridge, send a command, and stay; then each reads its answer`,
      'and leaves. A daemon serves 64 at a time, the others wait for their turn. All were served. Resident memory is',
      'that of the process on the host’s side.',
      '',
      table(
        [
          'path',
          'all open after',
          'all served after',
          'connects that found the backlog full',
          'resident before',
          'resident with all',
          'KiB each',
        ],
        Object.values(rows).map(({ label, seconds, retries, served, before, during, each }) => [
          label,
          `${seconds.toFixed(2)} s`,
          `${served.toFixed(2)} s`,
          String(retries),
          `${(before / 1024).toFixed(1)} MiB`,
          `${(during / 1024).toFixed(1)} MiB`,
          each.toFixed(1),
        ]),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};
