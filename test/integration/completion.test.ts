import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import { describe, expect, it } from 'vitest';

/** How each shell is started without anybody's own files, and told of the completion. */
const SHELLS = {
  bash: {
    command: 'bash --norc --noprofile -i',
    load: "PS1='> '; source <(gpg-bridge completion bash); bind 'set bell-style none'",
  },
  zsh: {
    command: 'zsh -f -i',
    load: "PS1='> '; autoload -Uz compinit; compinit -u -D; source <(gpg-bridge completion zsh)",
  },
  fish: {
    command: 'fish --no-config -i',
    load: "function fish_prompt; echo '> '; end; gpg-bridge completion fish | source",
  },
} as const;

describe.each(['bash', 'zsh', 'fish'] as const)('pressing Tab in %s', (shell) => {
  requireSystem(shell)('completes', () => {
    async function atTheKeyboard() {
      const person = await Person.create({ key: false });
      const target = await person.localHome();
      await person.ok('up', `local:${target.dir}`);
      const dir = await tempDir();
      await writeScript(dir, 'gpg-bridge', `exec ${process.execPath} ${PROGRAM} "$@"`);
      // The last two names are a hostile engine's: bash expands words before it offers them.
      await writeScript(
        dir,
        'docker',
        `echo web; echo worker; echo '$(touch ${join(dir, 'obeyed')})'; printf 'a\\033]0;evil\\007\\n'`,
      );
      await writeScript(dir, 'podman', 'echo podman:build');
      const terminal = await Terminal.start(SHELLS[shell].command, {
        ...person.env,
        PATH: `${dir}${delimiter}${person.env.PATH}`,
      });
      await terminal.type(`${SHELLS[shell].load}; clear; echo loa''ded`);
      await terminal.press('Enter');
      await terminal.shows(/^loaded$/m);
      /** Types a line, presses Tab, and resolves to the screen when it matches. */
      const tab = async (line: string, pattern: RegExp) => {
        await terminal.press('C-u');
        await terminal.press('C-l');
        await terminal.type(line);
        await terminal.press('Tab');
        // A second press lists what a first one could not decide.
        if (shell !== 'fish') await terminal.press('Tab');
        const screen = await terminal.shows(pattern);
        expect(screen).not.toMatch(/unrecognized modifier|command not found|syntax error|Unknown command/);
        if (shell === 'fish') await terminal.press('Escape'); // its menu stays else
        return screen;
      };
      return { tab, target, obeyed: join(dir, 'obeyed') };
    }

    it('commands, options, what they take, containers and bridges', async () => {
      const { tab, target, obeyed } = await atTheKeyboard();
      await tab('gpg-bridge stat', /gpg-bridge status/);
      expect(await tab('gpg-bridge d', /demo/)).toContain('down');
      await tab('gpg-bridge up --ssh-f', /gpg-bridge up --ssh-from-gpg/);
      expect(await tab('gpg-bridge up web --runtime n', /native/)).toContain('node');
      await tab('gpg-bridge up web --runtime au', /--runtime auto/);
      await tab('gpg-bridge up web --keys=pa', /--keys=pairs/);
      expect(await tab('gpg-bridge up w', /worker/)).toContain('web');
      expect(existsSync(obeyed)).toBe(false);
      await tab('gpg-bridge up pod', /gpg-bridge up podman:build/);
      await tab('gpg-bridge down local', new RegExp(`gpg-bridge down local:${target.dir}`));
      await tab('gpg-bridge log local:/', new RegExp(`gpg-bridge log local:${target.dir}`));
      expect(await tab('gpg-bridge completion ', /zsh/)).toContain('fish');
    });
  });
});
