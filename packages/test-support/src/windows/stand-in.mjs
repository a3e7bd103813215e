// Stands for a program that runs a command elsewhere: hands its words, input and output to a port of the machine around.
import { connect } from 'node:net';

const socket = connect({
  port: Number(process.env.GPG_BRIDGE_STAND_IN_PORT),
  host: '127.0.0.1',
  allowHalfOpen: true,
});
socket.setNoDelay(true);
socket.write(`${JSON.stringify(process.argv.slice(2))}\n`);
process.stdin.pipe(socket);
socket.pipe(process.stdout);
socket.on('error', () => process.exit(1));
// The other side has ended: so has what it ran.
socket.once('close', () => process.exit());
socket.once('end', () => process.stdout.end(() => process.exit()));
