import { join } from 'node:path/posix';

/** GNUPGHOME of a target's user who was given a home. */
export function gnupgHomeIn(home: string): string {
  return join(home, '.gnupg');
}

/** A command with another home than the target gives its user, made first if it is not there. */
export function inHome(home: string | undefined, argv: readonly string[]): readonly string[] {
  if (home === undefined) return argv;
  const script =
    '(umask 077;mkdir -p "$2")||exit 1;HOME=$1 GNUPGHOME=$2;export HOME GNUPGHOME;shift 2;exec "$@"';
  return ['sh', '-c', script, 'sh', home, gnupgHomeIn(home), ...argv];
}
