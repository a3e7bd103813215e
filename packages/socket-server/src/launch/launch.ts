import { BridgeError } from '@gpg-bridge/core/errors';
import {
  ARCHITECTURES,
  type Architecture,
  FORMS,
  type ProgramForm,
  RUNTIME_FACTS,
  RUNTIMES,
  type Runtime,
} from './runtimes.ts';

export { SERVER_CONFIG, type ServerConfig } from './config.ts';
export { serverPayload } from './payload.ts';
export { ARCHITECTURES, type Architecture, type ProgramForm, RUNTIMES, type Runtime } from './runtimes.ts';

/** Exit status of the launcher in a target that has none of the runtimes. */
export const NO_RUNTIME_STATUS = 5;

/** How a launcher's line starts: the mark and the version of what follows it. */
const MARK = 'GPG-BRIDGE 1 ';

/** What may be printed before the launcher's line (a shell's start-up files do that), in bytes. */
const MAX_NOISE = 65_536;

/** Where macOS has what people install, and a shell without a login does not look. */
const MORE_PLACES = ['/usr/local/bin', '/opt/homebrew/bin', '/opt/local/bin', '/usr/local/MacGPG2/bin'];

/**
 * The command that starts a server in a target: it prints `GPG-BRIDGE 1 <runtime>`, and then waits for
 * that runtime's `serverPayload` on stdin. With `runtime` no other is tried.
 */
export function launcherCommand(runtime?: Runtime): string[] {
  const tried = runtime ? [runtime] : RUNTIMES;
  const script = [
    `PATH=$PATH:${MORE_PLACES.join(':')}`,
    'export PATH',
    // A stream is a descriptor, and the usual limit is 1,024.
    'n=$(ulimit -n);case $n in unlimited);;*)[ $n -ge 8192 ]||ulimit -Sn 8192||ulimit -Sn $(ulimit -Hn);;esac 2>/dev/null',
    ...tried.map((name) => {
      const { check, detail = '', loader } = RUNTIME_FACTS[name];
      return `if { ${check};} </dev/null >/dev/null 2>&1;then echo ${MARK}${name} ${detail};${loader};fi`;
    }),
    `{ echo ${MARK}none \${a:+place} $(uname -sm);} 2>/dev/null`,
    `exit ${NO_RUNTIME_STATUS}`,
  ].join('\n');
  return ['sh', '-c', script];
}

/** For which architecture, and how it is sent. */
export interface WantedProgram {
  architecture: Architecture;
  form: ProgramForm;
}

/** What a launcher printed: its runtime, or that there is none, and the bytes after its line. */
export interface Launched {
  runtime: Runtime | 'none';
  /** Which native program is wanted. */
  program?: WantedProgram;
  /** The rest of the line. After `none` the target's system, with `place` before it if it has none for a program. */
  detail: string;
  /** Bytes that came before the line. */
  noise: Buffer;
  /** Bytes that came after the line. */
  rest: Buffer;
}

/**
 * Looks for the launcher's line in what a target has printed so far. Undefined: it has not come yet. Text
 * before it is what a shell's start-up files print; NOT_A_BRIDGE when there is too much of it.
 */
export function parseLauncherLine(printed: Buffer): Launched | undefined {
  for (let at = printed.indexOf(MARK); at >= 0; at = printed.indexOf(MARK, at + 1)) {
    if (at > 0 && printed[at - 1] !== 0x0a) continue;
    const end = printed.indexOf(0x0a, at);
    if (end < 0) break;
    const [name, ...words] = printed
      .toString('latin1', at + MARK.length, end)
      .trimEnd()
      .split(' ');
    const runtime = ([...RUNTIMES, 'none'] as const).find((known) => known === name);
    const program = runtime === 'native' ? programOf(words) : undefined;
    if (!runtime || (runtime === 'native' && !program)) continue;
    return {
      runtime,
      ...(program && { program }),
      detail: words.join(' '),
      noise: printed.subarray(0, at),
      rest: printed.subarray(end + 1),
    };
  }
  if (printed.length <= MAX_NOISE) return undefined;
  throw new BridgeError('NOT_A_BRIDGE', {
    what: 'the target did not start a bridge',
    why: `it printed ${printed.length} bytes of something else`,
    fix: "Check what the target's shell prints when it starts.",
  });
}

function programOf(words: readonly string[]): WantedProgram | undefined {
  const architecture = ARCHITECTURES.find((known) => known === words[0]);
  const form = FORMS.find((known) => known === words[1]);
  return architecture && form && { architecture, form };
}
