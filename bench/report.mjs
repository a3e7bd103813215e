import { readFileSync } from 'node:fs';
import os from 'node:os';
import { PARTS } from './parts.mjs';
import { targetTable } from './targets.mjs';

/** The whole document: what is to be reached, then what was measured, then what explains it. */
export function report(results, { quick = false, loadBefore } = {}) {
  return [
    '# Benchmarks',
    '',
    `Measured ${new Date().toISOString().slice(0, 10)} by \`npm run build && npm run bench\`, which measures everything`,
    'again and writes this page. It wants a machine that does nothing else, and root for the parts with Docker and',
    'sshd. All paths are measured in one run on one machine, in small rounds that alternate between them, so that',
    'whatever else the machine does hits all alike. Only ratios mean something elsewhere.',
    '',
    `Machine: ${machine()}. Its load before the run was ${loadBefore?.toFixed(1) ?? 'not noted'}: above 0.3 or so, others were at work and the figures are rough.${quick ? ' A quick run: too few samples to judge by.' : ''}`,
    '',
    '## What a person feels',
    '',
    '![A signed commit, by where it is typed](benchmarks.svg)',
    '',
    '## What has to be reached',
    '',
    targetTable(results),
    '',
    ...PARTS.filter(({ id }) => results[id]).flatMap((part) => [
      `## ${part.title}`,
      '',
      results[part.id].missing ? `Not measured: ${results[part.id].missing}.` : part.render(results[part.id]),
      '',
    ]),
    readFileSync(new URL('where-the-time-goes.md', import.meta.url), 'utf8'),
  ].join('\n');
}

function machine() {
  const cpus = os.cpus();
  const gib = Math.round(os.totalmem() / 2 ** 30);
  return `${cpus.length} × ${cpus[0].model}, ${gib} GiB, Linux ${os.release()}, Node ${process.versions.node}`;
}
