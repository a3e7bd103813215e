/** What a socket server can run on, in the order in which a target's own are tried. */
export const RUNTIMES = ['perl', 'node', 'native'] as const;

/** One of the runtimes; `native` is a program that needs none. */
export type Runtime = (typeof RUNTIMES)[number];

/** The architectures that there is a native program for, by the names that Linux has for them. */
export const ARCHITECTURES = ['x86_64', 'aarch64'] as const;

/** One of the architectures. */
export type Architecture = (typeof ARCHITECTURES)[number];

/** How a native program travels: as it is, or as text where only the shell can read it. */
export const FORMS = ['blocks', 'lines'] as const;

/** One of the forms. */
export type ProgramForm = (typeof FORMS)[number];

/** Homes of the servers that editors put into remotes; each comes with a Node. */
const EDITOR_SERVERS = [
  '.vscode-server',
  '.vscode-server-insiders',
  '.vscode-remote',
  '.vscodium-server',
  '.cursor-server',
  '.windsurf-server',
];

/** Where the Node is in such a home. */
const EDITOR_NODES = ['bin/*/node', 'bin/*/*/node', 'cli/servers/*/server/node'];

/** Where a program may be put that is gone again before it runs; memory first, a home last. */
const PROGRAM_PLACES = ['"$XDG_RUNTIME_DIR"', '/dev/shm', '"$TMPDIR"', '/tmp', '/var/tmp', '"$HOME"', '.'];

/** How a runtime is found in a target, and started there. */
export interface RuntimeFacts {
  /** A command of sh that succeeds if the target has it. */
  check: string;
  /** What follows the runtime's name in the launcher's line, in words of sh. */
  detail?: string;
  /**
   * Reads `<source length> <config length> LF source config` from stdin, not one byte more, and becomes
   * that source. It stands in single quotes of sh: it has none itself.
   */
  loader: string;
}

/** Each of the runtimes. */
export const RUNTIME_FACTS: Record<Runtime, RuntimeFacts> = {
  node: {
    check: [
      `for n in node ${EDITOR_SERVERS.flatMap((home) => EDITOR_NODES.map((path) => `"$HOME"/${home}/${path}`)).join(' ')}`,
      'do case $("$n" -v) in v1[89].*|v[2-9][0-9].*|v[1-9][0-9][0-9].*)break;;esac;false;done',
    ].join(';'),
    // A carrier may hand over a stdin that does not block.
    loader: `exec "$n" -e '${[
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
  native: {
    // A file that can be run, even if there is nothing in it, is where programs may be run. It is opened and
    // removed before it gets its content: whatever happens from then on, nothing of it is left.
    check: [
      'case $(uname -sm) in "Linux x86_64")a=x86_64;;"Linux aarch64")a=aarch64;;*)false;;esac&&[ -e /proc/self/fd/0 ]&&',
      `for p in ${PROGRAM_PLACES.join(' ')};do d=$p/.gpg-bridge-$$;f=$d/server;[ -n "$p" ]&&mkdir -m 700 "$d"&&`,
      '{ echo>"$f"&&chmod 700 "$f"&&"$f"&&exec 3>"$f" 4<"$f"&&rm -r "$d"&&break;rm -r "$d";};false;done&&',
      // Not every dd waits for a whole block, and nothing else reads bytes that are no text and none too many.
      'case $(echo abcd|dd bs=2 count=1 iflag=fullblock) in ab)w=blocks;;*)w=lines;;esac',
    ].join(''),
    detail: '$a $w',
    loader: [
      'if [ $w = blocks ];then read -r l&&dd bs=1024 count=$l iflag=fullblock 2>/dev/null',
      'else while read -r l&&[ -n "$l" ];do printf "$l";done;fi>&3',
      'read -r l||exit 0',
      'exec 3>&-',
      'exec /proc/self/fd/4 $l',
    ].join(';'),
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
};
