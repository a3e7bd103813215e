import { HEARTBEAT, type HeartbeatTimes } from '@gpg-bridge/core/mux/heartbeat';

/** Milliseconds between two looks at the line to a target, for lines that are slower or quicker than usual. */
const TICK_VARIABLE = 'GPG_BRIDGE_TICK_MS';
const TICK_MIN_MS = 10;
const TICK_MAX_MS = 600_000;

/** When a line counts as dead, with what the environment says; anything but a sensible number there counts for nothing. */
export function heartbeatTimes(env: NodeJS.ProcessEnv): HeartbeatTimes {
  const tickMs = Number(env[TICK_VARIABLE] || Number.NaN);
  const isSensible = Number.isInteger(tickMs) && tickMs >= TICK_MIN_MS && tickMs <= TICK_MAX_MS;
  return isSensible ? { ...HEARTBEAT, tickMs } : HEARTBEAT;
}
