/*
 * The benchmark. Run: node bench/run.mjs [--quick] [--only=PART,…] [--paths=ID,…] [--dist=DIRECTORY] [--beside=DIRECTORY] [--json=FILE] [--svg=FILE]
 *
 * A whole run writes docs/benchmarks.md and its drawings; with --quick or --only the same text is printed.
 * --paths measures only these of the round trips' paths (see candidates.mjs);
 * --dist names another build of the command than packages/cli/dist, --beside one that the command line is measured beside, in
 * turn; --json keeps the figures.
 */
import { writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { PARTS } from './parts.mjs';
import { plotCommits, plotRoundTrips } from './plot.mjs';
import { report } from './report.mjs';
import { FULL, QUICK } from './scale.mjs';
import { ROOT } from './support.mjs';
import { Workbench } from './workbench.mjs';

const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    paths: { type: 'string' },
    dist: { type: 'string' },
    beside: { type: 'string' },
    json: { type: 'string' },
    svg: { type: 'string' },
  },
});
// Version managers put slow wrappers before the programs themselves; what a system has is what is measured.
process.env.PATH = [dirname(process.execPath), ...SYSTEM_PATH].join(':');
// Certificates of the machine make Node 20 start three times slower, which would flatter what is measured beside it.
delete process.env.NODE_EXTRA_CA_CERTS;

const chosen = flags.only?.split(',');
const scale = { ...(flags.quick ? QUICK : FULL), paths: flags.paths?.split(',') };
const say = (text) => process.stderr.write(`${text}\n`);

const loadBefore = loadavg()[0];
const results = {};
const bench = await Workbench.open({
  ...(flags.dist ? { dist: flags.dist } : {}),
  ...(flags.beside ? { beside: flags.beside } : {}),
});
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => bench.close().finally(() => process.exit(1)));
}
try {
  for (const part of PARTS) {
    if (chosen && !chosen.includes(part.id)) continue;
    const missing = bench.missing(part.needs);
    say(`== ${part.title}${missing ? `: not measured, ${missing}` : ''}`);
    if (missing) results[part.id] = { missing };
    else results[part.id] = await part.run(bench, scale, say).catch((error) => ({ missing: failure(error) }));
  }
} finally {
  await bench.close();
}

const text = report(results, { quick: flags.quick, loadBefore });
if (flags.json) await writeFile(flags.json, JSON.stringify(results, null, 1));
if (flags.svg) await writeFile(flags.svg, plotCommits(results));
if (chosen || flags.paths || flags.quick) {
  process.stdout.write(text);
} else {
  await writeFile(join(ROOT, 'docs/benchmarks.md'), text);
  await writeFile(join(ROOT, 'docs/benchmarks.svg'), plotCommits(results));
  await writeFile(join(ROOT, 'docs/round-trips.svg'), plotRoundTrips(results));
  say('wrote docs/benchmarks.md and its drawings');
}

function failure(error) {
  say(`failed: ${error.stack}`);
  return `it failed: ${String(error.message).trim()}`;
}
