import { runOk } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, vi } from 'vitest';
import { run } from './completion.ts';
import { COMMANDS } from './specs.ts';

async function script(shell: string): Promise<string> {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    expect(await run({ operands: [shell], flags: {} })).toBe(0);
    return String(write.mock.calls[0]?.[0]);
  } finally {
    write.mockRestore();
  }
}

/** What bash offers at the end of a line, as it would at a press of Tab. */
async function offers(line: string): Promise<string[]> {
  const dir = await tempDir();
  const status = JSON.stringify([
    { target: 'box', id: '1' },
    { target: 'local:/tmp/x', id: '/tmp/x' },
  ]);
  await writeScript(dir, 'gpg-bridge', `[ "$*" = "status --json" ] && echo '${status}'`);
  await writeScript(dir, 'docker', 'echo web; echo worker');
  // Words as bash splits them: at blanks, and each colon is a word by itself.
  const words = line.replaceAll(':', ' : ').split(/ +/);
  const test = [
    await script('bash'),
    `COMP_LINE=${JSON.stringify(line)}; COMP_POINT=${line.length}`,
    `COMP_WORDS=(${words.map((word) => JSON.stringify(word)).join(' ')}); COMP_CWORD=${words.length - 1}`,
    `_gpg_bridge; printf "%s\\n" "\${COMPREPLY[@]}"`,
    'complete -p gpg-bridge >&2',
  ].join('\n');
  const printed = await runOk('bash', ['--norc', '-c', test], {
    env: { ...process.env, PATH: `${dir}:${process.env.PATH}` },
  });
  return printed.split('\n').filter(Boolean);
}

describe('completion in bash', () => {
  it('offers every command', async () => {
    expect(await offers('gpg-bridge ')).toEqual(Object.keys(COMMANDS));
    expect(await offers('gpg-bridge d')).toEqual(['down', 'demo']);
  });

  it('offers the options of the command, and none of its inner ones', async () => {
    expect(await offers('gpg-bridge up box --ssh')).toEqual(['--ssh', '--ssh-key', '--ssh-from-gpg']);
    expect(await offers('gpg-bridge serve --ready')).toEqual([]);
  });

  it('offers what an option takes', async () => {
    expect(await offers('gpg-bridge up box --runtime p')).toEqual(['perl', 'python']);
    expect(await offers('gpg-bridge up box --keys ')).toEqual(['pairs', 'all', 'none']);
    expect(await offers('gpg-bridge up box --user ')).toEqual([]);
  });

  it('offers containers to `up`, and bridges that run to the others', async () => {
    expect(await offers('gpg-bridge up w')).toEqual(['web', 'worker']);
    expect(await offers('gpg-bridge down ')).toEqual(['box', 'local:/tmp/x']);
    // Bash has taken `local:` as words of their own: only the rest is put in.
    expect(await offers('gpg-bridge log local:/t')).toEqual(['/tmp/x']);
  });

  it('offers the shells', async () => {
    expect(await offers('gpg-bridge completion ')).toEqual(['bash', 'zsh', 'fish']);
  });
});

describe('completion', () => {
  it('is a script that the shell can read', async () => {
    await runOk('bash', ['-n', '-c', await script('bash')]);
    expect(await script('zsh')).toContain('bashcompinit');
    expect(await script('fish')).toContain("-l runtime -d 'what runs the socket server there");
  });

  it('refuses other shells', async () => {
    await expect(run({ operands: ['tcsh'], flags: {} })).rejects.toMatchObject({ exitStatus: 2 });
    await expect(run({ operands: [], flags: {} })).rejects.toMatchObject({ exitStatus: 2 });
  });
});
