import { setTimeout as delay } from 'node:timers/promises';
import { withCandidates } from '../candidates.mjs';
import { residentKiB, tree } from '../processes.mjs';
import { ratio, table } from '../tables.mjs';

const FIRST = 1_000;
/** Milliseconds after which whatever goes on after a burst is over. */
const SETTLES = 6_000;
const PATHS = ['proxies', 'proxies-small', 'local-node', 'local-perl'];

/** Resident memory after the first thousand of everything, and after very many more. */
export const leaks = {
  id: 'leaks',
  title: 'Memory after very many round trips and connects',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const skipped = {};
    const rows = {};
    await withCandidates(bench, host, PATHS, skipped, async (candidates) => {
      const steps = {
        first: [
          ['rtt', FIRST],
          ['connect', FIRST],
        ],
        trips: [['rtt', scale.leakRoundTrips]],
        connects: [['connect', scale.leakConnects]],
        again: [['connect', scale.leakConnects]],
      };
      for (const [step, modes] of Object.entries(steps)) {
        for (const { id, path } of candidates) {
          say(`${step}: ${id}`);
          for (const [mode, count] of modes) await bench.client([mode, path, count]);
        }
        await delay(SETTLES);
        for (const { id, label, daemon } of candidates) {
          const [own, ...children] = tree(daemon).map((pid) => residentKiB([pid]));
          rows[id] ??= { label };
          rows[id][step] = { host: own, target: children.reduce((sum, value) => sum + value, 0) };
        }
      }
    });
    return { rows, skipped, roundTrips: scale.leakRoundTrips, connects: scale.leakConnects };
  },

  render({ rows, skipped, roundTrips, connects }) {
    const mib = (kib) => (kib / 1024).toFixed(1);
    return [
      'Resident MiB of the host’s side, and of the server in the target, after the first thousand round trips and',
      `connects, after ${roundTrips.toLocaleString('en')} round trips more, and after twice ${connects.toLocaleString('en')} connects more.`,
      '',
      table(
        [
          'path',
          'first thousand',
          'round trips',
          'connects',
          'connects again',
          'last : first',
          'last : before',
        ],
        Object.values(rows).flatMap(({ label, first, trips, connects: before, again: last }) =>
          ['host', 'target']
            .filter((side) => first[side] > 0)
            .map((side) => [
              side === 'host' ? label : `${label}: in the target`,
              mib(first[side]),
              mib(trips[side]),
              mib(before[side]),
              mib(last[side]),
              ratio(last[side] / first[side]),
              ratio(last[side] / before[side]),
            ]),
        ),
      ),
      '',
      'An extension host is started by VS Code, and V8 lets its young generation grow to 16 MiB a half, whatever',
      'runs in it. The second row is the same program with that limited to 1 MiB, as it is in a daemon.',
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};
