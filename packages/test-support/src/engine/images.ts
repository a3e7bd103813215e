import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { runOk } from '../process.ts';

/**
 * What an image is made of: Debian packages, from scratch (`suite`) or on top of another image (`from`).
 * Every image for containers has gpg, the ssh tools and a user `dev` (uid 1000).
 */
interface Recipe {
  suite?: 'bookworm' | 'trixie';
  from?: ImageName;
  packages?: readonly string[];
  /** A command run inside at the end. */
  finish?: string;
  /** The directory inside that becomes the image; else all of it does. */
  root?: string;
}

/** The images that tests use, by what is special about each. */
export type ImageName = 'plain' | 'git' | 'node' | 'none' | 'busybox' | 'trixie' | 'engines';

const ADD_USER = 'useradd --create-home --uid 1000 --shell /bin/sh dev';
const DELETE_PERL = 'rm -f /usr/bin/perl*';

/** Makes /image: busybox for everything, and beside it GnuPG, git and the ssh tools with the libraries they need. */
const ASSEMBLE_BUSYBOX = [
  'cd / && mkdir -p image/bin image/dev image/etc image/proc image/root image/sys image/tmp image/var/tmp image/usr/bin',
  'chmod 1777 image/tmp image/var/tmp && chmod 700 image/root && ln -s bin image/sbin',
  'grep -E "^(root|dev):" etc/passwd | sed s,/bin/bash,/bin/sh, >image/etc/passwd',
  'grep -E "^(root|dev):" etc/group >image/etc/group && cp -a home image/ && cp -a bin/busybox image/bin/',
  'for applet in $(busybox --list); do ln -s busybox image/bin/$applet; done',
  'put() { mkdir -p image$(dirname $1) && cp -L $1 image$1; }',
  'for name in gpg gpgconf gpg-agent gpg-connect-agent git ssh-add ssh-keygen; do put /usr/bin/$name; done',
  'for library in $(ldd image/usr/bin/* | grep -o "/[^ ]*\\.so[^ ]*"); do put $library; done',
].join(' && ');

const RECIPES: Record<ImageName, Recipe> = {
  /** perl-base alone, as in every Debian image. */
  plain: { suite: 'bookworm', packages: ['gnupg', 'openssh-client'], finish: ADD_USER },
  /** The ordinary case: git, and with it the full perl. */
  git: { from: 'plain', packages: ['git'] },
  node: { from: 'git', packages: ['nodejs'] },
  /** None of the languages that the socket server is written in. */
  none: { from: 'git', finish: DELETE_PERL },
  /** Nothing but a shell, GnuPG and git, as in a small image of Alpine's. */
  busybox: { from: 'git', packages: ['busybox-static'], finish: ASSEMBLE_BUSYBOX, root: 'image' },
  /** GnuPG 2.4, and GPGME for Python. */
  trixie: {
    suite: 'trixie',
    packages: ['gnupg', 'git', 'openssh-client', 'python3-gpg'],
    finish: ADD_USER,
  },
  /** No container's, but a root with the engines of Debian 13, and what they need to be started by a user. */
  engines: {
    suite: 'trixie',
    packages: ['docker.io', 'podman', 'runc', 'rootlesskit', 'uidmap'],
    finish: ADD_USER,
  },
};

/** Documentation and translations are half of a small image and of no use here; dpkg leaves them out. */
const LEFT_OUT = ['/usr/share/doc/*', '/usr/share/man/*', '/usr/share/locale/*', '/usr/share/info/*'];

/** How long a step of a build may take: less than the hook that waits for it, so that the error names the step. */
const LIMIT_MS = 540_000;

/** Raised when the way images are made changes, so that cached ones are made anew. */
const FORMAT = 1;

/** The names of all images. */
export const IMAGE_NAMES = Object.keys(RECIPES) as ImageName[];

/** Where finished images are kept between runs. */
export function imageCacheDir(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'gpg-bridge-test');
}

/** A short digest of everything that decides what is in an image. */
export function imageKey(name: ImageName): string {
  const chain: Recipe[] = [];
  for (let next: ImageName | undefined = name; next; next = RECIPES[next].from) chain.push(RECIPES[next]);
  return createHash('sha256')
    .update(JSON.stringify([FORMAT, LEFT_OUT, chain]))
    .digest('hex')
    .slice(0, 12);
}

const building = new Map<ImageName, Promise<string>>();

/** The image's root file system as a tar file, made on first use. Needs root and mmdebstrap. */
export function imageTar(name: ImageName): Promise<string> {
  let tar = building.get(name);
  if (!tar) {
    tar = cachedTar(name);
    building.set(name, tar);
    tar.catch(() => building.delete(name));
  }
  return tar;
}

async function cachedTar(name: ImageName): Promise<string> {
  const cache = imageCacheDir();
  const tar = join(cache, `${name}-${imageKey(name)}.tar`);
  if (await exists(tar)) return tar;
  const recipe = RECIPES[name];
  const base = recipe.from && (await imageTar(recipe.from));
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, 'work-'));
  try {
    const root = join(work, 'root');
    if (base) await unpack(base, root);
    else await bootstrap(recipe, root);
    if (base && recipe.packages) await installPackages(root, recipe.packages);
    if (recipe.finish) await inside(root, recipe.finish);
    await pack(join(root, recipe.root ?? ''), join(work, 'image.tar'));
    // Complete or not there: another run may be looking, or making the same one.
    await rename(join(work, 'image.tar'), tar);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return tar;
}

async function bootstrap(recipe: Recipe, root: string): Promise<void> {
  const words = [
    '--quiet',
    '--variant=minbase',
    `--include=${(recipe.packages ?? []).join(',')}`,
    '--format=directory',
    ...LEFT_OUT.map((pattern) => `--dpkgopt=path-exclude=${pattern}`),
    recipe.suite!,
    root,
  ];
  await runOk('mmdebstrap', words, { limitMs: LIMIT_MS });
}

async function unpack(tar: string, root: string): Promise<void> {
  await mkdir(root);
  await runOk('tar', ['--extract', '--numeric-owner', '--file', tar, '--directory', root]);
}

async function installPackages(root: string, packages: readonly string[]): Promise<void> {
  const resolver = join(root, 'etc/resolv.conf');
  await copyFile('/etc/resolv.conf', resolver);
  await inside(
    root,
    `apt-get update -qq && apt-get install -qq --no-install-recommends ${packages.join(' ')} && apt-get clean`,
  );
  await inside(root, 'rm -rf /var/lib/apt/lists/*');
  await rm(resolver);
}

function inside(root: string, script: string): Promise<string> {
  return runOk('chroot', [root, '/bin/sh', '-c', script], {
    limitMs: LIMIT_MS,
    env: {
      ...process.env,
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      DEBIAN_FRONTEND: 'noninteractive',
      LC_ALL: 'C',
    },
  });
}

async function pack(root: string, tar: string): Promise<void> {
  await runOk('tar', ['--create', '--numeric-owner', '--file', tar, '--directory', root, '.']);
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
