import { readdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { childrenOf, Person } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { StandInKubectl, type StandInPod } from '@gpg-bridge/test-support/kubectl';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { untilEnded } from '@gpg-bridge/test-support/process';
import { describe, expect, it } from 'vitest';

interface Up {
  pid: number;
  target: string;
  id: string;
}

async function signs(home: GnupgHome): Promise<boolean> {
  return (await home.gpg(['--clear-sign'], { input: 'hello' })).status === 0;
}

async function sockets(home: GnupgHome): Promise<string[]> {
  return (await readdir(home.dir)).filter((name) => name.startsWith('S.'));
}

function podIn(home: GnupgHome, rest: Partial<StandInPod> = {}): StandInPod {
  return { name: 'dev', containers: [{ name: 'main', gnupgHome: home.dir }], ...rest };
}

/** A person with two clusters that have a pod of the same name, each in a kubeconfig of its own. */
async function twoClusters() {
  const person = await Person.create();
  const kubectl = await StandInKubectl.install(person);
  const [staging, prod] = [await person.localHome(), await person.localHome()];
  await kubectl.setCluster('staging', { pods: [podIn(staging)] });
  await kubectl.setCluster('prod', { pods: [podIn(prod)] });
  const contexts = ['staging', 'prod'].map((name) => ({ name, cluster: name }));
  const config = await kubectl.writeConfig('config', 'staging', contexts);
  person.env.KUBECONFIG = config;
  return { person, kubectl, staging, prod, contexts };
}

describe('a pod', () => {
  it('is one target by each of its names, and its container and cluster are said', async () => {
    const { person, kubectl, staging } = await twoClusters();
    const said = await person.ok('up', 'k8s:dev');
    expect(said).toContain('The bridge to k8s:default/dev/main is up');
    expect(said).toContain('context staging, https://staging.example:6443');
    expect(said).toContain(
      'kubectl --context=staging --cluster=staging --namespace=default exec -it dev -c main -- sh',
    );
    expect(await signs(staging)).toBe(true);
    const [{ pid }] = (await person.json<[Up]>('status'))!;
    for (const name of ['k8s:default/dev', 'k8s:default/dev/main', 'k8s:dev']) {
      expect(await person.json('up', name)).toMatchObject({ pid, target: 'k8s:default/dev/main' });
      expect(await person.json('status', name)).toMatchObject([{ pid }]);
    }
    for (const call of (await kubectl.calls()).filter((words) => !words.includes('config'))) {
      expect(call).toEqual(expect.arrayContaining(['--context=staging', '--namespace=default']));
    }
    expect(await person.ok('down', 'k8s:default/dev')).toContain('is down');
  });

  it('of another kubeconfig is another target', async () => {
    const { person, kubectl, staging, prod } = await twoClusters();
    const first = await person.json<Up>('up', 'k8s:default/dev');
    // The same names all along, for another cluster.
    const other = await kubectl.writeConfig('other', 'staging', [
      { name: 'staging', cluster: 'prod', calledCluster: 'staging' },
    ]);
    const inOther = { env: { KUBECONFIG: other } };
    const down = await person.run(['down', 'k8s:default/dev'], inOther);
    expect(down.stdout.toString()).toBe('There was no bridge to k8s:default/dev.\n');
    const up = await person.run(['up', 'k8s:default/dev', '--json'], inOther);
    const second = JSON.parse(up.stdout.toString()) as Up;
    expect(second.pid).not.toBe(first.pid);
    expect([await signs(staging), await signs(prod)]).toEqual([true, true]);
    expect(await person.json('status')).toHaveLength(2);
    await person.run(['down', 'k8s:dev'], inOther);
    expect(await person.json('status')).toMatchObject([{ pid: first.pid }]);
  });

  it('of another network is another target, with the same configuration', async () => {
    const { person, kubectl, staging, prod } = await twoClusters();
    await kubectl.setCluster('vpn-staging', { pods: [podIn(prod)] });
    const there = { env: { STAND_IN_NETWORK: 'vpn-' } };
    const first = await person.json<Up>('up', 'k8s:dev');
    const down = await person.run(['down', 'k8s:dev'], there);
    expect(down.stdout.toString()).toBe('There was no bridge to k8s:dev.\n');
    expect(await person.run(['up', 'k8s:dev'], there)).toMatchObject({ status: 0 });
    expect([await signs(staging), await signs(prod)]).toEqual([true, true]);
    await person.run(['down', 'k8s:dev'], there);
    expect(await person.json('status')).toMatchObject([{ pid: first.pid }]);
  });

  it.each(['current context', 'meaning of its context'])(
    'is not left for another one when the %s changes, with --restart',
    async (what) => {
      const { person, kubectl, staging, prod, contexts } = await twoClusters();
      const { pid } = await person.json<Up>('up', 'k8s:dev', '--restart', '--runtime=perl');
      const log = person.start(['log', 'k8s:dev', '-f']);
      await log.printed(/bridged k8s:/);
      if (what === 'current context') await kubectl.writeConfig('config', 'prod', contexts);
      else
        await kubectl.writeConfig('config', 'staging', [
          { name: 'staging', cluster: 'prod', calledCluster: 'staging' },
        ]);
      if (what !== 'current context') await delay(4_000);
      for (const child of await childrenOf(pid)) process.kill(child, 'SIGTERM');
      if (what === 'current context') {
        await log.printed(/bridged k8s:.*bridged k8s:/s);
        expect(await signs(staging)).toBe(true);
        // What went wrong before is no error of the bridge that works again.
        expect(await person.json('status')).toMatchObject([{ pid, lastError: null }]);
      } else {
        await log.printed(/is not attached to again: context staging leads to another cluster by now/);
        // It has waited for a moment, and is older than that.
        const [, waited] = /waiting for target for (\d+) s /.exec(await person.ok('status')) ?? [];
        const [{ uptimeSeconds }] = await person.json<[{ uptimeSeconds: number }]>('status');
        expect(Number(waited)).toBeLessThan(uptimeSeconds - 1);
      }
      expect(await sockets(prod)).toEqual([]);
    },
  );

  it('can be let go of while its cluster does not answer', async () => {
    const { person, kubectl, contexts } = await twoClusters();
    await person.ok('up', 'k8s:dev');
    const everything = contexts.map(({ name }) => ({ name, cluster: name }));
    await kubectl.setCluster('staging', { pods: [] });
    await kubectl.writeConfig('config', 'staging', everything);
    expect(await person.ok('down', 'k8s:dev')).toContain('is down');
    expect(await person.json('status')).toEqual([]);
  });

  it('without a shell is status 5, named with its container, and leaves no log', async () => {
    const { person, kubectl, staging } = await twoClusters();
    const pod = podIn(staging, {
      containers: [
        { name: 'proxy', gnupgHome: staging.dir },
        { name: 'app', gnupgHome: staging.dir, bare: true },
      ],
      defaultContainer: 'app',
    });
    await kubectl.setCluster('staging', { pods: [pod] });
    const { status, stderr } = await person.run(['up', 'k8s:dev']);
    expect(stderr).toMatch(
      /nothing in k8s:default\/dev\/app can run the bridge's end: .*executable file not found/,
    );
    expect(status).toBe(5);
    expect(await person.files()).toEqual([]);
  });

  it('on a node that does not answer is status 3, with the reason and without the command', async () => {
    const { person, kubectl, staging } = await twoClusters();
    const containers = [{ name: 'main', gnupgHome: staging.dir, unreachable: true }];
    await kubectl.setCluster('staging', { pods: [podIn(staging, { containers })] });
    const { status, stderr } = await person.run(['up', 'k8s:dev']);
    expect(stderr).toContain('dial tcp 10.0.0.7:10250: connect: connection refused.');
    expect(stderr).not.toContain('command=');
    expect(status).toBe(3);
  });

  it.each([
    ['k8s:nobody', /pods "nobody" not found/],
    ['k8s:team/dev', /pods "dev" not found/],
    ['k8s:default/dev/sidecar', /k8s:default\/dev has no container sidecar: its containers are main/],
    ['k8s:deploy:nothing', /deployments\.apps "nothing" not found/],
  ])('that is not there is status 3: %s', async (name, words) => {
    const { person } = await twoClusters();
    const { status, stderr } = await person.run(['up', name]);
    expect(stderr).toMatch(words);
    expect(status).toBe(3);
  });
});

describe('a deployment', () => {
  it('means its first ready pod, and the next one when that is gone', async () => {
    const { person, kubectl, staging, prod } = await twoClusters();
    const deployments = [{ namespace: 'team', name: 'web', matchLabels: { app: 'web' } }];
    const labels = { app: 'web' };
    const pods = [
      podIn(prod, { namespace: 'team', name: 'web-1', labels, ready: false }),
      podIn(staging, { namespace: 'team', name: 'web-2', labels }),
    ];
    await kubectl.setCluster('staging', { pods, deployments });
    const up = await person.json<Up>('up', 'k8s:team/deploy:web', '--restart', '--runtime=perl');
    expect(up).toMatchObject({ target: 'k8s:team/deploy:web/main', id: 'team/web-2/main' });
    expect(await signs(staging)).toBe(true);
    const running = { ...up, result: 'running' };
    expect(await person.json('up', 'k8s:team/web-2', '--restart', '--runtime=perl')).toEqual(running);
    // Another pod that comes first is no reason for another bridge.
    const earlier = podIn(prod, { namespace: 'team', name: 'web-0', labels });
    await kubectl.setCluster('staging', { pods: [earlier, ...pods], deployments });
    expect(await person.json('up', 'k8s:team/deploy:web', '--restart', '--runtime=perl')).toEqual(running);

    const log = person.start(['log', 'k8s:team/deploy:web', '-f']);
    await log.printed(/bridged k8s:/);
    await kubectl.setCluster('staging', { pods: [{ ...pods[0]!, ready: true }], deployments });
    for (const child of await childrenOf(up.pid)) process.kill(child, 'SIGTERM');
    await log.printed(/is another one now: team\/web-1\/main, no longer team\/web-2\/main.*bridged k8s:/s);
    expect(await signs(prod)).toBe(true);
    expect(await person.json('status', 'k8s:team/web-1')).toMatchObject([{ pid: up.pid }]);
    expect(await person.ok('down', 'k8s:team/deploy:web')).toContain('is down');
  });

  it('keeps its pod until a changed bridge works in the first one that is ready by now', async () => {
    const { person, kubectl, staging, prod } = await twoClusters();
    const deployments = [{ name: 'web', matchLabels: { app: 'web' } }];
    const labels = { app: 'web' };
    const pods = [podIn(staging, { name: 'web-2', labels })];
    await kubectl.setCluster('staging', { pods, deployments });
    const up = await person.json<Up>('up', 'k8s:deploy:web', '--runtime=perl');
    const dead = { name: 'main', gnupgHome: prod.dir, unreachable: true };
    const earlier = podIn(prod, { name: 'web-0', labels, containers: [dead] });
    await kubectl.setCluster('staging', { pods: [earlier, ...pods], deployments });
    expect(await person.run(['up', 'k8s:deploy:web', '--restart'])).toMatchObject({ status: 3 });
    expect(await person.json('status')).toMatchObject([{ pid: up.pid, state: 'ready' }]);
    expect(await signs(staging)).toBe(true);

    await kubectl.setCluster('staging', {
      pods: [podIn(prod, { name: 'web-0', labels }), ...pods],
      deployments,
    });
    const changed = await person.json<Up>('up', 'k8s:deploy:web', '--restart');
    expect(changed).toMatchObject({ result: 'changed', id: 'default/web-0/main', runtime: 'perl' });
    expect(await person.json('status')).toMatchObject([{ pid: changed.pid }]);
    expect([await signs(prod), await sockets(staging)]).toEqual([true, []]);
  });

  it('without a ready pod is status 3', async () => {
    const { person, kubectl, staging } = await twoClusters();
    await kubectl.setCluster('staging', {
      pods: [podIn(staging, { labels: { app: 'web' }, ready: false })],
      deployments: [{ name: 'web', matchLabels: { app: 'web' } }],
    });
    const { status, stderr } = await person.run(['up', 'k8s:deploy:web']);
    expect(stderr).toContain('none of its 1 pods is ready');
    expect(status).toBe(3);
  });
});

describe('a cluster that does not answer', () => {
  it('keeps nobody from ending a bridge that is up', async () => {
    const { person, kubectl, staging } = await twoClusters();
    const { pid } = await person.json<Up>('up', 'k8s:dev');
    await kubectl.setCluster('staging', { hangs: true, pods: [] });
    expect(await person.ok('down', 'k8s:dev')).toContain('is down');
    await untilEnded(pid);
    expect(await sockets(staging)).toEqual([]);
    await kubectl.setCluster('staging', { pods: [] });
  }, 30_000);

  it('keeps nobody from ending a bridge that waits for it', async () => {
    const { person, kubectl } = await twoClusters();
    const { pid } = await person.json<Up>('up', 'k8s:dev', '--restart');
    await kubectl.setCluster('staging', { hangs: true, pods: [] });
    const [exec] = await childrenOf(pid);
    process.kill(exec!);
    const asks = async () => (await kubectl.calls()).filter((words) => words.includes('pod')).length;
    await expect.poll(asks, PATIENT).toBeGreaterThan(1);
    expect(await person.ok('down', 'k8s:dev')).toContain('is down');
    await untilEnded(pid);
    await kubectl.setCluster('staging', { pods: [] });
  }, 30_000);
});
