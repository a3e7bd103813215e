import { constants } from 'node:os';

/** What a shell reports for a program that a signal ended. */
export function signalStatus(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
