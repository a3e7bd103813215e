import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { run } from '@gpg-bridge/test-support/process';
import { describe, expect, it } from 'vitest';

const PAGES = [
  ...readdirSync('.').filter((name) => name.endsWith('.md')),
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' }).map((name) => join('docs', name)),
].filter((path) => path.endsWith('.md'));

/** The headings of a page as GitHub makes anchors of them. */
function anchors(page: string): string[] {
  const headings = readFileSync(page, 'utf8').matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, text]) =>
    text!
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

describe('the documentation', () => {
  it('shows the code’s own state tables in docs/architecture.md', async () => {
    const checked = await run(process.execPath, ['scripts/state-tables.mjs', '--check']);
    expect(checked.stderr).toBe('');
    expect(checked.status).toBe(0);
  });

  it.each(PAGES)('leads from %s to pages and headings that are there', (page) => {
    const links = [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)/g)];
    const broken = links.filter(([, path, anchor]) => {
      const to = path === '' ? page : join(dirname(page), path!);
      return !existsSync(to) || (anchor !== '' && !anchors(to).includes(anchor!));
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });
});
