import { join } from 'node:path';
import { build } from 'esbuild';
import { tempDir } from './temp.ts';

/** Makes one file of a TypeScript program that imports from the workspace, for a Node of its own to run. */
export async function bundledScript(source: string, directory?: string): Promise<string> {
  const outfile = join(directory ?? (await tempDir()), 'script.mjs');
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
