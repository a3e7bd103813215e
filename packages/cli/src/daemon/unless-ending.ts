import { BridgeError } from '@gpg-bridge/core/errors';

/**
 * Waits for something that can't be given up itself, such as the answer of an engine or a cluster that may never come,
 * until the signal. `dropped` gets what comes after it.
 */
export function unlessEnding<T>(
  something: Promise<T>,
  signal: AbortSignal,
  dropped: (late: T) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = () => {
      something.then(dropped, () => {});
      reject(toldToEnd());
    };
    if (signal.aborted) {
      end();
      return;
    }
    signal.addEventListener('abort', end, { once: true });
    something.then(resolve, reject).finally(() => signal.removeEventListener('abort', end));
  });
}

/** The error for a bridge that was told to end before it was there. */
export function toldToEnd(): BridgeError {
  return new BridgeError('BRIDGE_NOT_RUNNING', {
    what: 'the bridge was not attached',
    why: 'it was told to end before it was ready',
    fix: 'Run `gpg-bridge up` again if you want it.',
  });
}
