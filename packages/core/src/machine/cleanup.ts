/** Runs every step whatever the others do, and returns the first thing thrown, if anything was. */
export function runCleanup(steps: readonly (() => void)[]): { error: unknown } | undefined {
  let first: { error: unknown } | undefined;
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      first ??= { error };
    }
  }
  return first;
}
