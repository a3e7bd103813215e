import { gpgBridge } from '../bridges.mjs';
import { summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

/** The first `up` of a container, each in a new one, beside the engine's own cost of running a command. */
export const firstUp = {
  id: 'first-up',
  title: 'The first `up` of a container',
  needs: ['docker'],

  async run(bench, scale, say) {
    const host = await bench.realHost();
    await bench.engine();
    const env = await bench.commandEnv(host);
    const samples = { exec: [], up: [] };
    for (let round = 0; round < scale.firstUps; round++) {
      say(`container ${round + 1} of ${scale.firstUps}`);
      const { container, id, name } = await bench.freshContainer('git');
      const measured = {
        exec: () => bench.client(['time', 3, '--', 'docker', 'exec', id, 'true'], env),
        up: () =>
          bench.client(
            ['time', 1, '--', process.execPath, bench.command, 'up', name, '--gpg', '--no-ssh'],
            env,
          ),
      };
      const order = round % 2 ? ['exec', 'up'] : ['up', 'exec'];
      for (const which of order) {
        samples[which].push((await measured[which]()).reduce((sum, value) => sum + value, 0));
      }
      await gpgBridge(bench, host, ['down', name]);
      await container.remove();
    }
    return { exec: summary(samples.exec), up: summary(samples.up) };
  },

  render({ exec, up }) {
    return [
      'A new container each time, with Perl and an empty keyring: `up` starts the daemon, the server in the',
      'container, imports a public key, and returns when the socket listens. Wall time in milliseconds.',
      '',
      table(
        ['what', 'median', 'longest'],
        [
          ['three bare `docker exec … true`', ms(exec.median), ms(exec.p99)],
          ['`gpg-bridge up`', ms(up.median), ms(up.p99)],
          ['ratio', ratio(up.median / exec.median), ''],
        ],
      ),
    ].join('\n');
  },
};
