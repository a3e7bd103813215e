import { withCandidates } from '../candidates.mjs';
import { interleave, median } from '../statistics.mjs';
import { table } from '../tables.mjs';

const MIB = 1024 * 1024;
const PATHS = [
  'direct',
  'socat',
  'ssh-R',
  'floor-local',
  'proxies',
  'local-node',
  'local-perl',
  'api-node',
  'api-perl',
  'command-perl',
  'ssh-node',
  'ssh-perl',
];

/** One large answer and one large inquiry block over a single stream. */
export const throughput = {
  id: 'throughput',
  title: 'One large stream',

  async run(bench, scale, say) {
    const host = await bench.trivialHost();
    const skipped = {};
    const rows = {};
    const bytes = scale.throughputMiB * MIB;
    await withCandidates(bench, host, PATHS, skipped, async (candidates) => {
      const speeds = {};
      for (const mode of ['get', 'put']) {
        say(mode);
        speeds[mode] = await interleave(candidates, scale.throughputRounds, (c) =>
          bench.client([mode, c.path, bytes]),
        );
      }
      for (const candidate of candidates) {
        const mibPerSecond = (mode) => (scale.throughputMiB * 1e6) / median(speeds[mode].get(candidate));
        const { id, label, ours } = candidate;
        rows[id] = {
          label,
          ours: ours ?? false,
          toClient: mibPerSecond('get'),
          toAgent: mibPerSecond('put'),
        };
      }
    });
    return { rows, skipped, mib: scale.throughputMiB };
  },

  render({ rows, skipped, mib }) {
    return [
      `${mib} MiB in one answer, and in one inquiry block; MiB a second, the median. The agent is a trivial one in C,`,
      'since gpg-agent has no answer of that size.',
      '',
      table(
        ['path', 'agent to client', 'client to agent'],
        Object.values(rows).map(({ label, ours, toClient, toAgent }) => [
          ours ? `**${label}**` : label.replace('gpg-agent itself', 'the trivial agent itself'),
          Math.round(toClient).toLocaleString('en'),
          Math.round(toAgent).toLocaleString('en'),
        ]),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};
