import type { BridgeSelector } from '../bridge-options.ts';
import { pasteable } from './shell-quote.ts';

/** The words that name a bridge on a command line, fit to be pasted into a shell. */
export function operandWords(target: string | undefined, { user, exec }: BridgeSelector): string {
  const words = exec === undefined ? [target ?? ''] : ['--exec', exec];
  return pasteable([...words, ...(user === undefined ? [] : ['--user', user])]);
}
