import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { imageCacheDir } from '../engine/images.ts';

/** Where `scripts/kubernetes.sh` leaves what it builds. */
const DIRECTORY = join(imageCacheDir(), 'kubernetes-1.20');

/** The programs of a cluster, and the one that people use. */
export type KubernetesProgram = 'etcd' | 'kube-apiserver' | 'kubelet' | 'kubectl';

/** The path of a program. */
export function kubernetesProgram(name: KubernetesProgram): string {
  return join(DIRECTORY, name);
}

/** Whether they have been built. */
export function hasKubernetes(): boolean {
  return existsSync(kubernetesProgram('kubelet'));
}
