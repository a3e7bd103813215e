import { locateTarget, resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import type { DaemonStatus, NamedTarget } from './control.ts';
import { matchesTarget } from './match-target.ts';

/** Whether a person's words may mean a bridge's target, as far as that shows without asking an engine. */
export async function mayBeNamed({ spec, env }: NamedTarget, status: () => DaemonStatus): Promise<boolean> {
  try {
    const named = await locateTarget(spec, { env: { ...process.env, ...env } });
    return named ? matchesTarget(status(), named) : spec === status().target;
  } catch {
    return false; // the caller then resolves the target itself, and gets the error
  }
}

/** Whether what a person named, looked up with that person's environment, is a bridge's target and runs. */
export async function isNamed({ spec, user, env }: NamedTarget, bridged: () => Target): Promise<boolean> {
  try {
    const target = await resolveTarget(spec, { user, env: { ...process.env, ...env } });
    await target.check();
    return bridgeKey(target) === bridgeKey(bridged());
  } catch {
    return false;
  }
}
