import { setTimeout as delay } from 'node:timers/promises';
import { withCandidates } from '../candidates.mjs';
import { residentKiB, tree } from '../processes.mjs';
import { ratio, table } from '../tables.mjs';

const FIRST = 1_000;
/** Milliseconds after which whatever goes on after a burst is over. */
const SETTLES = 1_500;

/** Resident memory after the first thousand of everything, and after very many more. */
export const leaks = {
  id: 'leaks',
  title: 'Memory after very many round trips and connects',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const skipped = {};
    const rows = {};
    const paths = ['proxies', 'local-node', 'local-perl', 'local-python'];
    await withCandidates(bench, host, paths, skipped, async (candidates) => {
      for (const { id, label, path, daemon } of candidates) {
        const resident = async () => {
          await delay(SETTLES);
          const [own, ...children] = tree(daemon).map((pid) => residentKiB([pid]));
          return { host: own, target: children.reduce((sum, value) => sum + value, 0) };
        };
        say(id);
        await bench.client(['rtt', path, FIRST]);
        await bench.client(['connect', path, FIRST]);
        const first = await resident();
        await bench.client(['rtt', path, scale.leakRoundTrips]);
        const trips = await resident();
        await bench.client(['connect', path, scale.leakConnects]);
        rows[id] = { label, first, trips, connects: await resident() };
      }
    });
    return { rows, skipped, roundTrips: scale.leakRoundTrips, connects: scale.leakConnects };
  },

  render({ rows, skipped, roundTrips, connects }) {
    const mib = (kib) => (kib / 1024).toFixed(1);
    return [
      'Resident MiB of the host’s side, and of the server in the target, after the first thousand round trips and',
      `connects, after ${roundTrips.toLocaleString('en')} round trips more, and after ${connects.toLocaleString('en')} connects more.`,
      '',
      table(
        ['path', 'first thousand', 'round trips', 'connects', 'last : first'],
        Object.values(rows).flatMap(({ label, first, trips, connects: last }) =>
          ['host', 'target']
            .filter((side) => first[side] > 0)
            .map((side) => [
              side === 'host' ? label : `${label}: in the target`,
              mib(first[side]),
              mib(trips[side]),
              mib(last[side]),
              ratio(last[side] / first[side]),
            ]),
        ),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};
