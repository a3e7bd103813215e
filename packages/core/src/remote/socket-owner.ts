import { basename, dirname } from 'node:path/posix';
import { temporaryNamePattern } from '../fs/temporary-name.ts';
import { printable } from '../text/escape.ts';
import type { TargetOperations } from './operations.ts';

/** A process that has a listening socket open. */
export interface SocketOwner {
  pid: number;
  program: string;
}

/**
 * Prints `inode pid program` for every process that listens on $2/$3. The kernel keeps the name given to
 * bind(): a path with links in it, or the temporary name ($4 and a few characters, $5) before a rename.
 * A 1 in the fifth hexadecimal digit of the flags (`__SO_ACCEPTCON`) says that a socket listens. The shell's
 * parent is whoever asks: a bridge that has lost its path still listens on the socket that it had there. From version 24
 * on Node gives its first thread, and so the process, a name that tells nobody anything: then the program's file has a better one.
 */
const SCRIPT = `
proc=$1 dir=$2 name=$3 temporary=$4$5
real=$(cd "$dir" && pwd -P) || exit 0
listening=$(grep -F -e "/$name" -e "/$4" "$proc/net/unix" | while read -r a b c flags e f inode path; do
  case $flags in ???1????)
    case $path in "$dir/$name"|"$real/$name"|"$dir"/$temporary|"$real"/$temporary) echo "$inode";; esac;;
  esac
done)
[ "$listening" ] || exit 0
set --
for inode in $listening; do set -- "$@" -e "-> socket:\\[$inode\\]"; done
ls -l "$proc"/[0-9]*/fd 2>/dev/null | grep -e "^$proc/" "$@" | while read -r line; do
  case $line in
    "$proc"/*) pid=\${line#"$proc"/}; pid=\${pid%%/*};;
    *)
      [ "$pid" = "$PPID" ] && continue
      inode=\${line##*\\[}; read -r program < "$proc/$pid/comm"
      case $program in *MainThread) exe=$(readlink "$proc/$pid/exe" | head -n 1); program=\${exe##*/};; esac
      echo "\${inode%]} $pid $program";;
  esac
done
`;

/**
 * The processes that listen on a Unix socket, without the one that carries the operations out, newest socket
 * first, as far as they can be seen: Linux alone has /proc, and other users' processes keep their descriptors to
 * themselves.
 */
export async function socketOwners(
  operations: TargetOperations,
  path: string,
  procDir = '/proc',
): Promise<SocketOwner[]> {
  const { start, randomLength } = temporaryNamePattern(path);
  const args = [procDir, dirname(path), basename(path), start, '?'.repeat(randomLength)];
  try {
    const { stdout } = await operations.run({ program: 'sh', args: ['-c', SCRIPT, 'sh', ...args] });
    const found = [...stdout.toString().matchAll(/^(\d+) (\d+) (.*)$/gm)].map(([, inode, pid, program]) => ({
      inode: Number(inode),
      pid: Number(pid),
      program: printable(program ?? '', 40),
    }));
    const owners = found.sort((a, b) => b.inode - a.inode);
    // A process may have the socket open more than once.
    return owners
      .filter(({ pid }, at) => owners.findIndex((owner) => owner.pid === pid) === at)
      .map(({ pid, program }) => ({ pid, program }));
  } catch {
    return [];
  }
}
