import { upBridge } from '../bridges.mjs';
import { samplesOf } from '../client.mjs';
import { interleave, summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

const OWN_HOME = '/root/own-gnupg';
const REPOSITORY = '/root/repository';
const DIRECTORIES = 40;
const FILES_EACH = 50;

/** `git commit -S` in a container, with the host's agent and with one that runs in the container. */
export const gitCommit = {
  id: 'git-commit',
  title: '`git commit -S` in a container',
  needs: ['docker'],

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const ways = [
      { id: 'unsigned', label: 'not signed', home: OWN_HOME, sign: '--no-gpg-sign' },
      { id: 'own', label: "signed by the container's own gpg-agent", home: OWN_HOME, sign: '-S' },
    ];
    const bridged = { id: 'bridged', label: 'signed across the bridge', home: '/root/.gnupg', sign: '-S' };
    const { container, name } = await bench.container('git', 'api');
    const bridge = await upBridge(bench, host, [name, '--runtime', 'perl']);
    try {
      await prepare(bench, host, container);
      const commit = async ({ home, sign }) => {
        const script = `cd ${REPOSITORY} && date +%N > 17/17 && git commit --quiet --all ${sign} -m x`;
        const argv = ['/root/client', 'time', String(scale.commitsPerRound), '--', 'sh', '-c', script];
        const done = await container.exec(argv, { env: { GNUPGHOME: home } });
        if (done.status !== 0) throw new Error(done.stderr);
        return samplesOf(done.stdout);
      };
      const all = [...ways, bridged];
      for (const way of all) await commit(way);
      say('commits');
      const times = await interleave(all, scale.commitRounds, commit);
      return {
        rows: Object.fromEntries(
          all.map((way) => [way.id, { label: way.label, ...summary(times.get(way)) }]),
        ),
      };
    } finally {
      await bridge.stop();
    }
  },

  render({ rows }) {
    return [
      `Wall time in milliseconds of a commit of one changed file among ${DIRECTORIES * FILES_EACH}, the same in the same`,
      'container; Perl server, Engine API.',
      '',
      table(
        ['commit', 'median', '99 %', ': own agent'],
        Object.values(rows).map(({ label, median, p99 }) => [
          label,
          ms(median),
          ms(p99),
          ratio(median / rows.own.median),
        ]),
      ),
    ].join('\n');
  },
};

/** The client, a repository, and a second home in the container with the same key and an agent of its own. */
async function prepare(bench, host, container) {
  await container.copyIn(bench.programs.client, '/root/client');
  const secret = await host.home.gpg(['--export-secret-keys', host.fingerprint]);
  const own = { env: { GNUPGHOME: OWN_HOME } };
  await container.execOk(['mkdir', '-m', '700', OWN_HOME]);
  await container.execOk(['gpg', '--batch', '--import'], { ...own, input: secret.stdout });
  const make = `for d in $(seq ${DIRECTORIES}); do mkdir $d; for f in $(seq ${FILES_EACH}); do echo $d $f > $d/$f; done; done`;
  await container.execOk(['git', 'init', '--quiet', REPOSITORY]);
  await container.execOk(['sh', '-c', `cd ${REPOSITORY} && ${make} && git add .`]);
  for (const [key, value] of Object.entries({
    'user.name': 'Bench',
    'user.email': 'bench@example.org',
    'user.signingkey': host.fingerprint,
    'gc.auto': '0',
  })) {
    await container.execOk(['git', '-C', REPOSITORY, 'config', key, value]);
  }
}
