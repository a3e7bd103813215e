import { join } from 'node:path';
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
    const hasDocker = !bench.missing(['docker']);
    if (hasDocker) await bench.engine();
    const env = await bench.commandEnv(host);
    const builds = [{ id: 'up', name: '', command: bench.command, env }];
    if (bench.beside) {
      const state = join(await bench.newDirectory(), 'state');
      const itsEnv = { ...env, GPG_BRIDGE_STATE_DIR: state };
      builds.push({ id: 'beside', name: ', the other build', command: bench.beside, env: itsEnv });
    }
    const targets = [];
    for (const build of builds) {
      const label = (where) => `\`up\`, again, ${where}${build.name}`;
      const place = `local:${await bench.newDirectory()}`;
      targets.push({ id: `${build.id}-local`, label: label('`local:`'), words: [place], build });
      if (!hasDocker) continue;
      const { name } = await bench.container('git', build.id === 'up' ? 'api' : build.id);
      targets.push({ id: `${build.id}-docker`, label: label('container'), words: [name], build });
    }
    try {
      for (const { words, build } of targets)
        bridges.push(await upBridge(bench, host, [...words, '--runtime', 'perl'], build));
      const same = ['--runtime', 'perl', '--gpg', '--no-ssh', '--keys', host.keys];
      const runs = [
        { id: 'node', label: '`node -e 0`', argv: ['-e', '0'] },
        { id: 'status', label: '`status`', argv: [bench.command, 'status'] },
        ...targets.map(({ id, label, words, build }) => ({
          id,
          label,
          argv: [build.command, 'up', ...words, ...same],
          env: build.env,
        })),
      ];
      say('wall times');
      const times = await interleave(runs, scale.commandRounds, (run) =>
        bench.client(['time', 2, '--', process.execPath, ...run.argv], run.env ?? env),
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
