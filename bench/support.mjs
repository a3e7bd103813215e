import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** The root of the repository. */
export const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** What the benchmark shares with the tests: homes, engines, an sshd; and the launcher of the servers. */
const SHARED = `
  export { GnupgHome } from './packages/test-support/src/gnupg-home.ts';
  export { SshServer, SSH_HOST } from './packages/test-support/src/sshd.ts';
  export { DockerEngine } from './packages/test-support/src/engine/docker.ts';
  export { CodeServer, installVsCode, VSCODE_RELEASES } from './packages/test-support/src/code-server.ts';
  export { SERVER_CONFIG } from './packages/socket-server/src/launch/config.ts';
  export { hasWindows } from './packages/test-support/src/windows/programs.ts';
  export { WindowsPerson } from './packages/test-support/src/windows/person.ts';
  export { run, runOk } from './packages/test-support/src/process.ts';
  export { launcherCommand, serverPayload, parseLauncherLine } from './packages/socket-server/src/launch/launch.ts';
`;

/** The tests' helpers register their own cleaning up; here whoever makes a thing also removes it. */
const WITHOUT_VITEST = {
  name: 'without-vitest',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^vitest$/ }, () => ({ path: 'vitest', namespace: 'stub' }));
    onLoad({ filter: /.*/, namespace: 'stub' }, () => ({
      contents: 'export const onTestFinished = () => {};',
    }));
  },
};

/** What lies beside a source is found from there, and not from beside the bundle. */
const OWN_URLS = {
  name: 'own-urls',
  setup({ onLoad }) {
    onLoad({ filter: /\/test-support\/src\/.*\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')).replaceAll(
        'import.meta.url',
        JSON.stringify(pathToFileURL(path).href),
      ),
      loader: 'ts',
    }));
  },
};

/** Builds TypeScript into one module below `directory` and returns its path. */
export async function bundle(directory, name, source) {
  const outfile = join(directory, `${name}.mjs`);
  await build({
    stdin: { contents: source, resolveDir: ROOT, loader: 'ts' },
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    logLevel: 'warning',
    plugins: [WITHOUT_VITEST, OWN_URLS],
    outfile,
  });
  return outfile;
}

/** Loads the shared helpers. */
export async function loadSupport(directory) {
  return import(pathToFileURL(await bundle(directory, 'support', SHARED)).href);
}
