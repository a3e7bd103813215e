import type { ChildProcess } from 'node:child_process';

/** How long a program may take to end when it is asked to. */
const END_MS = 2_000;

/** Ends a program. One that does not listen, or whose own children hold its streams, keeps nothing open here. */
export function endChild(child: ChildProcess, endMs = END_MS): void {
  child.stdin?.destroy();
  child.kill();
  const outputs = [child.stdout, child.stderr].filter((output) => output !== null);
  const hasEnded = child.exitCode !== null || child.signalCode !== null;
  if (hasEnded && outputs.every(({ closed }) => closed)) return;
  const late = setTimeout(() => {
    child.kill('SIGKILL');
    for (const output of outputs) output.destroy();
  }, endMs);
  child.once('close', () => clearTimeout(late));
}
