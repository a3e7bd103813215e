import { posix } from 'node:path';

/** One import as the source has it, type imports included. */
export interface ImportEdge {
  /** The importing file, from the root of the repository. */
  from: string;
  /** What it names. */
  specifier: string;
}

/**
 * The order of a package's parts: a part is a folder of `src`, or a file that lies in `src` itself. A part may
 * import those of earlier rows and itself; parts of one row do not know each other. `*` stands for every part
 * that is not named.
 */
export type PartOrder = readonly (readonly string[])[];

/** What a package may import: of itself by order, and of the others by name. */
export interface PackageRule {
  parts: PartOrder;
  /** Packages of this repository. */
  packages: readonly string[];
  /** Whether it may use the test runner. */
  testing?: true;
}

/** The sources to check, by path from the root of the repository. */
export type Sources = ReadonlyMap<string, string>;

const IMPORT = /(?:^\s*(?:import|export)\b[^;'"]*?\bfrom\s*|^\s*import\s*|\bimport\(\s*)(['"])([^'"\n]+)\1/gm;
const SCOPE = '@gpg-bridge/';

/** Every import of the sources, dynamic ones and types too. */
export function importsOf(sources: Sources): ImportEdge[] {
  return [...sources].flatMap(([from, text]) =>
    [...text.matchAll(IMPORT)].map(([, , specifier = '']) => ({ from, specifier })),
  );
}

/** What breaks the rules, a line for each import, with both of its ends. */
export function brokenImports(sources: Sources, rules: Readonly<Record<string, PackageRule>>): string[] {
  return importsOf(sources).flatMap((edge) => {
    const why = brokenRule(edge, rules);
    return why ? [`${edge.from} imports '${edge.specifier}': ${why}`] : [];
  });
}

function brokenRule({ from, specifier }: ImportEdge, rules: Readonly<Record<string, PackageRule>>) {
  const { name, part } = placeOf(from);
  const rule = rules[name];
  if (!rule) return `package ${name} has no rule`;
  const row = rowOf(rule, part);
  if (row < 0) return `${part} has no place in the order of ${name}`;
  if (specifier.startsWith('../../../')) return 'it climbs more than two levels';
  if (/^vitest(?:\/|$)/.test(specifier))
    return rule.testing ? undefined : 'product code knows no test runner';
  if (specifier.startsWith(SCOPE)) {
    const [other = ''] = specifier.slice(SCOPE.length).split('/');
    if (rule.packages.includes(other)) return undefined;
    return `${name} may import ${rule.packages.join(', ') || 'no other package'}`;
  }
  if (!specifier.startsWith('.')) return undefined;
  const target = placeOf(resolved(from, specifier));
  if (target.name !== name) return 'another package is imported by its name';
  if (target.part === part || target.part === '') return undefined;
  const targetRow = rowOf(rule, target.part);
  if (targetRow < 0) return `${target.part} has no place in the order of ${name}`;
  return targetRow < row ? undefined : `${part} comes before ${target.part}, or beside it`;
}

/** The first cycle among files, as the list of those on it; undefined if there is none. */
export function importCycle(sources: Sources): string[] | undefined {
  const imports = new Map<string, string[]>();
  for (const { from, specifier } of importsOf(sources)) {
    const target = specifier.startsWith(SCOPE)
      ? posix.join('packages', specifier.slice(SCOPE.length).replace('/', '/src/').concat('.ts'))
      : resolved(from, specifier);
    if (sources.has(target)) imports.set(from, [...(imports.get(from) ?? []), target]);
  }
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    path.push(file);
    for (const next of imports.get(file) ?? []) {
      const cycle = visit(next);
      if (cycle) return cycle;
    }
    path.pop();
    done.add(file);
    return undefined;
  };
  for (const file of imports.keys()) {
    const cycle = visit(file);
    if (cycle) return cycle;
  }
  return undefined;
}

function resolved(from: string, specifier: string): string {
  return specifier.startsWith('.') ? posix.join(posix.dirname(from), specifier) : specifier;
}

/** The package of a file, and its part; the part is empty outside `src`, as for package.json. */
function placeOf(file: string): { name: string; part: string } {
  const [, name = '', inside = ''] = /^packages\/([^/]+)\/(.*)$/.exec(file) ?? [];
  const [, folder, own] = /^src\/(?:([^/]+)\/|([^/]+)\.ts$)/.exec(inside) ?? [];
  return { name, part: folder ?? own ?? '' };
}

function rowOf({ parts }: PackageRule, part: string): number {
  const named = parts.findIndex((row) => row.includes(part));
  return named < 0 ? parts.findIndex((row) => row.includes('*')) : named;
}
