import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { Person } from './cli.ts';
import { tempDir } from './temp.ts';

/** A container of a stand-in's pod: commands in it run on this machine, with a home of their own. */
export interface StandInContainer {
  name: string;
  gnupgHome: string;
  /** It has no `sh`. */
  bare?: boolean;
  /** The kubelet of its node does not answer. */
  unreachable?: boolean;
}

/** A pod as the stand-in's cluster has it. */
export interface StandInPod {
  namespace?: string;
  name: string;
  containers: StandInContainer[];
  defaultContainer?: string;
  labels?: Record<string, string>;
  ready?: boolean;
  phase?: string;
}

/** A cluster: its pods and deployments are read at every call. */
export interface StandInCluster {
  /** It takes connections and answers nothing. */
  hangs?: boolean;
  pods: StandInPod[];
  deployments?: { namespace?: string; name: string; matchLabels: Record<string, string> }[];
}

/** A context of a kubeconfig: its name, the cluster it leads to, and the namespace it sets. */
export interface StandInContext {
  name: string;
  cluster: string;
  namespace?: string;
  /** The cluster's name in the configuration, if not its own. */
  calledCluster?: string;
}

/**
 * A stand-in for kubectl with as many clusters as a test wants: it knows kubeconfigs (JSON is YAML, too), contexts,
 * namespaces and default containers, answers in kubectl's words, and notes how it was called.
 */
export class StandInKubectl {
  private constructor(readonly directory: string) {}

  static async install(person: Person): Promise<StandInKubectl> {
    const directory = await tempDir();
    const programs = join(directory, 'bin');
    await mkdir(programs);
    await mkdir(join(directory, 'clusters'));
    const program = join(programs, 'kubectl');
    await writeFile(program, `#!${process.execPath}\n${PROGRAM.replaceAll('@DIRECTORY@', directory)}`);
    await chmod(program, 0o755);
    person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
    return new StandInKubectl(directory);
  }

  /** Sets what a cluster has; one in another network (STAND_IN_NETWORK) is named with that before its name. */
  async setCluster(name: string, cluster: StandInCluster): Promise<void> {
    await writeFile(join(this.directory, 'clusters', `${name}.json`), JSON.stringify(cluster));
  }

  /** Writes a kubeconfig and returns its path. */
  async writeConfig(file: string, current: string, contexts: readonly StandInContext[]): Promise<string> {
    const path = join(this.directory, file);
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': current,
      contexts: contexts.map(({ name, cluster, namespace, calledCluster }) => ({
        name,
        context: { cluster: calledCluster ?? cluster, user: 'ada', ...(namespace ? { namespace } : {}) },
      })),
      clusters: contexts.map(({ cluster, calledCluster }) => ({
        name: calledCluster ?? cluster,
        cluster: { server: `https://${cluster}.example:6443`, 'certificate-authority-data': 'QUJD' },
      })),
      users: [{ name: 'ada', user: { token: 'secret' } }],
    };
    await writeFile(path, JSON.stringify(config));
    return path;
  }

  /** Every call so far: its words, without what comes after `--`. */
  async calls(): Promise<string[][]> {
    const text = await readFile(join(this.directory, 'calls'), 'utf8').catch(() => '');
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as string[]);
  }
}

const PROGRAM = String.raw`
const { spawn } = require('node:child_process');
const { createHash } = require('node:crypto');
const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const { delimiter, join } = require('node:path');
const directory = '@DIRECTORY@';
const words = process.argv.slice(2);
const split = words.indexOf('--');
const own = split < 0 ? words : words.slice(0, split);
const command = split < 0 ? [] : words.slice(split + 1);
appendFileSync(join(directory, 'calls'), JSON.stringify(own) + '\n');

function fail(text, status = 1) {
  process.stderr.write(text + '\n');
  process.exit(status);
}

const flags = {};
const operands = [];
const LONG = { '-n': 'namespace', '-c': 'container', '-o': 'output', '-l': 'selector' };
for (let at = 0; at < own.length; at++) {
  const word = own[at];
  const [, name, value] = /^--([\w-]+)(?:=(.*))?$/s.exec(word) ?? [];
  if (LONG[word]) flags[LONG[word]] = own[++at];
  else if (name === 'minify' || name === 'raw' || name === 'flatten' || word === '-i' || word === '-it') flags[name ?? word] = true;
  else if (name) flags[name] = value ?? own[++at];
  else operands.push(word);
}

// The first file that has a name says what it means.
const files = (flags.kubeconfig ?? process.env.KUBECONFIG ?? join(process.env.HOME, '.kube/config')).split(delimiter);
const configs = files.filter((file) => file && existsSync(file)).map((file) => JSON.parse(readFileSync(file, 'utf8')));
const named = (list, name) => configs.flatMap((config) => config[list] ?? []).find((each) => each.name === name);
const current = flags.context ?? configs.map((config) => config['current-context']).find(Boolean);
const context = named('contexts', current);
const clusterName = flags.cluster ?? context?.context.cluster;
const cluster = named('clusters', clusterName);

if (operands[0] === 'config' && operands[1] === 'view') {
  if (!current) fail('error: current-context must exist in order to minify');
  if (!context) fail('error: cannot locate context ' + current);
  const { 'certificate-authority-data': data, ...rest } = cluster.cluster;
  const shown = { ...rest, 'certificate-authority-data': flags.raw ? data : 'DATA+OMITTED' };
  process.stdout.write(JSON.stringify({
    kind: 'Config', apiVersion: 'v1', 'current-context': current, contexts: [context],
    clusters: [{ name: clusterName, cluster: shown }],
    users: [{ name: 'ada', user: { token: flags.raw ? 'secret' : 'REDACTED' } }],
  }));
  process.exit(0);
}

if (flags.context && !context) fail('error: context "' + flags.context + '" does not exist');
if (flags.cluster && !cluster) fail('error: cluster "' + flags.cluster + '" does not exist');
if (!cluster) fail('The connection to the server localhost:8080 was refused - did you specify the right host or port?');
const host = /^https:\/\/([\w-]+)\./.exec(cluster.cluster.server)[1];
// In another network the same address may be another cluster's.
const state = join(directory, 'clusters', (process.env.STAND_IN_NETWORK ?? '') + host + '.json');
if (!existsSync(state)) fail('Unable to connect to the server: dial tcp: lookup ' + host + '.example: no such host');
const { pods, deployments = [], hangs } = JSON.parse(readFileSync(state, 'utf8'));
if (hangs) {
  setInterval(() => {}, 1_000_000);
  return;
}
const namespace = flags.namespace ?? context?.context.namespace ?? 'default';
const here = ({ namespace: its = 'default' }) => its === namespace;

function podDocument({ name, containers, defaultContainer, labels = {}, ready = true, phase = 'Running' }) {
  return {
    kind: 'Pod',
    metadata: {
      name, namespace, labels,
      ...(defaultContainer ? { annotations: { 'kubectl.kubernetes.io/default-container': defaultContainer } } : {}),
    },
    spec: { containers: containers.map((each) => ({ name: each.name })) },
    status: { phase, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
  };
}

function findPod(name) {
  const pod = pods.filter(here).find((each) => each.name === name);
  return pod ?? fail('Error from server (NotFound): pods "' + name + '" not found');
}

const print = (document) => process.stdout.write(JSON.stringify(document));
if (operands[0] === 'get' && operands[1] === 'namespace') {
  const uid = createHash('sha256').update(state + operands[2]).digest('hex').slice(0, 32);
  print({ kind: 'Namespace', metadata: { name: operands[2], uid } });
} else if (operands[0] === 'get' && operands[1] === 'pod') {
  print(podDocument(findPod(operands[2])));
} else if (operands[0] === 'get' && operands[1] === 'pods') {
  const wanted = flags.selector.split(',').map((each) => each.split('='));
  const found = pods.filter(here).filter(({ labels = {} }) => wanted.every(([key, value]) => labels[key] === value));
  print({ kind: 'List', items: found.map(podDocument) });
} else if (operands[0] === 'get' && operands[1] === 'deployment') {
  const found = deployments.filter(here).find((each) => each.name === operands[2]);
  if (!found) fail('Error from server (NotFound): deployments.apps "' + operands[2] + '" not found');
  print({ kind: 'Deployment', spec: { selector: { matchLabels: found.matchLabels } } });
} else if (operands[0] === 'exec') {
  const pod = findPod(operands[1]);
  const names = pod.containers.map((each) => each.name);
  const chosen = flags.container ?? pod.defaultContainer ?? names[0];
  if (!flags.container && names.length > 1) {
    process.stderr.write('Defaulted container "' + chosen + '" out of: ' + names.join(', ') + '\n');
  }
  const container = pod.containers.find((each) => each.name === chosen);
  if (!container) fail('Error from server (BadRequest): container ' + chosen + ' is not valid for pod ' + pod.name);
  if (container.unreachable) {
    const query = command.map((word) => 'command=' + encodeURIComponent(word)).join('&');
    fail('Error from server: error dialing backend: Post "https://10.0.0.7:10250/exec/' + namespace + '/' + pod.name +
      '/' + chosen + '?' + query + '&input=1&output=1&error=1": dial tcp 10.0.0.7:10250: connect: connection refused');
  }
  if (container.bare) {
    fail('error: Internal error occurred: error executing command in container: failed to exec in container: ' +
      'failed to start exec "0a1b": OCI runtime exec failed: exec failed: unable to start container process: ' +
      'exec: "' + command[0] + '": executable file not found in $PATH: unknown');
  }
  const child = spawn(command[0], command.slice(1), {
    stdio: 'inherit',
    env: { ...process.env, GNUPGHOME: container.gnupgHome, HOME: container.gnupgHome },
  });
  process.on('SIGTERM', () => child.kill());
  child.on('close', (status) => {
    if (status) process.stderr.write('command terminated with exit code ' + status + '\n');
    process.exit(status ?? 1);
  });
} else fail('error: unknown command ' + operands.join(' '));
`;
