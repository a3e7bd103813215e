/** How long a command that ended may take for its last words. */
export const LAST_WORDS_MS = 500;

/** Waits for something that never rejects, but not for ever. */
export async function within(timeoutMs: number, something: Promise<unknown>): Promise<void> {
  let late: NodeJS.Timeout | undefined;
  await Promise.race([
    something,
    new Promise((resolve) => {
      late = setTimeout(resolve, timeoutMs);
    }),
  ]);
  clearTimeout(late);
}
