import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';

/**
 * Runs the launcher in a target. Of all that a bridge takes this takes the longest, so it is done first, and
 * whatever else has to be loaded and found out is done meanwhile.
 */
export function launchServer(target: Target, runtime: Runtime | undefined): Promise<ExecStream> {
  return target.exec(launcherCommand(runtime ? { runtime } : {}));
}
