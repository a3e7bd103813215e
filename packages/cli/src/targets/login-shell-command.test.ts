import { runOk } from '@gpg-bridge/test-support/process';
import { isOnPath } from '@gpg-bridge/test-support/requirements';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loginShellCommand } from './login-shell-command.ts';

const SHELLS = ['sh', 'dash', 'bash', 'zsh', 'fish', 'csh', 'tcsh', 'ksh', 'busybox'].filter(isOnPath);

describe.each(SHELLS)('a command for the login shell %s', (shell) => {
  const run = (argv: readonly string[]) =>
    runOk(shell, [...(shell === 'busybox' ? ['sh'] : []), '-c', loginShellCommand(argv)]);

  it('is run with the words it has', async () => {
    const words = fc.sample(fc.string({ unit: 'binary' }), 100).filter((word) => !word.includes('\0'));
    words.push(
      '',
      "it's",
      '$HOME',
      '`id`',
      '\\',
      '-n',
      '*',
      '~',
      '!x',
      'a!!b',
      'a\nb',
      '%s',
      '\\012',
      'x'.repeat(3_000),
    );
    const printed = await run(['printf', '%s\\0', ...words]);
    expect(printed.split('\0').slice(0, -1)).toEqual(words);
  });

  it('keeps its input, and its words are parted as ever', async () => {
    const script = 'set -- $1\nread -r line\necho "$# $line"';
    const printed = await runOk(
      shell,
      [...(shell === 'busybox' ? ['sh'] : []), '-c', loginShellCommand(['sh', '-c', script, 'sh', 'a b c'])],
      { input: 'hello\nmore\n' },
    );
    expect(printed).toBe('3 hello\n');
  });
});
