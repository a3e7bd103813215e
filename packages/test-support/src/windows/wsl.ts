import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Container } from '../engine/containers.ts';
import type { WindowsHost } from './host.ts';
import { nodeForWindows, STAND_IN, type WindowsNode, windowsPath } from './programs.ts';

const SCRIPT = fileURLToPath(new URL('./stand-in.mjs', import.meta.url));

/** A wsl.exe whose only distribution is a container. */
export interface StandInWsl {
  /** What a Windows program needs in its environment to find it. */
  env: NodeJS.ProcessEnv;
  /** The directory that it is in. */
  directory: string;
  /** The words that it was called with, each time. */
  calls: string[][];
}

/** Puts a wsl.exe into a directory of the host; it ends with the test. */
export async function standInWsl(
  host: WindowsHost,
  version: WindowsNode,
  container: Container,
): Promise<StandInWsl> {
  const directory = join(host.directory, 'wsl');
  await mkdir(directory);
  await copyFile(STAND_IN, join(directory, 'wsl.exe'));
  const calls: string[][] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => void serve(socket, container, calls));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return {
    directory: windowsPath(directory),
    calls,
    env: {
      GPG_BRIDGE_STAND_IN: windowsPath(SCRIPT),
      GPG_BRIDGE_STAND_IN_NODE: windowsPath(nodeForWindows(version)),
      GPG_BRIDGE_STAND_IN_PORT: String((server.address() as AddressInfo).port),
    },
  };
}

/** Runs what stands behind `--exec`. */
async function serve(socket: Socket, container: Container, calls: string[][]): Promise<void> {
  socket.on('error', () => {}); // a wsl.exe that was killed
  const words = JSON.parse(await firstLine(socket)) as string[];
  calls.push(words);
  const { program, env } = container.engine.address;
  const command = words.slice(words.indexOf('--exec') + 1);
  const child = spawn(program, ['exec', '--interactive', container.id, ...command], { env, stdio: 'pipe' });
  socket.pipe(child.stdin).on('error', () => {});
  child.stdout.pipe(socket);
  socket.once('close', () => child.kill());
}

async function firstLine(socket: Socket): Promise<string> {
  let received = Buffer.alloc(0);
  for (;;) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    socket.pause();
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf('\n');
    if (end >= 0) {
      if (end + 1 < received.length) socket.unshift(received.subarray(end + 1));
      return received.toString('utf8', 0, end);
    }
    socket.resume();
  }
}
