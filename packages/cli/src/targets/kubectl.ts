import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BridgeError } from '@gpg-bridge/core/errors';
import { describeFailure, type ProgramResult, runProgram } from '@gpg-bridge/core/process/run-program';
import { printable } from '@gpg-bridge/core/text/escape';
import { attachProcess } from '../engine/attach.ts';
import type { TerminalGate } from '../engine/terminal-gate.ts';
import { pasteable } from './shell-quote.ts';
import { spawnExec } from './spawn-exec.ts';
import { withStderrLines } from './stderr-lines.ts';
import { leadsElsewhere } from './target.ts';

/** A cluster as the person's kubectl knows it. */
export interface Cluster {
  /** Absent inside a cluster, where kubectl needs no configuration. */
  context?: string;
  cluster?: string;
  server: string;
  /** Where a name without a namespace is looked up. */
  namespace: string;
  /** Tells this cluster from every other, also from one that has its names in another configuration. */
  place: string;
}

interface KubeConfig {
  'current-context'?: string;
  contexts?: { name?: string; context?: { cluster?: string; namespace?: string } }[];
  clusters?: { name?: string; cluster?: { server?: string; 'certificate-authority'?: string } }[];
}

/** What is read of a pod's description. */
export interface Pod {
  metadata?: {
    name?: string;
    annotations?: Record<string, string>;
    deletionTimestamp?: string;
  };
  spec?: { containers?: { name: string }[]; ephemeralContainers?: { name: string }[] };
  status?: { phase?: string; conditions?: { type: string; status: string }[] };
}

interface Deployment {
  spec?: {
    selector?: {
      matchLabels?: Record<string, string>;
      matchExpressions?: { key: string; operator: string; values?: string[] }[];
    };
  };
}

const SERVICE_ACCOUNT_NAMESPACE = '/var/run/secrets/kubernetes.io/serviceaccount/namespace';
/** The description of a pod with many containers has some hundred KiB, a list of pods more. */
const MAX_OUTPUT_BYTES = 32 * 1024 * 1024;
const TIMEOUT_MS = 60_000;

/** The person's kubectl, held to one cluster and namespace. */
export class Kubectl {
  readonly namespace: string;

  constructor(
    readonly cluster: Cluster,
    namespace: string | undefined,
    readonly env: NodeJS.ProcessEnv,
  ) {
    this.namespace = namespace ?? cluster.namespace;
  }

  /** What holds every call to the cluster and the namespace that were settled. */
  get words(): string[] {
    const { context, cluster } = this.cluster;
    return [
      ...(context === undefined ? [] : [`--context=${context}`]),
      ...(cluster === undefined ? [] : [`--cluster=${cluster}`]),
      `--namespace=${this.namespace}`,
    ];
  }

  async exec(pod: string, container: string, argv: readonly string[]) {
    const words = [...this.words, 'exec', '-i', pod, '-c', container, '--', ...argv];
    // An error may quote the address with the whole command in it, far longer than the reason behind it.
    return withStderrLines(await spawnExec('kubectl', words, this.env), (line) =>
      line.replace(/([?&])command=[^&\s"]*/g, '$1').replace(/([?&])&+/g, '$1'),
    );
  }

  async attach(
    pod: string,
    container: string,
    argv: readonly string[],
    terminal: boolean,
    gate?: TerminalGate,
  ) {
    const words = [...this.words, 'exec', terminal ? '-it' : '-i', pod, '-c', container, '--', ...argv];
    return attachProcess('kubectl', words, this.env, gate);
  }

  async get<T>(words: readonly string[]): Promise<T> {
    const result = await kubectl([...this.words, 'get', ...words, '-o', 'json'], this.env);
    if (result.status === 0) return parseJson<T>(result);
    throw new BridgeError('TARGET_NOT_FOUND', {
      what: `kubectl does not find ${words[0]} ${words[1]} in the namespace ${this.namespace}`,
      why: lastWords(result),
      fix: `See \`${pasteable(['kubectl', ...this.words, 'get', `${words[0]}s`])}\`.`,
    });
  }

  /** Tells clusters apart that have one configuration; empty for a person who may not look at it. */
  async namespaceUid(): Promise<string> {
    const words = [...this.words, 'get', 'namespace', this.namespace, '-o', 'json'];
    const result = await kubectl(words, this.env);
    if (result.status !== 0) return '';
    return parseJson<{ metadata?: { uid?: string } }>(result).metadata?.uid ?? '';
  }

  async firstReadyPod(deployment: string): Promise<Pod> {
    const { spec } = await this.get<Deployment>(['deployment', deployment]);
    const { items = [] } = await this.get<{ items?: Pod[] }>(['pods', `--selector=${selectorOf(spec)}`]);
    const ready = items.find(
      ({ metadata, status }) =>
        metadata?.deletionTimestamp === undefined &&
        status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
    );
    if (ready) return ready;
    throw new BridgeError('TARGET_NOT_RUNNING', {
      what: `deployment ${deployment} has no pod to run a command in`,
      why: `none of its ${items.length} pods is ready`,
      fix: `See \`${pasteable(['kubectl', ...this.words, 'get', 'pods'])}\`.`,
    });
  }

  /** Rejects when the configuration gives the context another meaning than it had. */
  async checkPlace(name: string): Promise<void> {
    const { place } = await findCluster(this.env, this.cluster.context);
    if (place === this.cluster.place) return;
    throw leadsElsewhere(name, `context ${this.cluster.context ?? ''} leads to another cluster by now`);
  }
}

/** What tells a deployment's pods from all others, as kubectl writes it. */
function selectorOf(spec: Deployment['spec']): string {
  const { matchLabels = {}, matchExpressions = [] } = spec?.selector ?? {};
  const labels = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  const expressions = matchExpressions.map(({ key, operator, values = [] }) => {
    if (operator === 'Exists') return key;
    if (operator === 'DoesNotExist') return `!${key}`;
    return `${key} ${operator.toLowerCase()} (${values.join(',')})`;
  });
  return [...labels, ...expressions].join(',');
}

/** The cluster of a context, or of the current one. */
export async function findCluster(env: NodeJS.ProcessEnv, context?: string): Promise<Cluster> {
  const which = context === undefined ? [] : [`--context=${context}`];
  const result = await kubectl(['config', 'view', '--minify', '--raw', '--output=json', ...which], env);
  if (result.status !== 0) {
    if (context === undefined && env.KUBERNETES_SERVICE_HOST) return ownCluster(env);
    throw new BridgeError('TARGET_NOT_FOUND', {
      what: "kubectl's configuration names no cluster",
      why: lastWords(result),
      fix: 'See `kubectl config get-contexts`, and choose one with `kubectl config use-context`.',
    });
  }
  const config = parseJson<KubeConfig>(result);
  const chosen = config.contexts?.[0];
  const cluster = config.clusters?.[0];
  const name = chosen?.name ?? config['current-context'] ?? '';
  const clusterName = cluster?.name ?? chosen?.context?.cluster ?? '';
  // A certificate is what tells two clusters with one address apart.
  const authority = fileText(cluster?.cluster?.['certificate-authority']);
  const digest = createHash('sha256').update(JSON.stringify([cluster?.cluster, authority]));
  return {
    context: name,
    cluster: clusterName,
    server: printable(cluster?.cluster?.server ?? 'no server'),
    namespace: chosen?.context?.namespace || 'default',
    place: JSON.stringify([name, clusterName, digest.digest('hex')]),
  };
}

/** Inside a pod kubectl finds the cluster by what Kubernetes puts there. */
function ownCluster({ KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT }: NodeJS.ProcessEnv): Cluster {
  const server = `https://${KUBERNETES_SERVICE_HOST}:${KUBERNETES_SERVICE_PORT ?? 443}`;
  const namespace = fileText(SERVICE_ACCOUNT_NAMESPACE).trim() || 'default';
  return { server, namespace, place: JSON.stringify([server]) };
}

function fileText(path: string | undefined): string {
  try {
    return path === undefined ? '' : readFileSync(path, 'latin1');
  } catch {
    return ''; // kubectl itself says what is wrong with it
  }
}

async function kubectl(args: readonly string[], env: NodeJS.ProcessEnv): Promise<ProgramResult> {
  try {
    return await runProgram('kubectl', args, { env, timeoutMs: TIMEOUT_MS, maxOutput: MAX_OUTPUT_BYTES });
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new BridgeError('TARGET_NOT_FOUND', {
      what: "can't run kubectl",
      why: isMissing ? 'it is not installed or not on the PATH' : (error as Error).message,
      fix: 'Install kubectl, or put it on the PATH.',
      cause: error,
    });
  }
}

function parseJson<T>({ stdout }: ProgramResult): T {
  try {
    return JSON.parse(stdout.toString()) as T;
  } catch (cause) {
    throw new BridgeError('TARGET_NOT_FOUND', {
      what: "kubectl's answer is not understood",
      why: (cause as Error).message,
      fix: 'See whether `kubectl get pods -o json` works.',
      cause,
    });
  }
}

function lastWords(result: ProgramResult): string {
  const line = result.stderr.trim().split('\n').at(-1) ?? '';
  return line && !result.aborted ? printable(line, 500) : describeFailure(result);
}
