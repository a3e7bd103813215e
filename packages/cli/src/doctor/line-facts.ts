import { performance } from 'node:perf_hooks';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import type { TargetConnection } from './target-connection.ts';

/** How long each hop takes, in milliseconds. */
export interface LineFacts {
  runtime: string;
  /** The command that reaches the target, until it says its first word. */
  launchMs: number;
  /** The server, until it is ready. */
  serverMs: number;
  /** A round trip to the server. */
  callMs: number;
  /** A question to the host's gpg-agent through the target's socket and back. */
  agentMs: number | undefined;
}

/** Odd, so that there is a middle one. */
const SAMPLES = 5;
const QUESTION = { bytes: Buffer.from('GETINFO restricted\nBYE\n'), count: 1, lines: 64, timeoutMs: 5_000 };

/** Measures the hops; `bridgedSocket` is gpg's socket in the target if a bridge serves it. */
export async function collectLineFacts(
  { operations, runtime, launchMs, serverMs }: TargetConnection,
  bridgedSocket: string | undefined,
): Promise<LineFacts> {
  const callMs = await median(() => operations.stat('/'));
  const agentMs =
    bridgedSocket && (await median(() => askAgent(operations, bridgedSocket)).catch(() => undefined));
  return { runtime, launchMs, serverMs, callMs, agentMs: agentMs || undefined };
}

async function askAgent(operations: TargetOperations, path: string): Promise<void> {
  const { reason, bytes } = await operations.ask(path, QUESTION);
  if (reason === 'timeout' || !bytes.includes('OK')) throw new Error('no agent answered');
}

async function median(step: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let sample = 0; sample < SAMPLES; sample++) {
    const start = performance.now();
    await step();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[(SAMPLES - 1) / 2]!;
}
