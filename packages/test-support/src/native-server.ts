import { execFileSync } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Architecture, launcherCommand } from '@gpg-bridge/socket-server';
import { runOk } from './process.ts';
import { makeTempDir } from './temp.ts';

/** The architecture of this machine, and another that it can run programs of by emulation. */
export const [OWN_ARCHITECTURE, OTHER_ARCHITECTURE] =
  process.arch === 'arm64' ? (['aarch64', 'x86_64'] as const) : (['x86_64', 'aarch64'] as const);

const BUILD = fileURLToPath(new URL('../../../scripts/build-native.mjs', import.meta.url));

/** What this machine lacks to build the native server for an architecture. */
export function whatNativeNeeds(architecture: Architecture): string | undefined {
  const words = [BUILD, '--missing', architecture];
  const missing = execFileSync(process.execPath, words, { timeout: 60_000 }).toString().trim();
  return missing ? `the native server needs ${missing.replaceAll('\n', ' and ')}` : undefined;
}

const programs = new Map<Architecture, Promise<Buffer>>();

/** The native server; with GPG_BRIDGE_SANITIZE=1 one that ends at every wrong access to memory. */
async function buildProgram(architecture: Architecture): Promise<Buffer> {
  const directory = await makeTempDir();
  const sanitize = process.env.GPG_BRIDGE_SANITIZE === '1' && architecture === OWN_ARCHITECTURE;
  const options = ['--out', directory, ...(sanitize ? ['--sanitize'] : []), architecture];
  await runOk(process.execPath, [BUILD, ...options]);
  const program = await readFile(join(directory, `native-${architecture}`));
  await rm(directory, { recursive: true });
  return program;
}

/** The same, built once. */
export function nativeProgram(architecture: Architecture): Promise<Buffer> {
  const program = programs.get(architecture) ?? buildProgram(architecture);
  programs.set(architecture, program);
  return program;
}

/** The launcher as it would run on a machine of another architecture. */
export function emulatedLauncher(): string[] {
  const [shell = '', option = '', script = ''] = launcherCommand('native');
  const emulated = script
    .replaceAll('$(uname -sm)', `"Linux ${OTHER_ARCHITECTURE}"`)
    .replace('exec /proc/self/fd/4', `exec qemu-${OTHER_ARCHITECTURE}-static /proc/self/fd/4`);
  return [shell, option, emulated];
}
