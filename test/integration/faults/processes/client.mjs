// A client of a socket: what it is told on stdin it sends, what comes it prints, and it ends with its connection.
import net from 'node:net';

const socket = net.connect({ path: process.argv[2], allowHalfOpen: true });
socket.on('error', () => process.exit(1));
socket.once('end', () => process.exit(0));
process.stdin.pipe(socket);
socket.pipe(process.stdout, { end: false });
