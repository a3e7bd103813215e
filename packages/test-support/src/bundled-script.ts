import { join } from 'node:path';
import { build } from 'esbuild';
import { tempDir } from './temp.ts';

/**
 * Makes one file of a TypeScript program that imports from the workspace, for a Node of its own to run. It goes
 * into a private directory unless another is given, for instance one that other users may read.
 */
export async function bundledScript(source: string, dir?: string): Promise<string> {
  const outfile = join(dir ?? (await tempDir()), 'script.mjs');
  await build({
    stdin: { contents: source, loader: 'ts', resolveDir: import.meta.dirname },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
  });
  return outfile;
}
