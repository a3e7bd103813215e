import { runOk } from '@gpg-bridge/test-support/process';
import { isOnPath } from '@gpg-bridge/test-support/requirements';
import { describe, expect, it, vi } from 'vitest';
import { run } from './completion.ts';
import { COMMANDS } from './specs.ts';

async function script(shell: string): Promise<string> {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    expect(await run({ operands: [shell], command: [], flags: {} })).toBe(0);
    return String(write.mock.calls[0]?.[0]);
  } finally {
    write.mockRestore();
  }
}

describe('completion', () => {
  it.each(['bash', 'zsh', 'fish'])('is a script that %s can read', async (shell) => {
    const text = await script(shell);
    expect(text).not.toContain('ready-fd');
    for (const name of Object.keys(COMMANDS)) expect(text).toContain(name);
    for (const verb of Object.keys(COMMANDS.auto.verbs)) expect(text).toContain(verb);
    if (isOnPath(shell)) await runOk(shell, ['-n', '-c', text]);
  });

  it('refuses other shells', async () => {
    await expect(run({ operands: ['tcsh'], command: [], flags: {} })).rejects.toMatchObject({
      exitStatus: 2,
    });
    await expect(run({ operands: [], command: [], flags: {} })).rejects.toMatchObject({ exitStatus: 2 });
  });
});
