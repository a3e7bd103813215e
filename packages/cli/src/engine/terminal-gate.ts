import { spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import { TerminalAnswers } from './terminal-answers.ts';

/** What reads this terminal for a target. */
export interface TerminalReader {
  /** Resolves when it does not read any more. */
  stop(): Promise<void>;
  goOn(): void;
  /** Ends it without letting it read again. */
  end(): void;
}

/**
 * In less time nobody has answered a prompt: what was typed is for the target. Whether there was a prompt in this
 * terminal is not known, so what was typed in more time is for nobody.
 */
export const PROMPT_MS = 50;
/** A terminal whose output stands still takes no settings. */
const SETTINGS_TIMEOUT_MS = 1_000;

export const SETTINGS = 'stty -g';
export const AS_BEFORE = 'stty "$1"';
/** Reads what there is, at once and not line by line. */
export const DROP_TYPED = 'stty -icanon -echo min 0 time 0&&cat >/dev/null';
/** Without the last settings, which a reader of single keys takes away, Enter is no end of a line. */
export const FOR_A_PROMPT = `${DROP_TYPED};stty "$1"&&stty icrnl opost onlcr`;
/** Prints the settings on a line, writes queries to the terminal, and prints what is read there until it is killed. */
const QUERY = 'stty -g&&stty -icanon -echo min 0 time 1&&printf %s "$1" >&0&&while cat;do :;done';
/** How long a terminal may take for what the target has written to it, and then for a few queries. */
const ANSWERS_MS = 5_000;
/** The same for one that took longer the last time. */
const LATE_ANSWERS_MS = 1_000;
/** What TERM is where nothing understands a query, and so answers none of the target's. */
const ANSWERS_NOTHING = /^(?:dumb|unknown)?$/;

/** What is known of a terminal before a prompt. */
export interface TerminalState {
  settings: string;
  /** Whether it has processed all that was written to it, so that no answer to that comes any more. */
  isSettled: boolean;
}

/** Keeps a target from reading this terminal while somebody else, such as a pinentry, may ask in it. */
export class TerminalGate {
  #holds = 0;
  #reader: TerminalReader | undefined;
  #isStopped = false;
  #since = 0;
  #settings = '';
  #isSettled = true;
  #last = Promise.resolve();
  /** What has gone on while the terminal was held is being stopped again. */
  #stoppingAgain = Promise.resolve();
  /** The settings before the target could change them. */
  #ownSettings = '';
  #isLost = false;
  #tellLost = () => {};
  /** Resolves when who held the terminal has gone without releasing it, and what read it is ended. */
  readonly lost = new Promise<void>((resolve) => {
    this.#tellLost = resolve;
  });

  constructor(
    /** Runs a script on this terminal; resolves to what it prints. */
    private readonly run: (script: string, ...words: string[]) => Promise<string> = inTerminal,
    private readonly now = () => performance.now(),
    private readonly query: (timeoutMs: number) => Promise<TerminalState> = queryTerminal,
  ) {}

  /** Notes the settings that a terminal gets back when its hold is lost. */
  async begin(): Promise<void> {
    this.#ownSettings = await this.run(SETTINGS);
  }

  /** Whether who held the terminal has gone without releasing it. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** The reader from now on; the result ends that. */
  readBy(reader: TerminalReader): () => void {
    this.#reader = reader;
    this.#isStopped = false;
    void this.#settle();
    return () => {
      if (this.#reader === reader) this.#reader = undefined;
    };
  }

  /** Whether somebody else may be asking in the terminal now: what is typed is for that one. */
  get isHeld(): boolean {
    return this.#isStopped;
  }

  /**
   * Resolves when nothing is read for the target, to whether a prompt may be shown: it must not where the terminal's
   * answers to the target could answer it. As often as it is called `release` has to be.
   */
  async hold(): Promise<boolean> {
    this.#holds++;
    await this.#settle();
    return this.#isSettled;
  }

  release(): Promise<void> {
    this.#holds--;
    return this.#settle();
  }

  /**
   * Who held the terminal has gone, and a person may still type for its prompt. Nothing tells when that is over, so
   * the target never reads the terminal again.
   */
  lose(): Promise<void> {
    this.#isLost = true;
    return this.#settle();
  }

  /** One change after the other. */
  #settle(): Promise<void> {
    this.#last = this.#last.then(() => this.#change()).catch(() => {});
    return this.#last;
  }

  async #change(): Promise<void> {
    if (this.#isLost) return this.#end();
    const isWanted = this.#holds > 0;
    if (!this.#reader) return;
    if (isWanted === this.#isStopped) {
      if (isWanted && !this.#isSettled) await this.#makeReady();
      return;
    }
    if (isWanted) {
      this.#isStopped = true;
      process.on('SIGTSTP', this.#ignore).on('SIGCONT', this.#stopAgain);
      await this.#reader.stop();
      await this.#makeReady();
      this.#since = this.now();
      return;
    }
    if (this.now() - this.#since >= PROMPT_MS) await this.run(DROP_TYPED);
    if (this.#holds > 0) {
      await this.run(FOR_A_PROMPT, this.#settings); // again, meanwhile
      return;
    }
    if (this.#settings) await this.run(AS_BEFORE, this.#settings);
    if (this.#isLost) return; // meanwhile: its turn comes
    process.off('SIGTSTP', this.#ignore).off('SIGCONT', this.#stopAgain);
    await this.#stoppingAgain;
    this.#isStopped = false;
    this.#reader?.goOn();
  }

  /** Ctrl-Z: the shell's `fg` would have the target go on, too. */
  readonly #ignore = (): void => {};

  /** The signal was for all processes of the job. At once: the target reads already. */
  readonly #stopAgain = (): void => {
    const stopping = this.#reader?.stop().catch(() => {});
    this.#stoppingAgain = this.#stoppingAgain.then(() => stopping);
  };

  /** What was typed before goes, too: it can't be told from the terminal's answers. */
  async #makeReady(): Promise<void> {
    const { settings, isSettled } = await this.query(this.#isSettled ? ANSWERS_MS : LATE_ANSWERS_MS);
    this.#settings = settings;
    this.#isSettled = isSettled;
    if (settings) await this.run(FOR_A_PROMPT, settings);
  }

  async #end(): Promise<void> {
    const reader = this.#reader;
    if (!reader) return;
    this.#reader = undefined;
    this.#isStopped = true;
    await reader.stop().catch(() => {});
    reader.end();
    if (this.#ownSettings) await this.run(AS_BEFORE, this.#ownSettings);
    this.#tellLost();
  }
}

/** The descriptor of this process that is a terminal, if one is. */
export function ownTerminal(): number | undefined {
  return [0, 1, 2].find((descriptor) => isatty(descriptor));
}

/** Asks this terminal something, to know when it has processed all that was written before. */
async function queryTerminal(timeoutMs: number): Promise<TerminalState> {
  if (ANSWERS_NOTHING.test(process.env.TERM ?? '')) {
    return { settings: await inTerminal(SETTINGS), isSettled: true };
  }
  const answers = new TerminalAnswers();
  let isSettled = false;
  let settings: string | undefined;
  let first = '';
  await runInTerminal([QUERY, answers.queries], timeoutMs, (text) => {
    let read = text;
    if (settings === undefined) {
      first += text;
      const end = first.indexOf('\n');
      if (end < 0) return false;
      settings = first.slice(0, end);
      read = first.slice(end + 1);
    }
    isSettled ||= answers.take(read);
    return isSettled;
  });
  return { settings: settings ?? '', isSettled };
}

/** Runs a script on this terminal; returns what it prints. */
async function inTerminal(script: string, ...words: string[]): Promise<string> {
  let printed = '';
  const isDone = await runInTerminal([script, ...words], SETTINGS_TIMEOUT_MS, (text) => {
    printed += text;
    return false;
  });
  return isDone ? printed.trim() : '';
}

/** A descriptor of the same terminal that can be read and written, which this process's own may not be. */
function reopened(descriptor: number): number | undefined {
  try {
    return openSync(`/dev/fd/${descriptor}`, constants.O_RDWR | constants.O_NOCTTY);
  } catch {
    return undefined; // macOS opens it as it is, and another user's can't be opened
  }
}

/** Runs a script on this terminal until `take` returns true for what it prints; false if it can't be run. */
async function runInTerminal(
  [script, ...words]: readonly [string, ...string[]],
  timeoutMs: number,
  take: (text: string) => boolean,
): Promise<boolean> {
  const own = ownTerminal();
  if (own === undefined) return false;
  const opened = reopened(own);
  // In a session of its own, as a pinentry is: the kernel would stop it if the target's shell has the foreground.
  const child = spawn('/bin/sh', ['-c', script, 'sh', ...words], {
    stdio: [opened ?? own, 'pipe', 'ignore'],
    detached: true,
  });
  if (opened !== undefined) closeSync(opened);
  // With all that the script has started.
  const end = () => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // it has ended
    }
  };
  const timer = setTimeout(end, timeoutMs);
  child.stdout?.setEncoding('latin1').on('data', (text: string) => {
    if (take(text)) end();
  });
  return new Promise<boolean>((resolve) => {
    child.once('error', () => resolve(false));
    child.once('close', () => resolve(true));
  }).finally(() => clearTimeout(timer));
}
