import { printableValue } from '@gpg-bridge/core/text/escape';
import { Manager } from '../manager/manager.ts';
import type { BridgeInfo, EnsureOptions } from '../manager/types.ts';
import { Spinner } from '../terminal/style.ts';
import { signalStatus } from './signals.ts';

/** How long an interrupted command waits for a half-made bridge to end. */
const INTERRUPTED_MS = 2_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Ensures a bridge for a person who waits: says what is going on, and leaves nothing when it is interrupted. Resolves
 * to the exit status then.
 */
export async function ensureBridge(
  spec: string | undefined,
  options: EnsureOptions,
  verbose = false,
): Promise<BridgeInfo | number> {
  const spinner = new Spinner();
  const interruption = new AbortController();
  let status = 0;
  const interrupt = (signal: NodeJS.Signals) => {
    status ||= signalStatus(signal);
    interruption.abort(); // ends a daemon that is not ready yet
    setTimeout(() => process.exit(status), INTERRUPTED_MS).unref();
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  const manager = new Manager({
    progress: spinner.show,
    notice: (text) => {
      spinner.stop();
      process.stderr.write(`gpg-bridge: ${printableValue(text)}\n`);
    },
    signal: interruption.signal,
    verbose,
  });
  try {
    return await manager.ensureBridge(spec, options);
  } catch (error) {
    if (status === 0) throw error;
    return status;
  } finally {
    spinner.stop();
    for (const signal of SIGNALS) process.off(signal, interrupt);
  }
}
