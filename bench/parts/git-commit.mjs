import { throughEngine, upBridge } from '../bridges.mjs';
import { samplesOf } from '../client.mjs';
import { floorInContainer } from '../floors.mjs';
import { interleave, summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

const OWN_HOME = '/root/own-gnupg';
const FLOORS = { c: '/root/floor-gnupg', runtimes: '/root/floor-runtimes-gnupg' };
const REPOSITORY = '/root/repository';
const DIRECTORIES = 40;
const FILES_EACH = 50;

/** Commits of different weight: what is added to each is the same. */
const COMMITS = [
  { id: 'empty', label: 'an empty one', prepare: '', words: '--allow-empty' },
  {
    id: 'file',
    label: `one changed file of ${DIRECTORIES * FILES_EACH}`,
    prepare: 'date +%N > 17/17 &&',
    words: '--all',
  },
];
const WAYS = [
  { id: 'unsigned', label: 'not signed', home: OWN_HOME, sign: '--no-gpg-sign' },
  { id: 'own', label: "the container's own agent", home: OWN_HOME, sign: '-S' },
  { id: 'floor', label: 'across the least bridge that answers ahead, in C', home: FLOORS.c, sign: '-S' },
  { id: 'floor-runtimes', label: 'in Node and Perl', home: FLOORS.runtimes, sign: '-S' },
  { id: 'bridged', label: 'across the bridge', home: '/root/.gnupg', sign: '-S' },
];
/** The same in a container whose bridge goes through the engine. */
const ENGINE_WAYS = [
  { id: 'engine-own', home: OWN_HOME, sign: '-S' },
  { id: 'engine', home: '/root/.gnupg', sign: '-S' },
];

/** `git commit -S` in a container, with the host's agent and with one that runs in the container. */
export const gitCommit = {
  id: 'git-commit',
  title: '`git commit -S` in a container',
  needs: ['docker'],

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const [place, other] = [await bench.container('git', 'pipes'), await bench.container('git', 'api')];
    const cases = COMMITS.flatMap((commit) => [
      ...WAYS.map((way) => ({ commit, way, container: place.container })),
      ...ENGINE_WAYS.map((way) => ({ commit, way, container: other.container })),
    ]);
    const bridges = [
      await upBridge(bench, host, [place.name, '--runtime', 'perl']),
      await upBridge(bench, host, [other.name, '--runtime', 'perl'], await throughEngine(bench, host)),
    ];
    const floors = [];
    try {
      for (const { container } of [place, other]) await prepare(bench, host, container);
      for (const [kind, home] of Object.entries(FLOORS)) {
        floors.push(await floorInContainer(bench, host, place, `${home}/S.gpg-agent`, kind, ['ahead']));
      }
      const run = async ({ commit, way, container }) => {
        const script = `cd ${REPOSITORY} && ${commit.prepare} git commit --quiet ${commit.words} ${way.sign} -m x`;
        const argv = ['/root/client', 'time', String(scale.commitsPerRound), '--', 'sh', '-c', script];
        const done = await container.exec(argv, { env: { GNUPGHOME: way.home } });
        if (done.status !== 0) throw new Error(done.stderr);
        return samplesOf(done.stdout);
      };
      for (const one of cases) await run(one);
      say('commits');
      const times = await interleave(cases, scale.commitRounds, run);
      const rows = {};
      for (const [{ commit, way }, samples] of times) {
        rows[commit.id] ??= { label: commit.label };
        rows[commit.id][way.id] = summary(samples);
      }
      return { rows };
    } finally {
      for (const floor of floors) await floor.stop();
      for (const bridge of bridges) await bridge.stop();
    }
  },

  render({ rows }) {
    return [
      'Wall time in milliseconds, one commit at a time, all but the last in the same container; Perl server. What the bridge adds does not depend on',
      'the commit, so the ratio is worst for the smallest one. The last column is another container whose bridge goes through',
      'the engine, as for a user who is not root and has no engine of their own. The least bridges do so, too, and answer',
      'ahead, and do nothing else: one client, no rules, no record, no checks.',
      '',
      table(
        ['commit', ...WAYS.map(({ label }) => label), 'added', 'bridged : own agent', 'through the engine'],
        Object.values(rows).map((row) => [
          row.label,
          ...WAYS.map(({ id }) => ms(row[id].median)),
          ms(row.bridged.median - row.own.median),
          ratio(row.bridged.median / row.own.median),
          ratio(row.engine.median / row['engine-own'].median),
        ]),
      ),
    ].join('\n');
  },
};

/** The client, a repository, a home with the same key and an agent of its own, and one for each least bridge. */
async function prepare(bench, host, container) {
  await container.copyIn(bench.programs.client, '/root/client');
  const secret = await host.home.gpg(['--export-secret-keys', host.fingerprint]);
  const known = await host.home.gpg(['--export', host.fingerprint]);
  const homes = { [OWN_HOME]: secret, [FLOORS.c]: known, [FLOORS.runtimes]: known };
  await container.execOk(['mkdir', '-m', '700', ...Object.keys(homes)]);
  for (const [GNUPGHOME, { stdout }] of Object.entries(homes)) {
    await container.execOk(['gpg', '--batch', '--import'], { env: { GNUPGHOME }, input: stdout });
  }
  // Importing has started agents there, whose places the least bridges are to have.
  for (const GNUPGHOME of Object.values(FLOORS)) {
    await container.execOk(['gpgconf', '--kill', 'gpg-agent'], { env: { GNUPGHOME } });
  }
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
