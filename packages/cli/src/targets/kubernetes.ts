import { BridgeError } from '@gpg-bridge/core/errors';
import { printable } from '@gpg-bridge/core/text/escape';
import { findCluster, Kubectl, type Pod } from './kubectl.ts';
import { pasteable } from './shell-quote.ts';
import { backOff } from './spawn-exec.ts';
import { leadsElsewhere, type Target, type TargetOptions, wrongTarget } from './target.ts';

/** What a person wrote: `[NAMESPACE/]POD[/CONTAINER]` or `[NAMESPACE/]deploy:NAME[/CONTAINER]`. */
interface PodName {
  namespace: string | undefined;
  /** A pod's name, or that of a deployment whose first ready pod is meant. */
  pod: string;
  isDeployment: boolean;
  container: string | undefined;
}

const DEPLOYMENT = 'deploy:';
const KUBERNETES_NAME = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
/** What kubectl itself looks at before it takes the first container. */
const DEFAULT_CONTAINER = 'kubectl.kubernetes.io/default-container';

/** `k8s:…`, through kubectl. Cluster, namespace, pod and container are settled here, and named in every later call. */
export async function k8sTarget(
  name: string,
  { env = process.env }: Pick<TargetOptions, 'env'> = {},
): Promise<Target> {
  const wanted = parsePodName(name);
  const kubectl = new Kubectl(await findCluster(env), wanted.namespace, env);
  return podTarget(kubectl, wanted);
}

/** What a running bridge to a pod is known by, without asking the cluster: of `place`, what comes first. */
export async function locatePod(
  name: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ place: string; name: string }> {
  const wanted = parsePodName(name);
  const { place, namespace } = await findCluster(env);
  return { place, name: nameOf({ ...wanted, namespace: wanted.namespace ?? namespace }) };
}

function parsePodName(name: string): PodName {
  const parts = name.split('/');
  if (parts.length > 3 || parts.some((part) => !part || part.startsWith('-') || part === DEPLOYMENT)) {
    throw wrongTarget(
      `'${name}' is not a pod`,
      'Write k8s:POD, k8s:NAMESPACE/POD, k8s:NAMESPACE/POD/CONTAINER, or deploy:NAME in place of POD.',
    );
  }
  const hasNamespace = parts.length > 1 && !parts[0]!.startsWith(DEPLOYMENT);
  const [namespace, pod = '', container] = hasNamespace ? parts : [undefined, ...parts];
  const isDeployment = pod.startsWith(DEPLOYMENT);
  return { namespace, pod: isDeployment ? pod.slice(DEPLOYMENT.length) : pod, isDeployment, container };
}

/** As a person would write it, with all that is known. */
function nameOf({ namespace, pod, isDeployment, container }: PodName): string {
  const parts = [namespace, `${isDeployment ? DEPLOYMENT : ''}${pod}`, container];
  return `k8s:${parts.filter(Boolean).join('/')}`;
}

async function podTarget(kubectl: Kubectl, wanted: PodName, namespaceUid = ''): Promise<Target> {
  const { cluster, namespace } = kubectl;
  const [pod, uid] = await Promise.all([
    wanted.isDeployment ? kubectl.firstReadyPod(wanted.pod) : kubectl.get<Pod>(['pod', wanted.pod]),
    kubectl.namespaceUid(),
  ]);
  if (namespaceUid && uid && uid !== namespaceUid) {
    throw leadsElsewhere(nameOf(wanted), `another cluster answers at ${cluster.server} by now`);
  }
  const place = `${cluster.place}\n${uid || namespaceUid}`;
  const podName = checkedName(pod.metadata?.name ?? wanted.pod, 'pod');
  const container = containerOf(pod, wanted.container, `k8s:${namespace}/${podName}`);
  const id = `${namespace}/${podName}/${container}`;
  const full: PodName = { ...wanted, namespace, container };
  const name = nameOf(full);
  const words = [...kubectl.words, 'exec', '-it', podName, '-c', container, '--', 'sh'];
  const via = cluster.context === undefined ? '' : `context ${cluster.context}, `;
  return {
    kind: 'k8s',
    id,
    canonical: `${place}\n${id}`,
    name,
    spec: name,
    place,
    where: `${via}${cluster.server}${wanted.isDeployment ? `, pod ${podName}` : ''}`,
    user: '',
    byName: wanted.isDeployment,
    reachedByCommand: true,
    shell: pasteable(['kubectl', ...words]),
    exec: (argv) => kubectl.exec(podName, container, argv),
    attach: (argv, ...how) => kubectl.attach(podName, container, argv, ...how),
    async check() {
      const phase = pod.status?.phase ?? 'Running';
      if (phase === 'Running') return;
      throw new BridgeError('TARGET_NOT_RUNNING', {
        what: `the pod of ${name} is not running`,
        why: `its phase is ${printable(phase)}`,
        fix: `See \`${pasteable(['kubectl', ...kubectl.words, 'describe', 'pod', podName])}\`.`,
      });
    },
    watch: async () => () => {},
    comesBack: backOff,
    async latest() {
      await kubectl.checkPlace(name);
      return podTarget(kubectl, full, uid || namespaceUid);
    },
  };
}

/** A name that a cluster told, if it can be one: it becomes an argument of kubectl, and part of a hint to paste. */
function checkedName(name: unknown, what: string): string {
  if (typeof name === 'string' && KUBERNETES_NAME.test(name)) return name;
  throw new BridgeError('TARGET_NOT_FOUND', {
    what: `the cluster's answer names no ${what}`,
    why: `${JSON.stringify(name)} can't be the name of one`,
    fix: 'See whether kubectl leads to the cluster that you mean.',
  });
}

/** The container that is meant, or the one that kubectl would take. */
function containerOf({ spec, metadata }: Pod, wanted: string | undefined, name: string): string {
  const names = [...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])].map((each) => each.name);
  const chosen = wanted ?? metadata?.annotations?.[DEFAULT_CONTAINER] ?? names[0];
  if (chosen !== undefined && names.includes(chosen)) return checkedName(chosen, 'container');
  throw new BridgeError('TARGET_NOT_FOUND', {
    what: `${name} has no container ${printable(chosen ?? '')}`,
    why: `its containers are ${printable(names.join(', '))}`,
    fix: 'Name one of them, or none for the first.',
  });
}
