import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Architecture, Runtime } from '@gpg-bridge/socket-server';

/** The built servers, beside the built command. */
const FILES: Readonly<Record<Exclude<Runtime, 'native'>, string>> = {
  node: 'server.cjs',
  perl: 'server.pl',
};

/** The text of the socket server for a runtime. */
export function serverSource(runtime: Exclude<Runtime, 'native'>): Buffer {
  return readFileSync(join(import.meta.dirname, 'servers', FILES[runtime]));
}

/** The socket server as a program; undefined if this copy of GPG Bridge was built without it. */
export function serverProgram(architecture: Architecture): Buffer | undefined {
  const file = join(import.meta.dirname, 'servers', `native-${architecture}`);
  return existsSync(file) ? readFileSync(file) : undefined;
}
