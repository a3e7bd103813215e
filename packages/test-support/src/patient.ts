/** For `expect.poll`: looks often, and gives up only when the machine can't be that slow. */
export const PATIENT = { interval: 5, timeout: 30_000 };
