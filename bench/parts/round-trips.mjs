import { withCandidates } from '../candidates.mjs';
import { startClient } from '../client.mjs';
import { cpuDuring } from '../processes.mjs';
import { interleave, summary } from '../statistics.mjs';
import { table, us } from '../tables.mjs';

/** How many of the slowest processes of a path are named. */
const NAMED = 6;

/** Round trips, connects and signatures over every path, and who uses the processor meanwhile. */
export const roundTrips = {
  id: 'round-trips',
  title: 'Round trips, connects, signatures',

  async run(bench, scale, say) {
    const host = await bench.realHost();
    const skipped = {};
    const rows = {};
    await withCandidates(bench, host, scale.paths, skipped, async (candidates) => {
      const trips = async (candidate, n) => bench.client(await candidate.roundTrip(n), candidate.env?.());
      const withSocket = candidates.filter(({ path }) => path);
      for (const candidate of candidates) {
        say(`warming up: ${candidate.id}`);
        await trips(candidate, scale.warmUp);
        if (!candidate.path) continue;
        await bench.client(['connect', candidate.path, scale.warmUpConnects]);
        await bench.client(['sign', candidate.path, host.grip, scale.warmUpSignatures]);
      }
      say('round trips');
      const trip = await interleave(candidates, scale.rounds, async (c) =>
        (await trips(c, scale.uncounted + scale.roundTrips)).slice(scale.uncounted),
      );
      say('connects');
      const connect = await interleave(withSocket, scale.rounds, (c) =>
        bench.client(['connect', c.path, scale.connects]),
      );
      say('signatures');
      const signatures = scale.uncountedSignatures + scale.signatures;
      const sign = await interleave(withSocket, scale.rounds, async (c) =>
        (await bench.client(['sign', c.path, host.grip, signatures])).slice(scale.uncountedSignatures),
      );
      for (const candidate of candidates) {
        const { id, label, ours } = candidate;
        say(`processor time: ${id}`);
        const n = scale.roundTrips * 2;
        const cpu = candidate.path ? await processorTime(bench, host, candidate, n) : new Map();
        rows[id] = {
          label,
          ours: ours ?? false,
          roundTrip: summary(trip.get(candidate)),
          ...(candidate.path && {
            connect: summary(connect.get(candidate)),
            sign: summary(sign.get(candidate)),
          }),
          cpu: Object.fromEntries([...cpu].map(([name, total]) => [name, total / n])),
        };
      }
    });
    return {
      rows,
      skipped,
      uncounted: [scale.uncounted, scale.uncountedSignatures],
      warmUp: [scale.warmUp, scale.warmUpConnects, scale.warmUpSignatures],
      samples: scale.rounds * scale.roundTrips,
      client: await clientCost(bench, scale),
    };
  },

  render({ rows, skipped, samples, uncounted, warmUp, client }) {
    return [
      '![Round trips of all paths](round-trips.svg)',
      '',
      `${samples.toLocaleString('en')} round trips of \`NOP\` on each path, in microseconds. A connect is`,
      'everything from `connect()` to the answer to BYE and `close()`. A signature is a connection of its own with',
      "gpg's twelve round trips, made with a real ed25519 key.",
      `Each path is first warmed up with ${warmUp[0].toLocaleString('en')} round trips, ${warmUp[1].toLocaleString('en')} connects and ${warmUp[2].toLocaleString('en')} signatures, and`,
      `the first ${uncounted[0]} round trips and ${uncounted[1]} signatures of each round are not counted: they are slower, those of Node`,
      'most of all.',
      '',
      table(
        ['path', 'round trip', '99 %', 'connect to BYE', '99 %', 'signatures/s'],
        Object.values(rows).map(({ label, ours, roundTrip, connect, sign }) => [
          ours ? `**${label}**` : label,
          us(roundTrip.median),
          us(roundTrip.p99),
          connect ? us(connect.median) : '',
          connect ? us(connect.p99) : '',
          sign ? Math.round(1e6 / sign.median).toLocaleString('en') : '',
        ]),
      ),
      ...Object.entries(skipped).map(([label, why]) => `\nNot measured: ${label}: ${why}.`),
      '',
      `The client is compiled C and spends ${us(rows.direct?.cpu.client)} µs of processor time on a round trip, nearly all`,
      `of it in the kernel. With an agent in C that does nothing its round trip takes ${us(client.median)} µs: that is two`,
      'processes waking each other, and what every hop costs at least.',
      '',
      '### Who uses the processor',
      '',
      'Microseconds of processor time for each round trip, from the scheduler’s own counts. What is missing to the',
      'round trip is the time until the next process is woken up.',
      '',
      table(
        ['path', 'processes'],
        Object.values(rows)
          .filter(({ cpu }) => Object.keys(cpu).length > 0)
          .map(({ label, cpu }) => [label, processorShares(cpu)]),
      ),
    ].join('\n');
  },
};

function processorShares(cpu) {
  return Object.entries(cpu)
    .sort(([, a], [, b]) => b - a)
    .filter(([, value]) => value >= 0.5)
    .slice(0, NAMED)
    .map(([name, value]) => `${name} ${us(value)}`)
    .join(', ');
}

async function processorTime(bench, host, candidate, n) {
  const client = startClient(bench.programs.client, ['held', candidate.path, n]);
  const pids = async () => [...(await candidate.pids()), host.agentPid, client.process.pid];
  const used = await cpuDuring(pids, () => client.said);
  client.process.stdin.end();
  await client.done;
  return used;
}

/** The client's own cost: its round trip with an agent that does nothing. */
async function clientCost(bench, scale) {
  const { extraSocket } = await bench.trivialHost();
  const samples = [];
  for (let round = 0; round < scale.rounds; round++) {
    const all = await bench.client(['rtt', extraSocket, scale.uncounted + scale.roundTrips]);
    samples.push(...all.slice(scale.uncounted));
  }
  return summary(samples);
}
