import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { upBridge } from '../bridges.mjs';
import { ended, untilSocket } from '../processes.mjs';
import { interleave, summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

/** One way of the line, in milliseconds. */
const DELAYS = [0, 25];

const WAYS = [
  { id: 'here', label: 'on the host itself', open: here },
  { id: 'ssh-R', label: '`ssh -R`', open: forward },
  { id: 'bridge', label: '`ssh:`', open: (bench, host, far) => bridge(bench, host, far, []) },
  {
    id: 'no-ahead',
    label: '`ssh:`, `--no-ahead`',
    open: (b, host, far) => bridge(b, host, far, ['--no-ahead']),
  },
];

/** What a person does there, by the words of a command in the home of the far machine. */
const WORK = [
  {
    id: 'sign',
    label: '`gpg --clear-sign`',
    words: ['gpg', '--batch', '--yes', '-o', 'signed', '--clear-sign', 'text'],
  },
  {
    id: 'decrypt',
    label: '`gpg --decrypt`',
    words: ['gpg', '--batch', '--yes', '-q', '-o', 'text.out', '--decrypt', 'secret'],
  },
  {
    id: 'commit',
    label: '`git commit -S`',
    words: ['git', 'commit', '-q', '--allow-empty', '-S', '-m', 'x'],
  },
];

/** Signing, decrypting and committing on a machine that is far away, through a real sshd behind a delaying relay. */
export const distance = {
  id: 'distance',
  title: 'Over a distance',
  needs: ['sshd'],

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const rows = {};
    for (const delay of DELAYS) {
      const open = [];
      try {
        for (const way of WAYS) {
          const far = await bench.farMachine(`${way.id}-${delay}`, { isNear: delay === 0 });
          const { stop, env = far.env } = await way.open(bench, host, far);
          open.push({ way, far: { ...far, env }, stop });
          await prepare(bench, host, { ...far, env });
        }
        for (const { far } of open) if (far.relay) far.relay.delayMs = delay;
        const cases = WORK.flatMap((work) => open.map(({ way, far }) => ({ work, way, far })));
        const run = ({ work, far }) =>
          bench.client(['time', scale.farRuns, '--', 'env', '-C', far.home, ...work.words], far.env);
        for (const one of cases) await run(one);
        say(`${delay} ms each way`);
        for (const [{ work, way }, samples] of await interleave(cases, scale.farRounds, run)) {
          rows[`${delay} ${work.id}`] ??= { delay, label: work.label };
          rows[`${delay} ${work.id}`][way.id] = summary(samples);
        }
      } finally {
        for (const { far } of open) if (far.relay) far.relay.delayMs = 0;
        for (const { stop } of open) await stop();
      }
    }
    return { rows };
  },

  render({ rows }) {
    return [
      'Wall time in milliseconds on a machine behind a real sshd and a relay that holds every byte, in each direction,',
      'for as long as the first column says; at 0 ms there is no relay. Perl server; the same host key and the same gpg',
      'everywhere.',
      '',
      table(
        ['each way', 'what', ...WAYS.map(({ label }) => label), '`ssh:` : `ssh -R`', '`ssh:` : `--no-ahead`'],
        Object.values(rows).map((row) => [
          `${row.delay} ms`,
          row.label,
          ...WAYS.map(({ id }) => ms(row[id].median)),
          ratio(row.bridge.median / row['ssh-R'].median),
          ratio(row.bridge.median / row['no-ahead'].median),
        ]),
      ),
    ].join('\n');
  },
};

/** The host's own gpg, with nothing between it and its agent: what the delay has no part in. */
async function here(_bench, host) {
  return { env: { ...process.env, ...host.env }, stop: async () => {} };
}

async function bridge(bench, host, far, options) {
  return upBridge(bench, host, [`ssh:${far.name}`, '--runtime', 'perl', ...options]);
}

async function forward(bench, host, far) {
  const path = (
    await bench.support.runOk('gpgconf', ['--list-dirs', 'agent-socket'], { env: far.env })
  ).trim();
  const options = ['-N', '-o', 'ExitOnForwardFailure=yes', '-R', `${path}:${host.extraSocket}`];
  const child = spawn(join(await bench.binDirectory(), 'ssh'), [...options, far.name], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await untilSocket(path, child);
  return { stop: () => ended(child) };
}

/** The public key, something to sign and to decrypt, and a repository. */
async function prepare(bench, host, { home, env }) {
  const { runOk } = bench.support;
  const { stdout } = await host.home.gpg(['--export', host.fingerprint]);
  await runOk('gpg', ['--batch', '--import'], { env, input: stdout });
  await writeFile(join(home, 'text'), 'hello\n');
  const encrypt = ['--batch', '--trust-model', 'always', '-r', host.fingerprint, '-o', join(home, 'secret')];
  await runOk('gpg', [...encrypt, '--encrypt', join(home, 'text')], { env });
  await runOk('git', ['init', '-q', home], { env });
  const settings = {
    'user.name': 'Bench',
    'user.email': 'bench@example.org',
    'user.signingkey': host.fingerprint,
  };
  for (const [key, value] of Object.entries(settings))
    await runOk('git', ['-C', home, 'config', key, value], { env });
}
