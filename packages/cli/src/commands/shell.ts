import { runThere } from './exec.ts';
import type { ParsedCommand } from './specs.ts';

/**
 * Becomes the shell of the user there: what the environment or the user database names, if it can be run, else bash
 * or sh.
 */
const OWN_SHELL = [
  '[ "$SHELL" ]||SHELL=$(getent passwd "$(id -u)" 2>/dev/null|cut -d: -f7)',
  'case $SHELL in */nologin|*/false)SHELL=;;esac',
  '[ -x "$SHELL" ]||SHELL=$(command -v bash||command -v sh)',
  'export SHELL',
  'exec "$SHELL" "$@"',
].join('\n');

/** Ensures a bridge, and runs a shell where it leads. */
export function run(parsed: ParsedCommand): Promise<number> {
  // Over ssh it is a login shell, as without the bridge.
  return runThere('shell', parsed, ({ kind }) => [
    'sh',
    '-c',
    OWN_SHELL,
    'sh',
    ...(kind === 'ssh' ? ['-l'] : []),
  ]);
}
