// Runs a command and carries its input and output, as ssh and `docker exec` do for one elsewhere.
import { spawn } from 'node:child_process';

const [program, ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
child.stdin.on('error', () => {});
process.stdout.on('error', () => {});
process.stdin.pipe(child.stdin);
child.stdout.pipe(process.stdout);
child.once('close', (status) => process.exit(status ?? 1));
