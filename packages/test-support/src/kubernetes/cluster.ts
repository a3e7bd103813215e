import { link, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Daemon } from '../engine/daemon.ts';
import { imageTar } from '../engine/images.ts';
import { cgroupOf, killProcessesOf, removeCgroup, unmountBelow } from '../engine/kernel.ts';
import { run, runOk } from '../process.ts';
import { removeDir } from '../temp.ts';
import { firstVersion, testedWith } from '../tested-with.ts';
import type { ClusterNetwork } from './network.ts';
import { kubernetesProgram } from './programs.ts';

/** The image that pods run, and that holds their namespaces. */
const IMAGE = 'localhost/git:1';
const NODE = 'node1';
const READY_INTERVAL_MS = 200;
const READY_MS = 120_000;
/** How long a pod may take: with one attempt more that is less than a test may. */
const POD_MS = 90_000;
/** The kubelet sets these for the whole machine. */
const KERNEL_SETTINGS = ['kernel.panic', 'kernel.panic_on_oops', 'vm.overcommit_memory'];
/** Directories of a kubelet that has none told to it for them. */
const LOG_DIRECTORIES = ['/var/log/pods', '/var/log/containers'];

/** Who may do what: `admin` everything, `viewer` see pods and not run anything in them. */
export type ClusterUser = 'admin' | 'viewer';

/** A real cluster of one node: etcd, API server, containerd and kubelet. */
export class KubernetesCluster {
  #settings = '';
  #containerd?: Daemon;
  #etcd?: Daemon;
  #apiServer?: Daemon;
  #kubelet?: Daemon;
  /** The pod that is being made, or could not be. */
  #unfinishedPod: string | undefined;

  private constructor(
    readonly name: string,
    private readonly dir: string,
    private readonly network: ClusterNetwork,
    /** Tells the ports and the address from those of other clusters in the network. */
    private readonly number: number,
  ) {}

  /** Starts one below a directory; needs root. One that does not start leaves nothing. */
  static async start(
    dir: string,
    network: ClusterNetwork,
    name: string,
    number: number,
  ): Promise<KubernetesCluster> {
    const cluster = new KubernetesCluster(name, join(dir, name), network, number);
    try {
      await cluster.#startAll();
      return cluster;
    } catch (error) {
      await cluster.stop().catch(() => {}); // why it did not start tells more
      throw error;
    }
  }

  async #startAll(): Promise<void> {
    await mkdir(join(this.dir, 'cni'), { recursive: true });
    await this.#writeConfiguration();
    this.#settings = await runOk('sysctl', KERNEL_SETTINGS);
    await this.network.addAddress(this.#address);
    await allOf(this.#startContainerd(), this.#startEtcd());
    await allOf(this.startApiServer(), this.#importImage());
    await this.#createViewer();
    await this.startKubelet();
    await testedWith('kubernetes', async () => firstVersion(await this.kubectl('version', '--short')));
  }

  /** The kubeconfig entries for a user of this cluster, in a context of the cluster's name. */
  context(user: ClusterUser = 'admin') {
    const server = `https://127.0.0.1:${this.#apiPort}`;
    return {
      clusters: [{ name: this.name, cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: `${this.name}-${user}`, user: { token: `${this.name}-${user}-token` } }],
      contexts: [{ name: this.name, context: { cluster: this.name, user: `${this.name}-${user}` } }],
    };
  }

  /** Runs kubectl as the cluster's owner; it has to succeed. */
  kubectl(...args: string[]): Promise<string> {
    const flags = [`--server=https://127.0.0.1:${this.#apiPort}`, '--insecure-skip-tls-verify'];
    return this.network.runInside(
      kubernetesProgram('kubectl'),
      [...flags, `--token=${this.name}-admin-token`, ...args],
      { ...process.env, KUBECONFIG: '/dev/null', HOME: this.dir },
    );
  }

  /** Creates things from a document. */
  async apply(document: object): Promise<void> {
    const path = join(this.dir, 'document.json');
    await writeFile(path, JSON.stringify(document));
    await this.kubectl('apply', '-f', path);
  }

  /** Makes a pod, and returns when commands can be run in it. */
  async createPod(name: string, { labels = {}, containers = ['main'] } = {}): Promise<void> {
    this.#unfinishedPod = name;
    await this.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels },
      spec: {
        nodeName: NODE,
        hostNetwork: true,
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 0,
        containers: containers.map((container) => ({
          name: container,
          image: IMAGE,
          imagePullPolicy: 'Never',
          command: ['sleep', 'infinity'],
        })),
      },
    });
    await until(() => this.kubectl('exec', name, '--', 'true'), POD_MS);
    await this.kubectl('wait', '--for=condition=Ready', `pod/${name}`, '--timeout=60s');
    this.#unfinishedPod = undefined;
  }

  /**
   * Throws unless the cluster can be used: a cluster that made no pod makes no other one, and each test would wait for
   * its own for minutes.
   */
  async checkUsable(): Promise<void> {
    if (this.#unfinishedPod !== undefined) {
      throw new Error(`the cluster ${this.name} does not make pods: ${this.#unfinishedPod} was not ready`);
    }
    await this.checkReady();
  }

  /** Runs a shell command in a pod; it has to succeed. */
  sh(pod: string, script: string): Promise<string> {
    return this.kubectl('exec', pod, '--', 'sh', '-c', script);
  }

  async startApiServer(): Promise<void> {
    const etcd = `http://127.0.0.1:${this.#etcdPort}`;
    this.#apiServer = await this.#start('kube-apiserver', /Serving securely on/, [
      `--etcd-servers=${etcd}`,
      `--secure-port=${this.#apiPort}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--cert-dir=${join(this.dir, 'pki')}`,
      `--token-auth-file=${join(this.dir, 'tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${join(this.dir, 'accounts.key')}`,
      `--service-account-signing-key-file=${join(this.dir, 'accounts.key')}`,
      '--service-cluster-ip-range=10.0.0.0/24',
      '--disable-admission-plugins=ServiceAccount',
      '--kubelet-preferred-address-types=InternalIP',
    ]);
    await until(() => this.checkReady());
    await until(() => this.kubectl('get', 'namespace', 'default'));
  }

  /** Throws unless the API server says that it is ready. */
  async checkReady(): Promise<void> {
    await this.kubectl('get', '--raw', '/readyz', '--request-timeout=20s');
  }

  async stopApiServer(signal?: NodeJS.Signals): Promise<void> {
    await this.#apiServer?.stop(signal);
  }

  async startKubelet(): Promise<void> {
    this.#kubelet = await this.#start(
      'kubelet',
      /(Successfully|already) registered|node .* was previously registered/,
      [
        `--config=${join(this.dir, 'kubelet.json')}`,
        `--root-dir=${join(this.dir, 'kubelet')}`,
        `--cert-dir=${join(this.dir, 'kubelet/pki')}`,
        `--kubeconfig=${join(this.dir, 'kubelet.conf')}`,
        `--hostname-override=${NODE}`,
        `--node-ip=${this.#address}`,
        '--container-runtime=remote',
        `--container-runtime-endpoint=unix://${this.#containerdSocket}`,
      ],
    );
    await this.#restoreSettings();
  }

  async stopKubelet(signal?: NodeJS.Signals): Promise<void> {
    await this.#kubelet?.stop(signal);
  }

  /** Ends everything and deletes it. */
  async stop(): Promise<void> {
    await this.stopKubelet();
    await this.stopApiServer();
    await this.#etcd?.stop();
    await this.#containerd?.stop();
    await killProcessesOf(this.dir); // containers outlive containerd
    await unmountBelow(this.dir);
    await removeCgroup(this.#cgroup);
    await this.#restoreSettings();
    await removeDir(this.dir);
    for (const directory of LOG_DIRECTORIES) await run('find', [directory, '-xtype', 'l', '-delete']);
  }

  get #apiPort(): number {
    return 6443 + this.number;
  }

  get #etcdPort(): number {
    return 23_790 + 2 * this.number;
  }

  get #address(): string {
    return `198.51.100.${1 + this.number}`;
  }

  get #containerdSocket(): string {
    return join(this.dir, 'containerd.sock');
  }

  get #cgroup(): string {
    return cgroupOf(`${this.network.name}-${this.name}`).replace(/^\/?/, '/');
  }

  #start(
    program: 'etcd' | 'kube-apiserver' | 'kubelet' | 'containerd',
    ready: RegExp,
    args: string[],
  ): Promise<Daemon> {
    const path = program === 'containerd' ? program : kubernetesProgram(program);
    return Daemon.start({ ...this.network.inside(path, args), ready });
  }

  async #startEtcd(): Promise<void> {
    const [client, peer] = [this.#etcdPort, this.#etcdPort + 1].map((port) => `http://127.0.0.1:${port}`);
    this.#etcd = await this.#start('etcd', /ready to serve client requests/, [
      `--data-dir=${join(this.dir, 'etcd')}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
    ]);
  }

  async #startContainerd(): Promise<void> {
    this.#containerd = await this.#start('containerd', /containerd successfully booted/, [
      `--config=${join(this.dir, 'containerd.toml')}`,
    ]);
  }

  async #writeConfiguration(): Promise<void> {
    const write = (name: string, text: string) => writeFile(join(this.dir, name), text, { mode: 0o600 });
    await runOk('openssl', ['genrsa', '-out', join(this.dir, 'accounts.key'), '2048']);
    const tokens = [
      `${this.name}-admin-token,admin,1,system:masters`,
      `${this.name}-viewer-token,viewer,2,viewers`,
    ];
    await write('tokens.csv', `${tokens.join('\n')}\n`);
    await write(
      'kubelet.conf',
      JSON.stringify({ apiVersion: 'v1', kind: 'Config', 'current-context': this.name, ...this.context() }),
    );
    await write('kubelet.json', JSON.stringify(this.#kubeletConfiguration()));
    await write('containerd.toml', this.#containerdConfiguration());
  }

  #kubeletConfiguration() {
    return {
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      kind: 'KubeletConfiguration',
      address: this.#address,
      authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
      authorization: { mode: 'AlwaysAllow' },
      cgroupDriver: 'cgroupfs',
      cgroupsPerQOS: false,
      cgroupRoot: this.#cgroup,
      enforceNodeAllocatable: [],
      evictionHard: { 'memory.available': '100Mi' },
      failSwapOn: false,
      healthzPort: 0,
      imageGCHighThresholdPercent: 100,
      makeIPTablesUtilChains: false,
      readOnlyPort: 0,
      resolvConf: '',
    };
  }

  #containerdConfiguration(): string {
    return `version = 2
root = "${this.dir}/containerd/root"
state = "${this.dir}/containerd/state"
[grpc]
  address = "${this.#containerdSocket}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "${IMAGE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "${this.dir}/cni"
`;
  }

  /** Imports the image that has git and perl, as an archive of the kind that \`docker save\` writes. */
  async #importImage(): Promise<void> {
    const work = join(this.dir, 'image');
    await mkdir(work);
    const tar = await imageTar('git');
    await link(tar, join(work, 'layer.tar')).catch(() => runOk('cp', [tar, join(work, 'layer.tar')]));
    const [digest = ''] = (await runOk('sha256sum', [tar])).split(' ');
    const config = {
      architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
      os: 'linux',
      config: {
        Cmd: ['sleep', 'infinity'],
        Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
      },
      rootfs: { type: 'layers', diff_ids: [`sha256:${digest}`] },
    };
    await writeFile(join(work, 'config.json'), JSON.stringify(config));
    const manifest = [{ Config: 'config.json', RepoTags: [IMAGE], Layers: ['layer.tar'] }];
    await writeFile(join(work, 'manifest.json'), JSON.stringify(manifest));
    const archive = join(this.dir, 'image.tar');
    await runOk('tar', [
      '--create',
      '--file',
      archive,
      '--directory',
      work,
      'manifest.json',
      'config.json',
      'layer.tar',
    ]);
    await runOk('ctr', [
      `--address=${this.#containerdSocket}`,
      '--namespace=k8s.io',
      'images',
      'import',
      archive,
    ]);
  }

  async #createViewer(): Promise<void> {
    await this.kubectl(
      'create',
      'clusterrole',
      'viewer',
      '--verb=get,list',
      '--resource=pods,namespaces,deployments.apps',
    );
    await this.kubectl('create', 'clusterrolebinding', 'viewer', '--clusterrole=viewer', '--group=viewers');
  }

  async #restoreSettings(): Promise<void> {
    for (const line of this.#settings.split('\n').filter(Boolean)) {
      await runOk('sysctl', ['--quiet', '--write', line.replaceAll(' ', '')]);
    }
  }
}

/** Returns when all are done, and throws only then: what one of them started is known when another one fails. */
async function allOf(...tasks: Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(tasks)).find((task) => task.status === 'rejected');
  if (failed) throw failed.reason;
}

/** Tries something until it succeeds, for a time. */
async function until(attempt: () => Promise<unknown>, ms = READY_MS): Promise<void> {
  const end = performance.now() + ms;
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
      await delay(READY_INTERVAL_MS);
    }
  }
}
