import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, watch } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { chromium } from 'playwright-core';
import { summary } from '../statistics.mjs';
import { ROOT } from '../support.mjs';
import { ms, table } from '../tables.mjs';

const EXTENSIONS = join(ROOT, 'test/system/vscode/two-hosts');
/** Characters of the string that a call takes there and back. A signature's calls have a few hundred. */
const SIZES = [16, 1_024, 65_536, 1_048_576];
const LARGE = 65_536;
const LONGEST_MS = 10 * 60_000;

/** What a command of VS Code costs: in one extension host, and from the server's to the browser's. */
export const extensionHosts = {
  id: 'extension-hosts',
  title: 'A call between two extension hosts',
  needs: ['chromium'],

  async run(bench, scale, say) {
    const { CodeServer, installVsCode, VSCODE_RELEASES } = bench.support;
    const release = VSCODE_RELEASES.at(-1);
    say(`VS Code ${release.vscode}`);
    const installed = await installVsCode(release);
    const dir = await bench.newDirectory();
    for (const half of ['local', 'remote']) await placeExtension(dir, half);
    const report = join(dir, 'report.json');
    const plan = SIZES.flatMap((size) =>
      [true, false].map((here) => ({
        size,
        here,
        rounds: Math.ceil(scale.hostCalls / (size > LARGE ? 20 : 1)),
      })),
    );
    const server = await CodeServer.start(installed, {
      dir,
      extensions: [],
      settings: { 'security.workspace.trust.enabled': false, 'telemetry.telemetryLevel': 'off' },
      env: { REMOTE_CALLER_REPORT: report, REMOTE_CALLER_PLAN: JSON.stringify(plan) },
    });
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
    try {
      const page = await browser.newPage();
      await page.goto(`${server.url}/?folder=${dir}`);
      await appears(report);
      const { error, where, measured } = JSON.parse(await readFile(report, 'utf8'));
      if (error) throw new Error(error);
      if (!where.local.isWorker) throw new Error('the local half does not run in the browser');
      return {
        vscode: release.vscode,
        rows: measured.map(({ size, here, times }) => ({
          size,
          here,
          ...summary(times.map((time) => time * 1_000)),
        })),
      };
    } finally {
      await browser.close();
      await server.stop();
    }
  },

  render({ vscode, rows }) {
    const at = (size, here) => rows.find((row) => row.size === size && row.here === here);
    return [
      `One call of a command that returns its argument, a string, in milliseconds, in VS Code ${vscode}: to a command of`,
      'the same extension host, and from the extension host of the server through the window to the one in the browser,',
      'which stands for that of a desktop. A signature is two such calls.',
      '',
      table(
        ['characters', 'same host', '99 %', 'other host', '99 %'],
        SIZES.map((size) => {
          const [here, across] = [at(size, true), at(size, false)];
          return [
            size.toLocaleString('en'),
            ms(here.median),
            ms(here.p99),
            ms(across.median),
            ms(across.p99),
          ];
        }),
      ),
    ].join('\n');
  },
};

/** VS Code takes what lies in a new directory of extensions for installed. */
async function placeExtension(dir, half) {
  const { publisher, name, version } = JSON.parse(
    await readFile(join(EXTENSIONS, half, 'package.json'), 'utf8'),
  );
  const place = join(dir, 'extensions', `${publisher}.${name}-${version}`);
  await mkdir(dirname(place), { recursive: true });
  await cp(join(EXTENSIONS, half), place, { recursive: true });
}

/** Returns when a file is there. */
async function appears(path) {
  const signal = AbortSignal.timeout(LONGEST_MS);
  const changes = watch(dirname(path), { signal });
  if (existsSync(path)) return;
  for await (const { filename } of changes) if (filename === basename(path)) return;
}
