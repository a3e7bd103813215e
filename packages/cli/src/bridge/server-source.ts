import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Runtime } from '@gpg-bridge/socket-server';

/** The built servers, beside the built command. */
const FILES: Readonly<Record<Runtime, string>> = {
  node: 'server.cjs',
  perl: 'server.pl',
  python: 'server.py',
};

/** The text of the socket server for a runtime. */
export function serverSource(runtime: Runtime): string {
  return readFileSync(join(import.meta.dirname, 'servers', FILES[runtime]), 'utf8');
}
