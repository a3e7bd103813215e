import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BashSession } from './bash-session.ts';
import { masked } from './masks.ts';
import type { GuidePage } from './page.ts';

/** Where a page is followed: a shell, the directory of its files, and the names in which its output is shown. */
export interface GuidePlace {
  shell: BashSession;
  /** The environment of that shell. */
  env: NodeJS.ProcessEnv;
  directory: string;
  /** The output as the page shows it: with a person's directories for those of the test. */
  shown(output: string): string;
}

/** A command whose output is not what its page says. */
export interface Difference {
  command: string;
  page: string;
  real: string;
}

/** Does what a page says, gives the page the outputs that differ, and returns those. */
export async function followPage(page: GuidePage, place: GuidePlace): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (const step of page.steps) {
    if (step.kind === 'file') {
      const path = join(place.directory, step.path);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, step.text);
      continue;
    }
    const real = tidy(place.shown(await place.shell.run(step.command)));
    if (masked(real) === masked(tidy(step.output))) continue;
    differences.push({ command: step.command, page: step.output, real });
    step.output = real;
  }
  return differences;
}

/** Without blanks at line ends and blank lines at the end, which an editor would remove. */
function tidy(output: string): string {
  const text = output.replace(/[ \t\r]+$/gm, '').replace(/\n+$/, '');
  return text === '' ? '' : `${text}\n`;
}
