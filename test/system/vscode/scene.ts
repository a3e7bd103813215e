import { closeSync, constants, existsSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type RecordedLine, readUseRecord } from '@gpg-bridge/core/host/use-record-file';
import { CodeServer, installVsCode, type VsCodeRelease } from '@gpg-bridge/test-support/code-server';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { lock } from '@gpg-bridge/test-support/lock';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { makeTempDir, removeDir } from '@gpg-bridge/test-support/temp';
import { PrivateFile } from '@gpg-bridge/vscode-shared/private-file';
import { vi } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Prompts that may be open when a scene ends, with their repetitions. */
const MOST_PROMPTS = 100;

/** How long npm may take: it downloads. */
const INSTALL_LIMIT_MS = 300_000;
/** How long the pinentry may take to ask, and then to read. */
const PROMPT_TIMEOUT_MS = 60_000;
const PROMPT_INTERVAL_MS = 50;

/** The passphrase of the key that needs one. */
export const PASSPHRASE = 'correct horse';

/** Extensions that lie beside the tests, by their folder. */
export type TestExtension = 'hostile' | 'two-hosts/local' | 'two-hosts/remote';

/** The VSIX files: the two halves, and the pack of both; `own` packs one that only tests have. */
export interface PackedExtensions {
  agent: string;
  request: string;
  pack: string;
  own(name: TestExtension): Promise<string>;
}

/** Makes the VSIX files afresh, once for all releases; every file of tests has a directory for them. */
export function packExtensions(directory: string): Promise<PackedExtensions> {
  packed ??= pack(join(root, 'dist/vscode-tests', directory));
  return packed;
}

let packed: Promise<PackedExtensions> | undefined;

async function pack(directory: string): Promise<PackedExtensions> {
  await installTools();
  const script = join(root, 'scripts/package-extensions.mjs');
  const printed = await runOk(process.execPath, [script, directory]);
  const [agent, request, both] = [...printed.matchAll(/^(\S+\.vsix) /gm)].map((match) => match[1]!);
  const own = (name: TestExtension) => packOwn(directory, name);
  return { agent: agent!, request: request!, pack: both!, own };
}

/** Installs vsce unless it is there; test files run at the same time, and wait for one install. */
async function installTools(): Promise<void> {
  const unlock = await lock(join(root, 'node_modules/.tools.lock'));
  try {
    // npm writes this last.
    if (existsSync(join(root, 'tools/node_modules/.package-lock.json'))) return;
    const words = ['ci', '--prefix', 'tools', '--ignore-scripts'];
    await runOk('npm', words, { cwd: root, limitMs: INSTALL_LIMIT_MS });
  } finally {
    await unlock();
  }
}

async function packOwn(directory: string, name: TestExtension): Promise<string> {
  const file = join(directory, `${name.replace('/', '-')}.vsix`);
  const vsce = join(root, 'tools/node_modules/@vscode/vsce/vsce');
  await runOk(process.execPath, [vsce, 'package', '--skip-license', '--out', file], {
    cwd: join(root, 'test/system/vscode', name),
  });
  return file;
}

/** Fingerprints: a key that signs at once, one whose passphrase is asked for, and somebody else's. */
export interface Keys {
  quick: string;
  guarded: string;
  friend: string;
}

/** What a scene may have beside what every one has. */
export interface SceneOptions {
  /** The language of VS Code; English unless said. */
  locale?: string | undefined;
  /** Settings and variables of the server that depend on the host. */
  prepare?: ((host: GnupgHome, dir: string) => Promise<Prepared>) | undefined;
}

interface Prepared {
  settings: Record<string, unknown>;
  env: NodeJS.ProcessEnv;
}

/**
 * Two computers on one machine: a host and a remote, each with a GNUPGHOME that its side finds through its
 * gpgBinDir, a repository in the remote, and a VS Code whose browser is the host's.
 */
export class Scene {
  #keys: Keys | undefined;
  /** How many prompts of the pinentry are over. */
  #answered = 0;

  private constructor(
    readonly dir: string,
    readonly host: GnupgHome,
    readonly remote: GnupgHome,
    readonly server: CodeServer,
    readonly repository: string,
  ) {}

  /** Sets everything up; the host has no keys until `createKeys`. */
  static async create(
    release: VsCodeRelease,
    extensions: readonly string[],
    { locale, prepare }: SceneOptions = {},
  ): Promise<Scene> {
    const installed = await installVsCode(release);
    const dir = await makeTempDir();
    const host = await GnupgHome.create(`pinentry-program ${join(dir, 'pinentry')}\n`);
    const remote = await GnupgHome.create();
    await writePinentry(dir);
    const repository = await createRepository(dir);
    const prepared = await prepare?.(host, dir);
    const server = await CodeServer.start(installed, {
      dir,
      extensions,
      locale,
      settings: {
        'gpgBridgeAgent.gpgBinDir': await gpgBinDir(dir, 'host-bin', host.dir),
        'gpgBridgeRequest.gpgBinDir': await gpgBinDir(dir, 'remote-bin', remote.dir),
        // A browser has no extension host of its own: both run in the server.
        'remote.extensionKind': { 'gpg-bridge.gpg-bridge-agent': ['workspace'] },
        'git.enableCommitSigning': true,
        'git.enableSmartCommit': true,
        'git.confirmSync': false,
        'security.workspace.trust.enabled': false,
        'telemetry.telemetryLevel': 'off',
        'terminal.integrated.profiles.linux': {
          plain: { path: '/bin/bash', args: ['--norc', '--noprofile'] },
        },
        'terminal.integrated.defaultProfile.linux': 'plain',
        'terminal.integrated.enablePersistentSessions': false,
        'terminal.integrated.gpuAcceleration': 'off',
        'terminal.integrated.shellIntegration.enabled': false,
        'update.mode': 'none',
        'window.menuBarVisibility': 'compact',
        'workbench.colorTheme': 'Default Dark Modern',
        'workbench.secondarySideBar.defaultVisibility': 'hidden',
        'workbench.startupEditor': 'none',
        'workbench.editor.useModal': 'off',
        'workbench.tips.enabled': false,
        'chat.disableAIFeatures': true,
        'chat.commandCenter.enabled': false,
        ...prepared?.settings,
      },
      // The remote's own programs (git, gpg) use the remote's GNUPGHOME.
      env: {
        ...remote.env,
        // Every prompt tells which command was before it, and how that ended.
        PROMPT_COMMAND: `echo "$? $(history 1)" > ${join(dir, 'status')}; PS1='devbox $ '`,
        SSH_AUTH_SOCK: '',
        // What is set for all repositories there is not set for those of whoever runs the tests.
        GIT_CONFIG_GLOBAL: join(dir, 'gitconfig'),
        HOSTILE_TRAP: await writeTrap(dir),
        HOSTILE_REPORT: join(dir, 'hostile.json'),
        ...prepared?.env,
      },
    });
    return new Scene(dir, host, remote, server, repository);
  }

  /** Makes the host's keys, and has git in the remote sign with the first. */
  async createKeys(): Promise<void> {
    const { host } = this;
    this.#keys = {
      quick: await host.createKey('Robin Quick <robin@example.org>'),
      guarded: await host.createKey('Robin Guarded <guarded@example.org>', { passphrase: PASSPHRASE }),
      friend: await importFriend(host),
    };
    // What --quick-gen-key asked loopback for is still in the agent's cache.
    await host.killAgent();
    await runOk('git', ['-C', this.repository, 'config', 'user.signingKey', this.#keys.quick]);
  }

  get keys(): Keys {
    if (!this.#keys) throw new Error('the host has no keys yet');
    return this.#keys;
  }

  /** Has the remote's programs in a directory for gpgBinDir use another home. */
  async useRemoteHome(name: string, home: string): Promise<string> {
    return gpgBinDir(this.dir, name, home);
  }

  /** Changes a setting of the remote, as an editor of its file would; returns the former value. */
  async changeRemoteSetting(name: string, value: unknown): Promise<unknown> {
    const path = join(this.dir, 'user/Machine/settings.json');
    const settings = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    await writeFile(path, JSON.stringify({ ...settings, [name]: value }));
    return settings[name];
  }

  /** The person's own settings; VS Code in a browser notices only changes that it makes itself. */
  userSettings(): Record<string, unknown> {
    return JSON.parse(readFileSync(join(this.dir, 'user/User/settings.json'), 'utf8'));
  }

  /** Has what the person allowed or paused for a time end in a moment, as if that time had gone by. */
  letTimeRunOut(): void {
    const path = join(this.dir, 'user/User/globalStorage/gpg-bridge.gpg-bridge-agent/grants.json');
    const soon = Date.now() + 1_500;
    const inTime = (name: string, value: unknown) => (name === 'until' ? soon : value);
    new PrivateFile(path).update((grants) => JSON.parse(JSON.stringify(grants, inTime)));
  }

  /** What the hostile extension got as answers; undefined until it has tried everything. */
  hostileReport(): unknown[] | undefined {
    const path = join(this.dir, 'hostile.json');
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as unknown[]) : undefined;
  }

  /** Whether a program in the directory that the hostile extension chose was run. */
  get trapSprung(): boolean {
    return existsSync(join(this.dir, 'sprung'));
  }

  /** Says what the person types, as soon as the host's pinentry asks. */
  async typePassphrase(passphrase: string): Promise<void> {
    const path = join(this.dir, 'prompts');
    const asked = () => (existsSync(path) ? readFileSync(path, 'utf8').length : 0);
    const isAsked = () => asked() > this.#answered || Promise.reject(new Error('nobody asks'));
    await vi.waitFor(isAsked, { timeout: PROMPT_TIMEOUT_MS, interval: PROMPT_INTERVAL_MS });
    this.#answered = asked();
    for (const end = Date.now() + PROMPT_TIMEOUT_MS; !this.#type(passphrase); ) {
      if (Date.now() > end) throw new Error('the pinentry asked, and does not read');
      await delay(PROMPT_INTERVAL_MS);
    }
  }

  /** Waits until the command in a terminal that has these words in it has ended; returns its status. */
  exitStatus(words: string): Promise<number> {
    const path = join(this.dir, 'status');
    return vi.waitFor(
      () => {
        const last = readFileSync(path, 'utf8');
        if (!last.includes(words)) throw new Error(`still waiting for "${words}"; the last command: ${last}`);
        return Number.parseInt(last, 10);
      },
      { timeout: 60_000, interval: 100 },
    );
  }

  /** The log of one half in the newest window, as VS Code writes it to its file. */
  log(half: 'this computer' | 'remote'): string {
    const logs = join(this.dir, 'user/logs');
    const files = readdirSync(logs, { recursive: true, encoding: 'utf8' });
    const path = files
      .filter((file) => basename(file) === `GPG Bridge (${half}).log`)
      .sort()
      .at(-1);
    return path === undefined ? '' : readFileSync(join(logs, path), 'utf8');
  }

  /** What is on record of the uses of private keys, on the computer of the person. */
  recordedUses(): RecordedLine[] {
    const directory = join(this.dir, 'user/User/globalStorage/gpg-bridge.gpg-bridge-agent/uses');
    const names = readdirSync(directory).filter((name) => name.endsWith('.uses'));
    return names.flatMap((name) => readUseRecord(join(directory, name)));
  }

  /** How many windows have an extension host in the server; one that was closed may have it for a while. */
  async extensionHosts(): Promise<number> {
    const group = String(this.server.child.pid);
    const { stdout } = await run('pgrep', ['-g', group, '-f', 'type=extensionHost']);
    return stdout.toString().trim().split('\n').length;
  }

  /** Where the remote's gpg looks for its agent. */
  remoteSocket(): Promise<string> {
    return this.remote.socket('agent-socket');
  }

  /** What git says about the signature of the newest commit, in the remote. */
  async verifyHead(): Promise<string> {
    const { stderr, status } = await run('git', ['-C', this.repository, 'verify-commit', 'HEAD'], {
      env: this.remote.env,
    });
    return status === 0 ? stderr : `not verified (${status}): ${stderr}`;
  }

  /** The newest commit's subject. */
  async headSubject(): Promise<string> {
    return (
      await runOk('git', ['-C', this.repository, 'log', '-1', '--format=%s'], { env: this.remote.env })
    ).trim();
  }

  /** Ends everything and deletes it. */
  async remove(): Promise<void> {
    try {
      await this.server.stop();
    } finally {
      this.#dismissPrompts();
      await this.host.remove();
      await this.remote.remove();
      await removeDir(this.dir);
    }
  }

  /** Lets pinentries go that wait for a passphrase nobody will type. */
  #dismissPrompts(): void {
    for (let left = MOST_PROMPTS; left > 0 && this.#type(''); left--);
  }

  /**
   * Types a line for a pinentry that reads; returns whether there is one. To open the pipe in the usual way waits for
   * it, for ever if it has gone, in one of the few threads that Node has for all files.
   */
  #type(line: string): boolean {
    let pipe: number | undefined;
    try {
      pipe = openSync(join(this.dir, 'typed'), constants.O_WRONLY | constants.O_NONBLOCK);
      writeSync(pipe, `${line}\n`);
      return true;
    } catch (error) {
      // Nobody reads yet, or no longer.
      if (['ENXIO', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
      throw error;
    } finally {
      if (pipe !== undefined) closeSync(pipe);
    }
  }
}

/** Wrappers of GnuPG's programs that know their side's home. */
async function gpgBinDir(dir: string, name: string, home: string): Promise<string> {
  const bin = join(dir, name);
  await mkdir(bin, { recursive: true });
  for (const program of ['gpg', 'gpgconf']) {
    const path = (await runOk('sh', ['-c', `command -v ${program}`])).trim();
    await writeFile(join(bin, program), `#!/bin/sh\nGNUPGHOME='${home}' exec '${path}' "$@"\n`);
    await chmod(join(bin, program), 0o755);
  }
  return bin;
}

/** Programs by GnuPG's names that leave a trace when they are run. */
async function writeTrap(dir: string): Promise<string> {
  const bin = join(dir, 'trap');
  await mkdir(bin);
  for (const program of ['gpg', 'gpgconf']) {
    await writeFile(join(bin, program), `#!/bin/sh\ntouch '${join(dir, 'sprung')}'\n`, { mode: 0o755 });
  }
  return bin;
}

/** A pinentry that waits at a pipe for what the person types. */
async function writePinentry(dir: string): Promise<void> {
  const typed = join(dir, 'typed');
  await runOk('mkfifo', ['-m', '600', typed]);
  const script = `#!/bin/sh
echo 'OK Pleased to meet you'
while read -r command rest; do
  case "$command" in
    GETPIN) printf . >> '${join(dir, 'prompts')}'; read -r passphrase < '${typed}'; echo "D $passphrase"; echo OK ;;
    BYE) echo OK; exit ;;
    *) echo OK ;;
  esac
done
`;
  await writeFile(join(dir, 'pinentry'), script);
  await chmod(join(dir, 'pinentry'), 0o755);
}

async function importFriend(host: GnupgHome): Promise<string> {
  const friend = await GnupgHome.create();
  const fingerprint = await friend.createKey('Kim Friend <kim@example.net>');
  await host.gpgOk(['--import'], { input: await friend.gpgOk(['--armor', '--export']) });
  await friend.remove();
  return fingerprint;
}

async function createRepository(dir: string): Promise<string> {
  const repository = join(dir, 'ship-it');
  const git = (...args: string[]) => runOk('git', ['-C', repository, ...args]);
  await mkdir(repository);
  await git('init', '--quiet', '--initial-branch=main');
  await git('config', 'user.name', 'Robin');
  await git('config', 'user.email', 'robin@example.org');
  await writeFile(join(repository, 'README.md'), '# Ship it\n');
  await git('add', '.');
  await git('-c', 'commit.gpgSign=false', 'commit', '--quiet', '-m', 'Begin');
  return repository;
}
