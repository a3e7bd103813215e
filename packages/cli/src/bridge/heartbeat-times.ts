import { HEARTBEAT, type HeartbeatTimes } from '@gpg-bridge/core/mux/heartbeat';

/** Up to three numbers with commas between them, in the order of `LIMITS`; for lines that are slower than usual. */
const VARIABLE = 'GPG_BRIDGE_HEARTBEAT';
const LIMITS = [
  ['tickMs', 10, 600_000],
  ['maxUnanswered', 1, 1_000],
  ['idleTicks', 1, 10_000],
] as const satisfies readonly (readonly [keyof HeartbeatTimes, number, number])[];

/** When a line counts as dead, with what the environment says; a number there that makes no sense is left out. */
export function heartbeatTimes(env: NodeJS.ProcessEnv): HeartbeatTimes {
  const numbers = (env[VARIABLE] ?? '').split(',');
  const said = LIMITS.flatMap(([name, least, most], index) => {
    const number = Number(numbers[index] || Number.NaN);
    return Number.isInteger(number) && number >= least && number <= most ? [[name, number]] : [];
  });
  return { ...HEARTBEAT, ...Object.fromEntries(said) };
}
