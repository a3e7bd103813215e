import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { gpgBridge } from '../bridges.mjs';
import { ended } from '../processes.mjs';
import { median } from '../statistics.mjs';
import { ROOT } from '../support.mjs';
import { ratio, table } from '../tables.mjs';

const LOADS = {
  data: '120 streams that send all they may',
  idle: '1,500 streams of each kind, idle',
  pairs: '60,000 OPEN and CLOSE pairs, again and again',
};
const PROGRAM = join(ROOT, 'packages/test-support/src/hostile-load.mjs');
/** Time for a load to begin or to end. */
const TURN_MS = 500;

/** What a person notices at the host while a target does its worst. */
export const hostile = {
  id: 'hostile',
  title: 'A target that does its worst',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const agent = await sshAgent(bench);
    const other = await bench.newDirectory();
    const env = { ...host.env, SSH_AUTH_SOCK: agent.socket };
    const rows = {};
    const bridge = (...words) => gpgBridge(bench, { ...host, env }, words);
    try {
      await bridge('up', `local:${other}`, '--no-ssh', '--keys', 'pairs');
      for (const load of Object.keys(LOADS)) {
        const file = join(await bench.newDirectory(), 'on');
        const enter = `${process.execPath} ${PROGRAM} ${load} ${file}`;
        const { pid } = JSON.parse(await bridge('up', '--exec', enter, '--keys', 'none', '--json'));
        try {
          rows[load] = await measured(
            bench,
            { ...host, env },
            other,
            file,
            pid,
            scale.hostileRounds,
            say,
            load,
          );
        } finally {
          await bridge('down', '--exec', enter);
        }
      }
    } finally {
      await bridge('down', '--all').catch(() => {});
      await agent.stop();
    }
    return { rows, rounds: scale.hostileRounds };
  },

  render({ rows, rounds }) {
    const kinds = ['gpg', 'ssh', 'other'];
    return [
      'A target that speaks the wire protocol itself loads its host. Milliseconds that programs take meanwhile, and',
      `without it, medians of ${rounds} rounds in turn: the host’s own \`gpg --clear-sign\` and \`ssh-add -l\`, and`,
      '`gpg --clear-sign` in another target. Memory is the most that the daemon ever took.',
      '',
      table(
        [
          'load',
          ...['gpg', 'ssh-add', 'another target'].flatMap((name) => [`${name}, without`, 'with', 'ratio']),
          'MiB at most',
          'descriptors at most',
        ],
        Object.entries(rows).map(([load, row]) => [
          LOADS[load],
          ...kinds.flatMap((kind) => [
            row[kind].without.toFixed(0),
            row[kind].with.toFixed(0),
            ratio(row[kind].ratio),
          ]),
          row.peakMiB.toFixed(0),
          String(row.descriptors),
        ]),
      ),
    ].join('\n');
  },
};

/** Times of three programs, in turn without and with the load. */
async function measured(bench, host, other, file, pid, rounds, say, load) {
  const { run } = bench.support;
  const programs = {
    gpg: () => run('gpg', ['--batch', '--clear-sign'], { env: host.env, input: 'text' }),
    ssh: () => run('ssh-add', ['-l'], { env: host.env }),
    other: () =>
      run('gpg', ['--batch', '--clear-sign'], { env: { ...host.env, GNUPGHOME: other }, input: 'text' }),
  };
  const times = Object.fromEntries(Object.keys(programs).map((kind) => [kind, { without: [], with: [] }]));
  let descriptors = 0;
  for (let round = 0; round < rounds; round++) {
    say(`${load}: round ${round + 1}`);
    for (const when of ['without', 'with']) {
      if (when === 'with') await writeFile(file, '');
      await delay(TURN_MS);
      for (const [kind, program] of Object.entries(programs)) {
        for (let count = 0; count < 3; count++) {
          const start = performance.now();
          const { status, stderr } = await program();
          if (status !== 0) throw new Error(`${kind} failed under ${load}: ${stderr}`);
          times[kind][when].push(performance.now() - start);
          descriptors = Math.max(descriptors, readdirSync(`/proc/${pid}/fd`).length);
        }
      }
    }
    await rm(file);
  }
  const peak = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))[1];
  const medians = Object.entries(times).map(([kind, each]) => {
    const [without, withLoad] = [median(each.without), median(each.with)];
    return [kind, { without, with: withLoad, ratio: withLoad / without }];
  });
  return { ...Object.fromEntries(medians), peakMiB: Number(peak) / 1024, descriptors };
}

/** An ssh-agent with a key. */
async function sshAgent(bench) {
  const directory = await bench.newDirectory();
  const socket = join(directory, 'agent');
  const child = spawn('ssh-agent', ['-D', '-a', socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const { runOk } = bench.support;
  await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(directory, 'key')]);
  await runOk('ssh-add', ['-q', join(directory, 'key')], { env: { ...process.env, SSH_AUTH_SOCK: socket } });
  return { socket, stop: () => ended(child) };
}
