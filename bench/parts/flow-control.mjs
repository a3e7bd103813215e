import { withCandidates } from '../candidates.mjs';
import { interleave, median, quantile } from '../statistics.mjs';
import { ratio, table, us } from '../tables.mjs';

const PATHS = ['ssh-R', 'local-node', 'local-perl', 'api-perl'];

/** Many busy streams, with and without one beside them that asked for a flood and does not read it. */
export const flowControl = {
  id: 'flow-control',
  title: 'A client that stops reading',

  async run(bench, scale, say) {
    const host = await bench.trivialHost();
    const skipped = {};
    const rows = {};
    await withCandidates(bench, host, PATHS, skipped, async (candidates) => {
      const cases = candidates.flatMap((candidate) => [0, 1].map((stuck) => ({ candidate, stuck })));
      const busy = ({ candidate, stuck }) =>
        bench.client(['busy', candidate.path, scale.busyStreams, scale.busyRoundTrips, stuck]);
      for (const one of cases) await busy(one);
      say('busy streams');
      const p99s = await interleave(cases, scale.busyRounds, async (one) => {
        const samples = await busy(one);
        return [{ median: median(samples), p99: quantile(samples, 0.99) }];
      });
      for (const { id, label } of candidates) rows[id] = { label };
      for (const [{ candidate, stuck }, rounds] of p99s) {
        // The median over the rounds: one round that the machine disturbed does not decide.
        rows[candidate.id][stuck ? 'with' : 'without'] = {
          median: median(rounds.map((round) => round.median)),
          p99: median(rounds.map((round) => round.p99)),
        };
      }
    });
    return { rows, skipped, streams: scale.busyStreams, roundTrips: scale.busyRoundTrips };
  },

  render({ rows, skipped, streams, roundTrips }) {
    return [
      `${streams} streams make ${roundTrips} round trips each, all at once; microseconds of a round trip. Beside them, one`,
      'client has asked for a gigabyte and reads nothing of it.',
      '',
      table(
        ['path', 'median', '99 %', 'median with it', '99 % with it', '99 %, with : without'],
        Object.values(rows).map((row) => [
          row.label,
          us(row.without.median),
          us(row.without.p99),
          us(row.with.median),
          us(row.with.p99),
          ratio(row.with.p99 / row.without.p99),
        ]),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};
