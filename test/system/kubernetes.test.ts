import { writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { type ClusterUser, KubernetesCluster } from '@gpg-bridge/test-support/kubernetes/cluster';
import { ClusterNetwork } from '@gpg-bridge/test-support/kubernetes/network';
import { makeOpenPgpKey } from '@gpg-bridge/test-support/openpgp-keys';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { makeTempDir, removeDir, tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';

const SIGN = 'echo hello | gpg --batch --clear-sign | gpg --batch --status-fd 1 --verify';
const CYCLES = 30;
/** For a test that does a lot, or that starts a cluster. */
const LONG_TIMEOUT_MS = 600_000;

interface Up {
  pid: number;
  target: string;
}

requireSystem('kubernetes')('a real cluster', () => {
  let directory: string;
  let network: ClusterNetwork;
  const clusters: KubernetesCluster[] = [];

  /** The cluster of a name, started when the first test asks for it. */
  async function cluster(name: 'staging' | 'prod'): Promise<KubernetesCluster> {
    const known = clusters.find((each) => each.name === name);
    if (known) {
      await known.checkUsable(); // one that is broken fails each test at once, not each of its waits
      return known;
    }
    const started = await KubernetesCluster.start(directory, network, name, clusters.length);
    clusters.push(started);
    return started;
  }

  /** Somebody whose kubectl reaches some clusters, the first of them unless they say otherwise. */
  async function personAt(reached: readonly KubernetesCluster[], user?: ClusterUser): Promise<Person> {
    const person = await Person.create();
    const programs = await tempDir();
    await network.installKubectl(programs);
    person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
    person.env.KUBECONFIG = join(programs, 'config');
    const contexts = reached.map((each) => each.context(user));
    await writeFile(
      person.env.KUBECONFIG,
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        'current-context': reached[0]!.name,
        clusters: contexts.flatMap((each) => each.clusters),
        users: contexts.flatMap((each) => each.users),
        contexts: contexts.flatMap((each) => each.contexts),
      }),
    );
    return person;
  }

  /** A pod of the test's own. */
  async function podIn(where: KubernetesCluster, name: string, options = {}): Promise<void> {
    onTestFinished(async () => {
      await where.kubectl('delete', 'pod', name, '--force', '--grace-period=0', '--ignore-not-found');
    });
    await where.createPod(name, options);
  }

  beforeAll(async () => {
    directory = await makeTempDir();
    network = await ClusterNetwork.create(directory);
    await cluster('staging');
  }, SETUP_MS);

  afterAll(async () => {
    try {
      for (const each of clusters) await each.stop();
    } finally {
      await network?.remove();
      await removeDir(directory);
    }
  });

  it('signs, decrypts and lists SSH keys in a pod', async () => {
    const staging = await cluster('staging');
    await podIn(staging, 'dev');
    const person = await personAt([staging]);
    const agent = await startSshAgent();
    const fingerprint = await agent.fingerprint(await agent.addKey('ada@example.org'));
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    await person.home.addEncryptionKey(person.fingerprint);
    const said = await person.ok('up', 'k8s:dev');
    expect(said).toContain('The bridge to k8s:default/dev/main is up (perl');
    expect(said).toContain('context staging');
    expect(await staging.sh('dev', SIGN)).toContain('GOODSIG');
    const secret =
      'echo secret | gpg --batch --trust-model=always --encrypt -r ada@example.org | gpg --batch --decrypt';
    expect(await staging.sh('dev', secret)).toBe('secret\n');
    const list = 'SSH_AUTH_SOCK=~/.ssh/agent.sock ssh-add -l';
    expect(await staging.sh('dev', list)).toContain(fingerprint);
    const done = await person.run(['exec', 'k8s:dev', '--', 'sh', '-c', `${list}; exit 7`]);
    expect(done.stdout.toString()).toContain(fingerprint);
    expect(done.status).toBe(7);
    expect(await person.ok('down', 'k8s:dev')).toContain('is down');
    expect(await staging.sh('dev', 'ls -A ~/.ssh ~/.gnupg | grep -c -e agent.sock -e S.gpg || true')).toBe(
      '0\n',
    );
  });

  it(
    `comes and goes ${CYCLES} times`,
    async () => {
      const staging = await cluster('staging');
      await podIn(staging, 'cycles');
      const person = await personAt([staging]);
      for (let cycle = 0; cycle < CYCLES; cycle++) {
        await person.ok('up', 'k8s:cycles');
        if (cycle % 20 === 0) expect(await staging.sh('cycles', SIGN)).toContain('GOODSIG');
        await person.ok('down', 'k8s:cycles');
      }
      expect(await staging.sh('cycles', 'ls -A ~/.gnupg | grep -c S.gpg || true')).toBe('0\n');
      expect(
        await staging.sh(
          'cycles',
          'cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -c "[s]ocket server" || true',
        ),
      ).toBe('0\n');
    },
    LONG_TIMEOUT_MS,
  );

  it('ends when its pod is deleted, and with --restart is there again in the next one', async () => {
    const staging = await cluster('staging');
    await podIn(staging, 'gone');
    const person = await personAt([staging]);
    const { pid } = await person.json<Up>('up', 'k8s:gone', '--restart');
    const log = person.start(['log', 'k8s:gone', '-f']);
    await log.printed(/bridged k8s:/);
    await staging.kubectl('delete', 'pod', 'gone', '--force', '--grace-period=0');
    await log.printed(/bridged k8s:[\s\S]*\n.*(wait|again|ended)/);
    await staging.createPod('gone');
    await log.printed(/bridged k8s:[\s\S]*bridged k8s:/);
    expect(await staging.sh('gone', SIGN)).toContain('GOODSIG');
    expect(await person.json('status', 'k8s:gone')).toMatchObject([{ pid, state: 'ready', lastError: null }]);
  });

  it.each(['kubelet', 'API server'] as const)(
    'outlives a restart of the %s, with --restart',
    async (what) => {
      const staging = await cluster('staging');
      const name = what === 'kubelet' ? 'node' : 'api';
      await podIn(staging, name);
      const person = await personAt([staging]);
      await person.ok('up', `k8s:${name}`, '--restart');
      if (what === 'kubelet') {
        await staging.stopKubelet();
        try {
          const refused = await person.run(['up', `k8s:${name}`, '--user=nobody']);
          expect(refused.status).not.toBe(0);
          expect(refused.stderr).not.toContain('command=');
        } finally {
          await staging.startKubelet();
        }
      } else {
        await staging.stopApiServer();
        await staging.startApiServer();
      }
      // Whatever the restart did to the line, a person who asks for the bridge has it.
      await person.ok('up', `k8s:${name}`, '--restart');
      expect(await staging.sh(name, SIGN)).toContain('GOODSIG');
    },
  );

  it('says that there is no right to run anything in a pod', async () => {
    const staging = await cluster('staging');
    await podIn(staging, 'mine');
    const person = await personAt([staging], 'viewer');
    const { status, stderr } = await person.run(['up', 'k8s:mine']);
    expect(stderr).toMatch(/User "viewer" cannot create resource "pods\/exec"/);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(status).toBe(3);
    expect(await person.files()).toEqual([]);
  });

  it('names the container that kubectl would take, and takes a deployment’s first ready pod', async () => {
    const staging = await cluster('staging');
    await podIn(staging, 'two', { containers: ['app', 'proxy'] });
    await podIn(staging, 'web-1', { labels: { app: 'web' } });
    await staging.apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web' },
      spec: {
        selector: { matchLabels: { app: 'web' } },
        template: {
          metadata: { labels: { app: 'web' } },
          spec: { containers: [{ name: 'main', image: 'none' }] },
        },
      },
    });
    const person = await personAt([staging]);
    expect(await person.ok('up', 'k8s:two')).toContain('The bridge to k8s:default/two/app is up');
    expect(await person.ok('up', 'k8s:deploy:web')).toContain('k8s:default/deploy:web/main is up');
    expect(await staging.sh('web-1', SIGN)).toContain('GOODSIG');
  });

  it('imports a keyring of 501 keys', async () => {
    const staging = await cluster('staging');
    await podIn(staging, 'keys');
    const person = await personAt([staging]);
    const keys = Array.from(
      { length: 500 },
      (_, index) => makeOpenPgpKey([`Key <${index}@example.org>`]).packets,
    );
    await person.home.gpgOk(['--import'], { input: Buffer.concat(keys) });
    await person.ok('up', 'k8s:keys', '--keys=all');
    const count = 'gpg --batch --with-colons --list-keys | grep -c ^pub';
    expect(await staging.sh('keys', count)).toBe('501\n');
  });

  it('is told from another cluster that has a pod of the same name', {
    timeout: LONG_TIMEOUT_MS,
  }, async () => {
    const [staging, prod] = [await cluster('staging'), await cluster('prod')];
    await podIn(staging, 'same');
    await podIn(prod, 'same');
    const person = await personAt([staging, prod]);
    const first = await person.json<Up>('up', 'k8s:same', '--restart');
    await runOk('kubectl', ['config', 'use-context', 'prod'], { env: person.env });
    const second = await person.json<Up>('up', 'k8s:same');
    expect(second.pid).not.toBe(first.pid);
    expect(await staging.sh('same', SIGN)).toContain('GOODSIG');
    expect(await prod.sh('same', SIGN)).toContain('GOODSIG');
    await person.ok('down', 'k8s:same');
    expect(await person.json('status')).toMatchObject([{ pid: first.pid }]);
    expect(await prod.sh('same', 'ls -A ~/.gnupg | grep -c S.gpg || true')).toBe('0\n');
    expect(await staging.sh('same', SIGN)).toContain('GOODSIG');
  });
});
