import { join } from 'node:path';
import { build } from 'esbuild';

/** Bundles TypeScript source that imports from the repository's root into one file that Node can run. */
export async function bundleProgram(source: string, directory: string): Promise<string> {
  const outfile = join(directory, 'program.cjs');
  await build({
    stdin: { contents: source, loader: 'ts', resolveDir: join(import.meta.dirname, '../..') },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    logLevel: 'warning',
  });
  return outfile;
}
