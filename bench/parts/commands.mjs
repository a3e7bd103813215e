import { upBridge } from '../bridges.mjs';
import { interleave, summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

/** What a person waits for: `status`, and `up` of a bridge that runs already. */
export const commands = {
  id: 'commands',
  title: 'The command line',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const bridges = [];
    const directory = await bench.newDirectory();
    const targets = [{ id: 'local', label: '`up`, again, `local:`', words: [`local:${directory}`] }];
    if (!bench.missing(['docker'])) {
      const { name } = await bench.container('git', 'api');
      targets.push({ id: 'docker', label: '`up`, again, container', words: [name] });
    }
    try {
      for (const { words } of targets)
        bridges.push(await upBridge(bench, host, [...words, '--runtime', 'perl']));
      const env = await bench.commandEnv(host);
      const same = ['--runtime', 'perl', '--gpg', '--no-ssh', '--keys', host.keys];
      const runs = [
        { id: 'node', label: '`node -e 0`', argv: ['-e', '0'] },
        { id: 'status', label: '`status`', argv: [bench.command, 'status'] },
        ...targets.map(({ id, label, words }) => ({
          id: `up-${id}`,
          label,
          argv: [bench.command, 'up', ...words, ...same],
        })),
      ];
      say('wall times');
      const times = await interleave(runs, scale.commandRounds, ({ argv }) =>
        bench.client(['time', 2, '--', process.execPath, ...argv], env),
      );
      return {
        rows: Object.fromEntries(
          runs.map((run) => [run.id, { label: run.label, ...summary(times.get(run)) }]),
        ),
      };
    } finally {
      for (const { stop } of bridges) await stop();
    }
  },

  render({ rows }) {
    return [
      'Wall time in milliseconds, with two bridges up.',
      '',
      table(
        ['command', 'median', '99 %', ': `node -e 0`'],
        Object.values(rows).map(({ label, median, p99 }) => [
          label,
          ms(median),
          ms(p99),
          ratio(median / rows.node.median),
        ]),
      ),
    ].join('\n');
  },
};
