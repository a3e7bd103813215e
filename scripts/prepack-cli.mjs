// Makes the command's package complete before npm packs it: built, with types and the pages people look for.
import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const types = `${root}packages/cli/dist/types`;
const run = (script, ...args) =>
  execFileSync(process.execPath, [script, ...args], { cwd: root, stdio: 'inherit' });

run('scripts/build.mjs');
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.types.json');
for (const name of readdirSync(types, { recursive: true })) {
  if (name.endsWith('.d.ts')) writeFileSync(join(types, name), withoutPackages(join(types, name)));
}
for (const page of ['README.md', 'LICENSE', 'CHANGELOG.md']) {
  copyFileSync(`${root}${page}`, `${root}packages/cli/${page}`);
}

/** The other packages of this repository are not published: their declarations lie beside the command's own. */
function withoutPackages(file) {
  return readFileSync(file, 'utf8').replace(
    /(['"])@gpg-bridge\/([^/'"]+)(?:\/([^'"]+))?\1/g,
    (_, quote, ...place) => {
      const [name, path = 'launch/launch'] = place;
      const found = relative(dirname(file), `${types}/${name}/src/${path}.ts`);
      return `${quote}${found.startsWith('.') ? found : `./${found}`}${quote}`;
    },
  );
}
