import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { withCandidates } from '../candidates.mjs';
import { contextSwitches, residentKiB, tree } from '../processes.mjs';
import { table } from '../tables.mjs';

/** V8 tidies its heap up once, some seconds after the last work: that is not what an idle process costs. */
const SETTLES = 40_000;

/** A bridge that nobody uses, beside a Node process that does nothing. */
export const idle = {
  id: 'idle',
  title: 'An idle bridge',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const skipped = {};
    const rows = {};
    const node = spawn(process.execPath, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' });
    try {
      await withCandidates(bench, host, ['api-perl', 'local-perl'], skipped, async (candidates) => {
        const watched = [
          { id: 'node', label: 'an idle Node process', pid: node.pid },
          ...candidates.map(({ id, label, daemon }) => ({ id, label, pid: daemon })),
        ];
        await delay(SETTLES);
        say(`${scale.idleSeconds} s`);
        for (const { id, label, pid } of watched) rows[id] = { label, switches: -contextSwitches(tree(pid)) };
        await delay(scale.idleSeconds * 1000);
        for (const { id, pid } of watched) {
          rows[id].switches += contextSwitches(tree(pid));
          rows[id].processes = tree(pid).length;
          rows[id].residentKiB = residentKiB(tree(pid));
        }
      });
    } finally {
      node.kill();
    }
    return { rows, skipped, seconds: scale.idleSeconds };
  },

  render({ rows, skipped, seconds }) {
    return [
      table(
        ['process', 'processes with children', 'resident MiB', `context switches in ${seconds} s`],
        Object.values(rows).map(({ label, processes, residentKiB: kib, switches }) => [
          label,
          String(processes),
          (kib / 1024).toFixed(1),
          String(switches),
        ]),
      ),
      '',
      `Counted from ${SETTLES / 1000} s after the start: V8 collects garbage once when a process has come to rest, which costs`,
      'some 60 switches. The child of a `local:` bridge is its socket server, which is in the target elsewhere.',
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
    ].join('\n');
  },
};
