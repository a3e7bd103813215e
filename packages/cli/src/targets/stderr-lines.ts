import { Transform } from 'node:stream';
import type { ExecStream } from '../engine/engine.ts';

/** A longer line is passed on in parts. */
const MAX_LINE = 65_536;

/** A command whose standard error passes through `change`, line by line; undefined leaves a line out. */
export function withStderrLines(exec: ExecStream, change: (line: string) => string | undefined): ExecStream {
  let partial = '';
  const pass = (out: Transform, line: string, end: string) => {
    const changed = change(line);
    if (changed !== undefined) out.push(Buffer.from(`${changed}${end}`, 'latin1'));
  };
  const stderr = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const lines = (partial + chunk.toString('latin1')).split('\n');
      partial = lines.pop() ?? '';
      for (const line of lines) pass(this, line, '\n');
      if (partial.length > MAX_LINE) {
        pass(this, partial, '');
        partial = '';
      }
      done();
    },
    flush(done) {
      if (partial) pass(this, partial, '');
      done();
    },
  });
  exec.stderr.on('error', (error) => stderr.destroy(error)).pipe(stderr);
  const { stdin, stdout, exited } = exec;
  return { stdin, stdout, stderr, exited, kill: () => exec.kill() };
}
