/** For `expect.poll` and `vi.waitFor`: looks often, and gives up only when the machine can't be that slow. */
export const PATIENT = { interval: 5, timeout: 30_000 };

/** For a hook that starts engines or builds images, the first time; whatever else a hook does takes far less. */
export const SETUP_MS = 600_000;
