import { BridgeError } from '@gpg-bridge/core/errors';
import { expect } from 'vitest';

/** The error that a promise is rejected with, which has to be one of ours. */
export async function failure(promise: Promise<unknown>): Promise<BridgeError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BridgeError);
  return error as BridgeError;
}
