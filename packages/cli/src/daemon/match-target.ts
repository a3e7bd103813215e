import type { LocatedName } from '../targets/resolve.ts';
import type { DaemonStatus } from './control.ts';

/** What a bridge can be recognized by. */
type Named = Pick<DaemonStatus, 'key' | 'target' | 'id' | 'place'>;

/** Whether a name leads to this bridge's target: by its name, its ID or the start of a container's ID, in one place. */
export function matchesTarget({ key, target, id, place }: Named, wanted: LocatedName): boolean {
  if (key.split('\n', 1)[0] !== wanted.kind || !isIn(wanted.place, place)) return false;
  if (hasName(target, wanted)) return true;
  if (wanted.kind === 'k8s') return `k8s:${id}`.startsWith(`${wanted.name}/`);
  const start = wanted.name.replace(/^podman:/, '');
  return /^[0-9a-f]{12,64}$/.test(start) && id.startsWith(start);
}

/** Whether a target is called so, wherever it is; a pod may be named without its container. */
export function hasName(target: string, wanted: Pick<LocatedName, 'kind' | 'name'>): boolean {
  return target === wanted.name || (wanted.kind === 'k8s' && target.startsWith(`${wanted.name}/`));
}

/** A place that could not be asked is known without what only itself can tell. */
function isIn(wanted: string, place: string | undefined): boolean {
  return place === wanted || place?.startsWith(`${wanted}\n`) === true;
}
