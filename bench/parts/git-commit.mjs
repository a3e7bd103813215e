import { upBridge } from '../bridges.mjs';
import { samplesOf } from '../client.mjs';
import { floorInContainer } from '../floors.mjs';
import { summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

const OWN_HOME = '/root/own-gnupg';
const FLOORS = { c: '/root/floor-gnupg', runtimes: '/root/floor-runtimes-gnupg' };
const REPOSITORY = '/root/repository';
const DIRECTORIES = 40;
const FILES_EACH = 50;

/** Commits of different weight: what is added to each is the same. */
const COMMITS = [
  { id: 'empty', label: 'an empty one', prepare: ':', words: '--allow-empty' },
  {
    id: 'file',
    label: `one changed file of ${DIRECTORIES * FILES_EACH}`,
    prepare: 'date +%N > 17/17',
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
/** The first commits after `up`: with the container's own agent, and across the bridge. */
const FIRST_WAYS = [
  { id: 'started-own', home: OWN_HOME, sign: '-S' },
  { id: 'started', home: '/root/.gnupg', sign: '-S' },
];
/** Seconds before each commit: a person's do not come right behind each other. */
const PAUSE = 0.05;

/** `git commit -S` in a container, with the host's agent and with one that runs in the container. */
export const gitCommit = {
  id: 'git-commit',
  title: '`git commit -S` in a container',
  needs: ['docker'],

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const place = await bench.container('git', 'api');
    const { container, name } = place;
    const kinds = (ways) => COMMITS.flatMap((commit) => ways.map((way) => ({ commit, way, samples: [] })));
    const started = kinds(FIRST_WAYS);
    const used = kinds(WAYS);
    const bridge = await upBridge(bench, host, [name, '--runtime', 'perl']);
    const floors = [];
    try {
      await prepare(bench, host, container);
      for (const [kind, home] of Object.entries(FLOORS)) {
        floors.push(await floorInContainer(bench, host, place, `${home}/S.gpg-agent`, kind, ['ahead']));
      }
      say('commits across a bridge that has just come up');
      await commitInRounds(container, started, scale.firstCommitRounds);
      say('signatures beforehand');
      await sign(container, used, scale.warmUpSignatures);
      say('commits');
      await commitInRounds(container, used, scale.commitRounds);
      const rows = {};
      for (const { commit, way, samples } of [...started, ...used]) {
        rows[commit.id] ??= { label: commit.label };
        rows[commit.id][way.id] = summary(samples);
      }
      return { rows, firstRounds: scale.firstCommitRounds, signatures: scale.warmUpSignatures };
    } finally {
      for (const floor of floors) await floor.stop();
      await bridge.stop();
    }
  },

  render({ rows, firstRounds, signatures }) {
    return [
      `Wall time in milliseconds of commits in a shell of the container, ${1_000 * PAUSE} ms apart; Perl server, Engine API. What the bridge`,
      'adds does not depend on the commit, so the ratio is worst for the smallest one. Every agent and bridge has made',
      `${signatures} signatures before, as where signatures are counted. The first ${firstRounds} commits of each kind across a bridge that has just`,
      'come up, except the very first, are in the last column: V8 compiles the code of a daemon gradually. The least bridges',
      'answer ahead and do nothing else: one client, no rules, no record, no checks.',
      '',
      table(
        ['commit', ...WAYS.map(({ label }) => label), 'added', 'bridged : own agent', 'just come up'],
        Object.values(rows).map((row) => [
          row.label,
          ...WAYS.map(({ id }) => ms(row[id].median)),
          ms(row.bridged.median - row.own.median),
          ratio(row.bridged.median / row.own.median),
          ratio(row.started.median / row['started-own'].median),
        ]),
      ),
    ].join('\n');
  },
};

/** Has every agent and bridge of these make signatures, one after the other. */
async function sign(container, cases, count) {
  for (const home of new Set(cases.filter(({ way }) => way.sign === '-S').map(({ way }) => way.home))) {
    const script = `for i in $(seq ${count}); do gpg --batch --quiet --clear-sign < /etc/hostname; done > /dev/null`;
    await container.execOk(['sh', '-ec', script], { env: { GNUPGHOME: home } });
  }
}

/** Makes commits of every kind in turn; the first of each kind is not counted. */
async function commitInRounds(container, cases, rounds) {
  for (let round = -1; round < rounds; round++) await commitEach(container, cases, round);
}

/**
 * Makes one commit of every kind in a container, in one shell there, so that the engine has nothing to do beside them; each
 * round begins with another kind, and every other one goes backwards.
 */
async function commitEach(container, cases, round) {
  const first = (round + cases.length) % cases.length;
  const turn = [...cases.slice(first), ...cases.slice(0, first)];
  if (round % 2 === 0) turn.reverse();
  const commands = turn.flatMap(({ commit, way }) => [
    `sleep ${PAUSE}; ${commit.prepare}`,
    `GNUPGHOME=${way.home} /root/client time 1 -- git commit --quiet ${commit.words} ${way.sign} -m x`,
  ]);
  const done = await container.exec(['sh', '-ec', [`cd ${REPOSITORY}`, ...commands].join('\n')]);
  if (done.status !== 0) throw new Error(done.stderr);
  if (round < 0) return;
  for (const [at, value] of samplesOf(done.stdout).entries()) turn[at].samples.push(value);
}

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
