import { samplesOf } from '../client.mjs';
import { summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

const NODE_VERSION = '22';
const REPOSITORY = '/root/windows-repository';
const WAYS = [
  { id: 'ahead', label: 'across the bridge', flag: '--ahead' },
  { id: 'no-ahead', label: 'with `--no-ahead`', flag: '--no-ahead' },
];

/** `git commit -S` in a container whose host is Windows (in Wine): every answer of gpg-agent comes in two pieces there. */
export const windowsHost = {
  id: 'windows-host',
  title: '`git commit -S` with a Windows host',
  needs: ['docker', 'windows'],

  async run(bench, scale, say) {
    const { container, name } = await bench.container('git', 'windows');
    const person = await bench.support.WindowsPerson.create(NODE_VERSION, await bench.engine());
    try {
      await container.copyIn(bench.programs.client, '/root/client');
      await container.execOk(['git', 'init', '--quiet', REPOSITORY]);
      const samples = Object.fromEntries(WAYS.map(({ id }) => [id, []]));
      // Straight to the engine: the relay behind the pipe would be a part of what is measured.
      const env = { DOCKER_HOST: person.tcpHost };
      for (let round = 0; round < scale.windowsRounds; round++) {
        say(`round ${round + 1}`);
        for (const { id, flag } of WAYS) {
          const { status, stderr } = await person.run(['up', name, '--no-ssh', flag], { env });
          if (status !== 0) throw new Error(stderr);
          await commit(container, person, 1); // it teaches what is asked along
          samples[id].push(...(await commit(container, person, scale.windowsCommits)));
        }
      }
      return { rows: { empty: Object.fromEntries(WAYS.map(({ id }) => [id, summary(samples[id])])) } };
    } finally {
      await person.leave();
    }
  },

  render({ rows: { empty } }) {
    return [
      `Wall time in milliseconds of an empty commit in a container; Node ${NODE_VERSION} and GnuPG for Windows in Wine, Perl server.`,
      '',
      table(
        [...WAYS.map(({ label }) => label), 'ratio'],
        [
          [
            ...WAYS.map(({ id }) => ms(empty[id].median)),
            ratio(empty.ahead.median / empty['no-ahead'].median),
          ],
        ],
      ),
    ].join('\n');
  },
};

async function commit(container, { fingerprint }, count) {
  const identity = '-c user.name=Bench -c user.email=bench@example.org';
  const script = `cd ${REPOSITORY} && git ${identity} commit --quiet --allow-empty -S${fingerprint} -m x`;
  const done = await container.exec(['/root/client', 'time', String(count), '--', 'sh', '-c', script]);
  if (done.status !== 0) throw new Error(done.stderr);
  return samplesOf(done.stdout);
}
