/**
 * Waits for something, but not for ever: after so long it is an error that says what was waited for. A test that only
 * runs into its own limit names nothing, and what it waits for goes on beside the next one.
 */
export async function within<T>(
  ms: number,
  something: Promise<T>,
  complaint: string | (() => string),
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const error = new Error();
  Error.captureStackTrace(error, within); // here its stack tells who waits
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      error.message = typeof complaint === 'string' ? complaint : complaint();
      reject(error);
    }, ms);
  });
  return Promise.race([something, late]).finally(() => clearTimeout(timer));
}
