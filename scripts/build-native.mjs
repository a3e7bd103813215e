// Builds the socket server that needs no language in the target: one static program for each architecture.
//
//   build-native.mjs [--out DIR] [--sanitize] [ARCHITECTURE …]   leaves out what can't be built here, and says so
//   build-native.mjs --missing [ARCHITECTURE …]                  says what is missing for them, and builds nothing
//   build-native.mjs --check [DIR]                               builds again and compares, byte by byte
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = `${root}packages/socket-server/src/native`;
const usualPlace = `${root}packages/cli/dist/servers`;

const ARCHITECTURES = ['x86_64', 'aarch64'];
/** Where a package puts musl, and where `system-packages.sh` puts the one of the other architecture. */
const PREFIXES = ['/usr', '/usr/local'];

const WARNINGS = ['-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Werror', '-Wno-unused-parameter'];
const LANGUAGE = ['-std=c11', '-D_GNU_SOURCE'];
/** Small, at another address at every start, and the same bytes wherever and whenever it is built. */
const CODE = [
  '-Os',
  '-fPIE',
  '-fstack-protector-strong',
  '-ffunction-sections',
  '-fdata-sections',
  '-fno-ident',
];
const QUIET = [
  '-fno-asynchronous-unwind-tables',
  '-fmerge-all-constants',
  '-g0',
  `-ffile-prefix-map=${sources}=.`,
];
const LINKING = ['-static-pie', '-s', '-Wl,--gc-sections,--build-id=none,-z,noexecstack,-z,norelro'];
const SANITIZERS = ['-g', '-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'];

/** The compiler and the parts of musl for an architecture; `missing` says what is not there. */
function toolsFor(architecture) {
  const compiler = `${architecture}-linux-gnu-gcc`;
  const prefix = PREFIXES.find((each) => existsSync(`${each}/lib/${architecture}-linux-musl/libc.a`));
  const missing = [
    ...(isOnPath(compiler) ? [] : [`the compiler ${compiler}`]),
    ...(prefix ? [] : [`musl for ${architecture}`]),
  ];
  return { compiler, prefix, missing };
}

function isOnPath(program) {
  return (process.env.PATH ?? '').split(':').some((directory) => {
    try {
      accessSync(join(directory, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function buildProgram(architecture, outfile) {
  const { compiler, prefix } = toolsFor(architecture);
  const ask = (option) => execFileSync(compiler, [option]).toString().trim();
  const libraries = `${prefix}/lib/${architecture}-linux-musl`;
  const headers = [`${prefix}/include/${architecture}-linux-musl`, ask('-print-file-name=include')];
  execFileSync(
    compiler,
    [
      ...LANGUAGE,
      ...WARNINGS,
      ...CODE,
      ...QUIET,
      '-nostdinc',
      ...headers.flatMap((directory) => ['-isystem', directory]),
      '-nostdlib',
      ...LINKING,
      `${libraries}/rcrt1.o`,
      'server.c',
      `${libraries}/libc.a`,
      ask('-print-libgcc-file-name'),
      '-o',
      outfile,
    ],
    { cwd: sources, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, LC_ALL: 'C' } },
  );
}

/** For tests: with the system's own library, and with checks of every access. */
function buildSanitized(architecture, outfile) {
  execFileSync(
    `${architecture}-linux-gnu-gcc`,
    [...LANGUAGE, ...WARNINGS, ...SANITIZERS, 'server.c', '-o', outfile],
    {
      cwd: sources,
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  );
}

const digest = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');

/** Whether the programs in a directory are what this source gives. */
function check(directory) {
  const again = mkdtempSync(join(tmpdir(), 'gpg-bridge-native-'));
  try {
    return ARCHITECTURES.map((architecture) => {
      const name = `native-${architecture}`;
      const { missing } = toolsFor(architecture);
      if (missing.length > 0) return [false, `${name}: can't be built here without ${missing.join(' and ')}`];
      if (!existsSync(join(directory, name))) return [false, `${name}: is not in ${directory}`];
      buildProgram(architecture, join(again, name));
      const [given, built] = [digest(join(directory, name)), digest(join(again, name))];
      return given === built
        ? [true, `${name}: ${given}`]
        : [false, `${name}: is ${given}, and should be ${built}`];
    });
  } finally {
    rmSync(again, { recursive: true, force: true });
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string', default: usualPlace },
    sanitize: { type: 'boolean' },
    missing: { type: 'boolean' },
    check: { type: 'boolean' },
  },
});

if (values.check) {
  const results = check(positionals[0] ?? usualPlace);
  for (const [, text] of results) console.log(text);
  process.exitCode = results.every(([isSame]) => isSame) ? 0 : 1;
} else {
  for (const architecture of positionals.length > 0 ? positionals : ARCHITECTURES) {
    const { missing } = toolsFor(architecture);
    if (values.missing) {
      for (const what of missing) console.log(what);
    } else if (missing.length > 0) {
      console.error(`the native server for ${architecture} is left out: ${missing.join(' and ')} is missing`);
    } else {
      mkdirSync(values.out, { recursive: true });
      const outfile = join(values.out, `native-${architecture}`);
      if (values.sanitize) buildSanitized(architecture, outfile);
      else buildProgram(architecture, outfile);
    }
  }
}
