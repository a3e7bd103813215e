import type { DaemonStatus } from './control.ts';

/** What a bridge can be recognized by. */
type Named = Pick<DaemonStatus, 'key' | 'target' | 'id' | 'options'>;

/** Whether `spec` names this bridge's target, by its name, its ID or the start of a container's ID, and `user` its user. */
export function matchesTarget(status: Named, spec: string, user: string | undefined): boolean {
  if ((status.options.user ?? '') !== (user ?? '')) return false;
  const plain = spec.replace(/^docker:/, '');
  const [kind] = status.key.split('\n');
  if (status.target === plain || status.target === spec) return true;
  const id = spec.startsWith(`${kind}:`) ? spec.slice(kind!.length + 1) : plain;
  const isContainer =
    kind === 'docker' ? !/^[a-z0-9]+:/.test(plain) : kind === 'podman' && spec.startsWith('podman:');
  return isContainer && /^[0-9a-f]{12,64}$/.test(id) && status.id.startsWith(id);
}
