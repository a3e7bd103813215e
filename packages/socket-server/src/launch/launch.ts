import { BridgeError } from '@gpg-bridge/core/errors';
import { encodeConfig, type ServerConfig } from './config.ts';

export { SERVER_CONFIG, type ServerConfig } from './config.ts';

/** What a socket server can run on, in the order in which a target's own are tried. */
export const RUNTIMES = ['perl', 'python', 'node'] as const;

/** One of the runtimes. */
export type Runtime = (typeof RUNTIMES)[number];

/** Exit status of the launcher in a target that has none of the runtimes. */
export const NO_RUNTIME_STATUS = 5;

/** How a launcher's line starts: the mark and the version of what follows it. */
const MARK = 'GPG-BRIDGE 1 ';

/** What may be printed before the launcher's line (a shell's start-up files do that), in bytes. */
const MAX_NOISE = 65_536;

/** Where macOS has what people install, and a shell without a login does not look. */
const MORE_PLACES = ['/usr/local/bin', '/opt/homebrew/bin', '/opt/local/bin', '/usr/local/MacGPG2/bin'];

interface RuntimeFacts {
  /** A command of sh that succeeds if the target has it. */
  check: string;
  /**
   * Reads `<source length> <config length> LF source config` from stdin, not one byte more, and becomes
   * that source. It stands in single quotes of sh: it has none itself.
   */
  loader: string;
}

const FACTS: Record<Runtime, RuntimeFacts> = {
  node: {
    check: 'case $(node -v) in v1[89].*|v[2-9][0-9].*|v[1-9][0-9][0-9].*);;*)false;;esac',
    // A carrier may hand over a stdin that does not block.
    loader: `exec node -e '${[
      'const fs=require("fs"),p=new Int32Array(new SharedArrayBuffer(4)),',
      'g=n=>{const b=Buffer.alloc(n);for(let a=0;a<n;){let k=0;',
      'try{k=fs.readSync(0,b,a,n-a)}catch(e){if(e.code!=="EAGAIN")throw e;Atomics.wait(p,0,0,5);continue}',
      'if(!k)process.exit(0);a+=k}return b.toString()};',
      'let h="",c;while((c=g(1))!=="\\n")h+=c;const[s,n]=h.split(" ").map(Number),t=g(s);',
      'Function("require","CONFIG",t)(require,g(n));',
      // Sessions leave nothing that a larger young generation would be good for. An option of Node's would
      // make it compile its own modules at every start.
      'require("v8").setFlagsFromString("--semi-space-growth-factor=1")',
    ].join('')}'`,
  },
  perl: {
    // To load them takes longer than to see that they are there; the loader does that while the host gets the news.
    check: 'perl -e "for my\\$m(qw(Errno Fcntl Socket)){grep{-e qq(\\$_/\\$m.pm)}@INC or exit 1}"',
    loader: `unset PERL5OPT PERL_UNICODE;exec perl -mErrno -mFcntl -mSocket -e '${[
      'binmode STDIN;sub g{my($n,$b)=(@_,"");while($n>length$b){',
      'my$k=sysread STDIN,$b,$n-length$b,length$b;exit 0 if defined$k&&!$k;',
      'if(!defined$k){$!{EAGAIN}||$!{EINTR}||die$!;select undef,undef,undef,.005}}$b}',
      'my($h,$c)="";$h.=$c while($c=g(1))ne"\\n";my($s,$n)=split/ /,$h;',
      'my$t=g($s);our$CONFIG=g($n);eval$t;die$@if$@',
    ].join('')}'`,
  },
  python: {
    check: 'python3 -ISc "import sys,select,socket,subprocess;sys.exit(sys.version_info<(3,6))"',
    loader: `exec python3 -ISBc '${[
      'import os,time',
      'def g(n):',
      ' b=b""',
      ' while len(b)<n:',
      '  try:k=os.read(0,n-len(b))',
      '  except BlockingIOError:',
      '   time.sleep(.005)',
      '   continue',
      '  if not k:os._exit(0)',
      '  b+=k',
      ' return b',
      'h=b""',
      'while h[-1:]!=b"\\n":h+=g(1)',
      's,n=map(int,h.split())',
      't=g(s)',
      'exec(compile(t,"server.py","exec"),{"__name__":"__main__","CONFIG":g(n)})',
    ].join('\n')}'`,
  },
};

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
    ...tried.map(
      (name) =>
        `if { ${FACTS[name].check};} </dev/null >/dev/null 2>&1;then echo ${MARK}${name};${FACTS[name].loader};fi`,
    ),
    `echo ${MARK}none`,
    `exit ${NO_RUNTIME_STATUS}`,
  ].join('\n');
  return ['sh', '-c', script];
}

/** What a launcher printed: its runtime, or that there is none, and the bytes after its line. */
export interface Launched {
  runtime: Runtime | 'none';
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
    if (end < 0) return undefined;
    const name = printed.toString('latin1', at + MARK.length, end).trimEnd();
    const runtime = ([...RUNTIMES, 'none'] as const).find((known) => known === name);
    if (!runtime) continue;
    return { runtime, noise: printed.subarray(0, at), rest: printed.subarray(end + 1) };
  }
  if (printed.length <= MAX_NOISE) return undefined;
  throw new BridgeError('NOT_A_BRIDGE', {
    what: 'the target did not start a bridge',
    why: `it printed ${printed.length} bytes of something else`,
    fix: "Check what the target's shell prints when it starts.",
  });
}

/** What goes to a launcher's stdin before the first frame: the server's text and its configuration. */
export function serverPayload(runtime: Runtime, config: ServerConfig, source: string): Buffer {
  const text = Buffer.from(runtime === 'node' ? source : withoutComments(source));
  const settings = Buffer.from(encodeConfig(config));
  return Buffer.concat([Buffer.from(`${text.length} ${settings.length}\n`), text, settings]);
}

/** Empty lines take the place of comments, so that the numbers of the lines stay what they are. */
function withoutComments(source: string): string {
  return source.replace(/^[ \t]*#.*$/gm, '');
}
