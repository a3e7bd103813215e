import { randomUUID } from 'node:crypto';
import { delimiter } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { type Person, PROGRAM } from './cli.ts';
import { run, runOk } from './process.ts';
import { writeScript } from './script.ts';
import { tempDir } from './temp.ts';

const PATIENCE_MS = 60_000;
const LOOK_MS = 30;

/** The size of a terminal, in characters. */
interface Size {
  columns: number;
  rows: number;
}

const SIZE: Size = { columns: 150, rows: 50 };

/** A program in a terminal of its own (tmux), with somebody at the keyboard; ended with the test. */
export class Terminal {
  readonly #socket = `gpg-bridge-${randomUUID()}`;

  private constructor(private readonly env: NodeJS.ProcessEnv) {}

  static async start(command: string, env: NodeJS.ProcessEnv, size: Size = SIZE): Promise<Terminal> {
    const { TMUX: _, ...own } = env;
    const terminal = new Terminal({ ...own, TERM: 'xterm', LC_ALL: 'C.UTF-8' });
    onTestFinished(async () => void (await run('tmux', ['-L', terminal.#socket, 'kill-server'])));
    const { columns, rows } = size;
    await terminal.#tmux(
      '-f',
      '/dev/null',
      'new-session',
      '-d',
      '-x',
      `${columns}`,
      '-y',
      `${rows}`,
      command,
    );
    return terminal;
  }

  /** A shell in which a person types; it knows `gpg-bridge`. */
  static async of(person: Person): Promise<Terminal> {
    const dir = await tempDir();
    await writeScript(dir, 'gpg-bridge', `exec ${process.execPath} ${PROGRAM} "$@"`);
    const env = { ...person.env, PATH: `${dir}${delimiter}${person.env.PATH}`, PS1: '> ' };
    const terminal = await Terminal.start('bash --norc --noprofile -i', env);
    // What is typed before the prompt stands on the screen twice.
    await terminal.shows(/[#$>] *$/);
    return terminal;
  }

  /** Has the person's gpg-agent ask here; from a shell. */
  async useForPinentry(): Promise<void> {
    const begin = 'export GPG_TTY=$(tty); gpg-connect-agent updatestartuptty /bye; clear; echo agent is told';
    await this.enter(begin, /^agent is told$/m);
  }

  /** Types a line, and resolves to the screen when it matches. */
  async enter(line: string, pattern: RegExp): Promise<string> {
    await this.type(line);
    await this.press('Enter');
    return this.shows(pattern);
  }

  /** Changes the size of the window. */
  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux('resize-window', '-x', String(columns), '-y', String(rows));
  }

  /** Types text as it is. */
  async type(text: string): Promise<void> {
    await this.#tmux('send-keys', '-l', text);
  }

  /** Presses keys, by tmux's names for them: `Tab`, `Enter`, `C-u`. */
  async press(...keys: string[]): Promise<void> {
    await this.#tmux('send-keys', ...keys);
  }

  /** What can be read there now. */
  async screen(): Promise<string> {
    return (await this.#tmux('capture-pane', '-p')).trimEnd();
  }

  /** The same with the codes of its styles, as the terminal would have been sent them. */
  async styledScreen(): Promise<string> {
    return (await this.#tmux('capture-pane', '-e', '-p')).trimEnd();
  }

  /** Resolves to the screen when it matches: nothing tells when a program has drawn it. */
  async shows(pattern: RegExp): Promise<string> {
    for (const end = Date.now() + PATIENCE_MS; ; await delay(LOOK_MS)) {
      const screen = await this.screen();
      if (pattern.test(screen)) return screen;
      if (Date.now() > end) throw new Error(`no ${pattern} on the screen:\n${screen}`);
    }
  }

  #tmux(...args: string[]): Promise<string> {
    return runOk('tmux', ['-L', this.#socket, ...args], { env: this.env });
  }
}
