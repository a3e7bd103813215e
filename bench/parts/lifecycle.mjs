import { upBridge } from '../bridges.mjs';
import { isAlive, ofContainer, untilGone } from '../processes.mjs';
import { median } from '../statistics.mjs';
import { table } from '../tables.mjs';

/** What can happen to a container; the clock starts when its first process, or the server, is gone. */
const EVENTS = [
  { label: '`docker kill`', happen: (engine, { id }) => engine.runOk(['kill', id]) },
  { label: '`docker stop`', happen: (engine, { id }) => engine.runOk(['stop', '--time=5', id]) },
  { label: '`docker rm -f`', happen: (engine, { id }) => engine.runOk(['rm', '--force', id]) },
  { label: '`docker restart`', happen: (engine, { id }) => engine.runOk(['restart', '--time=5', id]) },
  { label: 'the server in the container is killed', happen: killServer, watch: serverOf },
];

/** How soon the daemon is gone after its container. */
export const lifecycle = {
  id: 'lifecycle',
  title: 'When a container goes away',
  needs: ['docker'],

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const engine = await bench.engine();
    const rows = {};
    for (const { label, happen, watch } of EVENTS) {
      say(label);
      const samples = [];
      for (let round = 0; round < scale.lifecycleRounds; round++) {
        const fresh = await bench.freshContainer('git');
        const { daemon } = await upBridge(bench, host, [fresh.name]);
        const watched = watch ? watch(fresh) : fresh.pid;
        const happening = happen(engine, fresh);
        await untilGone(watched);
        samples.push(await untilGone(daemon));
        await happening;
        if (isAlive(daemon)) throw new Error('the daemon is back');
        await fresh.container.remove();
      }
      rows[label] = median(samples);
    }
    return { rows };
  },

  render({ rows }) {
    return [
      'Milliseconds from the end of the container (or of the server in it) to the end of its daemon, the median.',
      '',
      table(
        ['what happens', 'daemon gone after'],
        Object.entries(rows).map(([label, value]) => [label, `${Math.round(value)} ms`]),
      ),
    ].join('\n');
  },
};

function serverOf(fresh) {
  const inside = ofContainer(fresh).filter((pid) => pid !== fresh.pid);
  return Math.max(...inside);
}

async function killServer(_engine, fresh) {
  process.kill(serverOf(fresh), 'SIGKILL');
}
