import type { ChildProcessWithoutNullStreams } from 'node:child_process';

/** How long a program may take to end when it is asked to. */
const END_MS = 2_000;

/** Ends a program: asks first, then kills it and closes its streams, which its own children may still hold. */
export function endChild(child: ChildProcessWithoutNullStreams, endMs = END_MS): void {
  child.stdin.destroy();
  child.kill();
  const hasEnded = child.exitCode !== null || child.signalCode !== null;
  if (hasEnded && child.stdout.closed && child.stderr.closed) return;
  const late = setTimeout(() => {
    child.kill('SIGKILL');
    child.stdout.destroy();
    child.stderr.destroy();
  }, endMs);
  child.once('close', () => clearTimeout(late));
}
