import { Transform } from 'node:stream';
import type { ExecStream } from '../engine/engine.ts';
import { PacedLines } from '../engine/paced-lines.ts';

/** Of a longer line the rest is left out. */
const MAX_LINE = 65_536;

/** A command whose standard error passes through `change`, line by line; undefined leaves a line out. */
export function withStderrLines(exec: ExecStream, change: (line: string) => string | undefined): ExecStream {
  const stderr = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const waitMs = lines.push(chunk);
      if (waitMs === 0) done();
      else setTimeout(done, waitMs);
    },
    flush(done) {
      lines.end();
      done();
    },
  });
  const lines = new PacedLines(MAX_LINE, (line, end) => {
    const changed = change(line);
    if (changed !== undefined) stderr.push(Buffer.from(`${changed}${end}`, 'latin1'));
  });
  exec.stderr.on('error', (error) => stderr.destroy(error)).pipe(stderr);
  const { stdin, stdout, exited } = exec;
  return { stdin, stdout, stderr, exited, kill: () => exec.kill() };
}
