import { readdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { followPage } from '@gpg-bridge/test-support/guides/follow';
import { masked } from '@gpg-bridge/test-support/guides/masks';
import { GuidePage } from '@gpg-bridge/test-support/guides/page';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import { beforeAll, describe, expect, it } from 'vitest';
import { PAGES } from './pages.ts';
import { makePlace } from './places.ts';
import { PROMPT, record, SIZE, TYPED } from './recording.ts';
import { lastScreenOf, renderSvg } from './recording-svg.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** `npm run docs:guides` writes what differs into the pages instead of failing. */
const isWriting = process.env.GPG_BRIDGE_WRITE_GUIDES === '1';

describe('the guides', () => {
  it('are all followed', async () => {
    const guides = (await readdir(`${root}docs/guides`)).filter((name) => name !== 'README.md');
    expect(Object.keys(PAGES).sort()).toEqual(
      ['README.md', ...guides.map((name) => `docs/guides/${name}`)].sort(),
    );
  });
});

const RECORDING = `${root}docs/images/terminal.svg`;
/** What GitHub and a slow line are glad of. */
const MAX_RECORDING_BYTES = 60_000;

/** A repository with something to commit, whose git knows the person and no key. */
const REPOSITORY = [
  'git init --quiet',
  'git config --global user.name "Ada Lovelace"',
  'git config --global user.email ada@example.org',
  'echo hello > hello && git add hello',
].join(' && ');

requireSystem(
  'docker',
  'sshd',
  'compose',
)('a person who follows', () => {
  // The first page would wait for the engine, and for an image that is made the first time.
  beforeAll(async () => void (await (await sharedEngine('docker')).ensureImage('git')), SETUP_MS);

  it.each(Object.entries(PAGES))('%s sees what it says', async (path, options) => {
    const page = new GuidePage(await readFile(`${root}${path}`, 'utf8'));
    expect(page.steps).not.toEqual([]);
    const differences = await followPage(page, await makePlace(options));
    if (isWriting) await writeFile(`${root}${path}`, page.toString());
    else expect(differences).toEqual([]);
  });
});

requireSystem('docker', 'tmux')('the recording in README.md', () => {
  beforeAll(async () => void (await (await sharedEngine('docker')).ensureImage('git')), SETUP_MS);

  it('shows what happens', async () => {
    const { shell, env, shown } = await makePlace({ containers: { 'my-container': ['--workdir=/work'] } });
    expect(await shell.run(`docker exec my-container sh -c '${REPOSITORY}'`)).toBe('');
    // tmux starts it by a shell that has a prompt of its own.
    const terminal = await Terminal.start(`PS1='${PROMPT}' bash --norc --noprofile -i`, env, SIZE);
    await terminal.shows(/^\$\s*$/);
    const svg = shown(renderSvg(await record(terminal)));
    if (isWriting) await writeFile(RECORDING, svg);
    const kept = await readFile(RECORDING, 'utf8');
    const [real, recorded] = [svg, kept].map((text) => masked(lastScreenOf(text).join('\n')));
    expect(recorded).toBe(real);
    for (const line of TYPED) expect(lastScreenOf(kept)).toContain(`${PROMPT}${line}`);
    expect(Buffer.byteLength(kept)).toBeLessThan(MAX_RECORDING_BYTES);
  });
});
