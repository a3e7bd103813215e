import { readlinkSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** As many as Linux follows. */
const MAX_LINKS = 40;

/** A path without symbolic links; its last parts need not exist yet, nor what a link leads to. */
export function canonicalPath(path: string, links = 0): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    if (parent === path) return path;
    const above = canonicalPath(parent, links);
    const there = join(above, basename(path));
    const link = links < MAX_LINKS ? linkAt(there) : undefined;
    return link === undefined ? there : canonicalPath(resolve(above, link), links + 1);
  }
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
