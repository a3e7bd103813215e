import { withCandidates } from '../candidates.mjs';
import { interleave, median } from '../statistics.mjs';
import { ROOT } from '../support.mjs';
import { ratio, table } from '../tables.mjs';

const MIB = 1024 * 1024;
/** Both carriers: blocks in strings through calls, and frames. */
const PATHS = ['proxies', 'local-node', 'local-perl'];

/** Whether twice the bytes take twice the time. */
export const linear = {
  id: 'linear',
  title: 'Linear in size',

  async run(bench, scale, say) {
    const host = await bench.trivialHost();
    const skipped = {};
    const rows = {};
    await withCandidates(bench, host, PATHS, skipped, async (candidates) => {
      for (const mib of scale.largeMiB) {
        for (const mode of ['get', 'put']) {
          say(`${mib} MiB, ${mode}`);
          const times = await interleave(candidates, scale.linearRounds, (c) =>
            bench.client([mode, c.path, mib * MIB]),
          );
          for (const candidate of candidates) {
            const row = (rows[`${candidate.id} ${mode}`] ??= { label: candidate.label, mode, perMiB: {} });
            row.perMiB[mib] = median(times.get(candidate)) / mib / 1000;
          }
        }
      }
    });
    say('scanner alone');
    const words = [`${ROOT}bench/assuan-linear.mjs`, ...(scale.rounds < 10 ? ['--quick'] : [])];
    const scanner = await bench.support.runOk(process.execPath, words);
    return { rows, skipped, sizes: scale.largeMiB, scanner };
  },

  render({ rows, skipped, sizes, scanner }) {
    return [
      'Milliseconds for each MiB, by the size of the whole. The last column is the time per MiB of the largest',
      'beside that of the smallest: 1 is linear.',
      '',
      table(
        ['path', 'direction', ...sizes.map((mib) => `${mib} MiB`), 'largest : smallest'],
        Object.values(rows).map(({ label, mode, perMiB }) => [
          label,
          mode === 'get' ? 'to the client' : 'to the agent',
          ...sizes.map((mib) => perMiB[mib].toFixed(2)),
          ratio(growth({ perMiB }, sizes)),
        ]),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
      '',
      'The Assuan scanner and the observer alone, without sockets (`node bench/assuan-linear.mjs`):',
      '',
      '```',
      scanner.trimEnd(),
      '```',
    ].join('\n');
  },
};

/** How much dearer a byte is in the largest transfer than in the smallest. */
export function growth({ perMiB }, sizes) {
  return perMiB[sizes.at(-1)] / perMiB[sizes[0]];
}
