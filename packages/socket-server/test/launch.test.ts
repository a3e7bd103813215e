import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { run } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeConfig, encodeConfig, SERVER_CONFIG } from '../src/launch/config.ts';
import {
  launcherCommand,
  parseLauncherLine,
  RUNTIMES,
  type Runtime,
  serverPayload,
} from '../src/launch/launch.ts';
import { FORMS } from '../src/launch/runtimes.ts';

/** A directory with these programs: a text is a script, a path a link. */
async function programs(entries: Record<string, string>): Promise<string> {
  const dir = join(await tempDir(), 'bin');
  await mkdir(dir);
  for (const [name, content] of Object.entries(entries)) {
    if (content.startsWith('/')) await symlink(content, join(dir, name));
    else {
      await writeFile(join(dir, name), `#!${SHELL}\n${content}\n`);
      await chmod(join(dir, name), 0o755);
    }
  }
  return dir;
}

const SHELL = '/bin/sh';
const LANGUAGES = RUNTIMES.filter((runtime) => runtime !== 'native');

/** What a shell needs to put a program somewhere. */
const PUT: Record<string, string> = Object.fromEntries(
  ['mkdir', 'chmod', 'rm', 'dd'].map((name) => [name, `exec /bin/${name} "$@"`]),
);
const LINUX: Record<string, string> = { ...PUT, uname: 'echo Linux x86_64' };

/** What the launcher prints where nothing but these programs is found. */
async function launch(
  path: string,
  runtime?: Runtime,
  input: Buffer = Buffer.alloc(0),
  home = '/nonexistent',
) {
  const [, option, script] = launcherCommand(runtime);
  // The launcher adds places to the PATH in which this machine may have its own runtimes.
  const alone = script!.replace(/^PATH=.*$/m, ':');
  expect(alone).not.toBe(script);
  return run(SHELL, [option!, alone], { env: { PATH: path, HOME: home }, input });
}

const found = async (name: string) =>
  (await run('sh', ['-c', `PATH=/usr/bin:$PATH command -v ${name}`])).stdout.toString().trim();

/** Prints the configuration it was given, and what follows it on stdin. */
const ECHO: Record<Runtime, string> = {
  node: 'process.stdout.write(CONFIG+require("fs").readFileSync(0))',
  perl: '# a comment\nprint $main::CONFIG; print while <STDIN>;',
  native: `#!${SHELL}\nprintf '%s\\n' "$@"\nexec /bin/cat\n# ${'% - \\ \u00e9'.repeat(500)}\n`,
};

describe('launcher', () => {
  it('says none, with a status of its own, in a target without a runtime', async () => {
    const { status, stdout, stderr } = await launch(await programs({}));
    expect(stdout.toString()).toBe('GPG-BRIDGE 1 none\n');
    expect(status).toBe(5);
    expect(stderr).toBe('');
  });

  it('takes Perl first, then Node, then the native program', async () => {
    const [perl, node] = [await found('perl'), 'echo v20.0.0'];
    expect((await launch(await programs({ ...LINUX, perl, node }))).stdout.toString()).toMatch(/perl/);
    expect((await launch(await programs({ ...LINUX, node }))).stdout.toString()).toMatch(/node/);
    expect((await launch(await programs(LINUX))).stdout.toString()).toBe(
      'GPG-BRIDGE 1 native x86_64 blocks\n',
    );
  });

  it('takes the native program in a target that has only Python', async () => {
    const path = await programs({ ...LINUX, python3: 'exit 0' });
    expect((await launch(path)).stdout.toString()).toBe('GPG-BRIDGE 1 native x86_64 blocks\n');
  });

  it.each([
    '.vscode-server/bin/0123abcd/node',
    '.vscode-server/cli/servers/Stable-0123abcd/server/node',
    '.vscode-remote/bin/0123abcd/node',
    '.cursor-server/bin/linux-x64/0123abcd/node',
  ])('takes the Node of an editor, ~/%s, before the native program', async (node) => {
    const home = await tempDir();
    await mkdir(join(home, dirname(node)), { recursive: true });
    await writeFile(join(home, node), `#!${SHELL}\n[ "$1" = -v ] && echo v22.1.0 || echo started\n`);
    await chmod(join(home, node), 0o755);
    const { stdout } = await launch(await programs(LINUX), undefined, undefined, home);
    expect(stdout.toString()).toBe('GPG-BRIDGE 1 node\nstarted\n');
  });

  it('says of what kind a machine is that there is no program for', async () => {
    const other = await programs({ ...LINUX, uname: 'echo Linux riscv64' });
    expect((await launch(other)).stdout.toString()).toBe('GPG-BRIDGE 1 none Linux riscv64\n');
    const nowhere = await programs({ ...LINUX, mkdir: 'exit 1' });
    const { status, stdout } = await launch(nowhere);
    expect(stdout.toString()).toBe('GPG-BRIDGE 1 none place Linux x86_64\n');
    expect(status).toBe(5);
  });

  it('leaves nothing of a program whose transfer was broken off', async () => {
    // The first directory is the one that is used.
    const made = join(await tempDir(), 'made');
    const path = await programs({ ...LINUX, mkdir: `echo "$3" >>${made}; exec /bin/mkdir "$@"` });
    const config = SERVER_CONFIG;
    const payload = serverPayload('native', config, ECHO.native);
    for (const size of [0, 3, payload.length - 30]) {
      const { stdout } = await launch(path, 'native', payload.subarray(0, size));
      expect(stdout.toString()).toBe('GPG-BRIDGE 1 native x86_64 blocks\n');
    }
    const directories = (await readFile(made, 'utf8')).trim().split('\n');
    expect(directories).toHaveLength(3);
    for (const directory of directories) expect(existsSync(directory)).toBe(false);
  });

  it.each(['v16.20.2', 'v4.9.1', 'v0.12.18', 'v2.5.0', 'nonsense'])(
    'passes over a node %s',
    async (version) => {
      const { stdout } = await launch(await programs({ node: `echo ${version}` }));
      expect(stdout.toString()).toBe('GPG-BRIDGE 1 none\n');
    },
  );

  it.each(['v18.0.0', 'v20.20.2', 'v24.1.0', 'v100.0.0'])('takes a node %s', async (version) => {
    const path = await programs({ node: `[ "$1" = -v ] && echo ${version} || echo started` });
    const { stdout } = await launch(path);
    expect(stdout.toString()).toBe('GPG-BRIDGE 1 node\nstarted\n');
  });

  it('passes over a perl that does not work', async () => {
    expect((await launch(await programs({ perl: 'exit 2' }))).stdout.toString()).toBe('GPG-BRIDGE 1 none\n');
    const working = await programs({ ...LINUX, perl: 'exit 2' });
    expect((await launch(working)).stdout.toString()).toBe('GPG-BRIDGE 1 native x86_64 blocks\n');
  });

  it('passes over a perl without the modules that a server needs', async () => {
    const places = await tempDir();
    await writeFile(join(places, 'Nowhere.pm'), 'package Nowhere; @INC = (); 1;');
    const path = await programs({
      ...LINUX,
      perl: `exec ${await found('perl')} -I${places} -MNowhere "$@"`,
    });
    expect((await launch(path)).stdout.toString()).toBe('GPG-BRIDGE 1 native x86_64 blocks\n');
  });

  it('takes no other runtime than it was asked for', async () => {
    const path = await programs({ perl: await found('perl') });
    const { status, stdout } = await launch(path, 'node');
    expect(stdout.toString()).toBe('GPG-BRIDGE 1 none\n');
    expect(status).toBe(5);
  });
});

describe.each(FORMS)('the loader of a native program in %s', (form) => {
  it('hands it its configuration, and not one byte more', async () => {
    const { dd: _dd, ...withoutDd } = LINUX;
    const path = await programs(form === 'blocks' ? LINUX : withoutDd);
    const config = { ...SERVER_CONFIG, maxStreams: 7 };
    const payload = serverPayload('native', config, ECHO.native, form);
    const { stdout, stderr } = await launch(path, 'native', Buffer.concat([payload, Buffer.from('frames')]));
    expect(stderr).toBe('');
    expect(stdout.toString()).toBe(`GPG-BRIDGE 1 native x86_64 ${form}\n${encodeConfig(config)}frames`);
  });

  it('writes every byte as it is', async () => {
    const { dd: _dd, ...withoutDd } = LINUX;
    const path = await programs(form === 'blocks' ? LINUX : withoutDd);
    const bytes = Buffer.from(Array.from({ length: 3_000 }, (_, at) => (at * 7) % 256));
    const program = Buffer.concat([Buffer.from(`#!${SHELL}\nexec /bin/cat /proc/self/fd/4\n`), bytes]);
    const { stdout } = await launch(path, 'native', serverPayload('native', SERVER_CONFIG, program, form));
    const written = stdout.subarray(stdout.indexOf('\n') + 1);
    expect(written.subarray(0, program.length).equals(program)).toBe(true);
    expect(written.subarray(program.length).every((byte) => byte === 0)).toBe(true);
  });
});

describe.each(LANGUAGES)('the loader of %s', (runtime) => {
  requireRuntime(runtime)('by itself', () => {
    it('hands it its text and configuration, and not one byte more', async () => {
      const path = await programs({ [runtime]: await found(runtime) });
      const config = { ...SERVER_CONFIG, maxStreams: 7 };
      const input = Buffer.concat([serverPayload(runtime, config, ECHO[runtime]), Buffer.from('frames')]);
      const { stdout, stderr } = await launch(path, runtime, input);
      expect(stderr).toBe('');
      expect(stdout.toString()).toBe(`GPG-BRIDGE 1 ${runtime}\n${encodeConfig(config)}frames`);
    });
  });
});

describe('parseLauncherLine', () => {
  it('waits until the line is whole, and leaves what follows', () => {
    const printed = Buffer.from('GPG-BRIDGE 1 perl\n\0\0\0\x05');
    for (let end = 0; end < 18; end++) expect(parseLauncherLine(printed.subarray(0, end))).toBeUndefined();
    const launched = parseLauncherLine(printed);
    expect(launched).toMatchObject({
      runtime: 'perl',
      noise: Buffer.alloc(0),
      rest: Buffer.from('\0\0\0\x05'),
    });
  });

  it('finds it after what a shell prints, with either end of line', () => {
    const noise = 'Welcome!\nGPG-BRIDGE 1 cobol\nnot GPG-BRIDGE 1 perl\n';
    const launched = parseLauncherLine(Buffer.from(`${noise}GPG-BRIDGE 1 none\r\n`));
    expect(launched).toMatchObject({
      runtime: 'none',
      detail: '',
      noise: Buffer.from(noise),
      rest: Buffer.alloc(0),
    });
  });

  it('takes no word for a native program that it does not know', () => {
    const native = (words: string) => parseLauncherLine(Buffer.from(`GPG-BRIDGE 1 native ${words}\n`));
    expect(native('aarch64 lines')).toMatchObject({ program: { architecture: 'aarch64', form: 'lines' } });
    expect(native('x86_64')).toBeUndefined();
    expect(native('mips blocks')).toBeUndefined();
  });

  it('gives up on a target that prints and prints', () => {
    expect(() => parseLauncherLine(Buffer.alloc(100_000, 'x\n'))).toThrow(
      expect.objectContaining({ code: 'NOT_A_BRIDGE' }),
    );
    // A line that begins as the launcher's does, and never ends.
    expect(() => parseLauncherLine(Buffer.from(`GPG-BRIDGE 1 ${'x'.repeat(100_000)}`))).toThrow(
      expect.objectContaining({ code: 'NOT_A_BRIDGE' }),
    );
  });
});

describe('configuration', () => {
  it('comes out as it went in', () => {
    const config = fc.record({
      protocol: fc.nat(),
      maxStreams: fc.nat(),
      trace: fc.nat(),
      tickMs: fc.nat(),
      maxUnanswered: fc.nat(),
      idleTicks: fc.nat(),
    });
    fc.assert(fc.property(config, (value) => void expect(decodeConfig(encodeConfig(value))).toEqual(value)));
  });

  it('keeps to lines that any parser can read', () => {
    const heartbeat = { tickMs: 100, maxUnanswered: 5, idleTicks: 40 };
    const config = { protocol: 4, maxStreams: 7, trace: 0, ...heartbeat };
    const first = ['protocol=4', 'max-streams=7', 'trace=0'];
    const lines = [...first, 'tick-ms=100', 'max-unanswered=5', 'idle-ticks=40', ''];
    expect(encodeConfig(config)).toBe(lines.join('\n'));
  });

  it('leaves out what it does not know', () => {
    const lines = `colour=red\nnonsense\n${encodeConfig(SERVER_CONFIG)}`;
    expect(decodeConfig(lines)).toEqual(SERVER_CONFIG);
  });
});
