// `npm start`: builds, and runs the demo, or `gpg-bridge` with the words behind `--`.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import './build.mjs';

const program = fileURLToPath(new URL('../packages/cli/dist/gpg-bridge.js', import.meta.url));
const [, , ...words] = process.argv;
const child = spawn(process.execPath, [program, ...(words.length > 0 ? words : ['demo'])], {
  stdio: 'inherit',
});
// What the keyboard interrupts is the command.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (status, signal) => {
  process.exitCode = status ?? 128 + constants.signals[signal];
});
