import { spawn } from 'node:child_process';
import { constants, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import { isInFront } from './terminal-processes.ts';

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
/** Prints the settings; without these, which a reader of single keys takes away, Enter is no end of a line. */
export const FOR_A_PROMPT = 'stty -g&&stty icrnl opost onlcr';

/** Keeps a target from reading this terminal while somebody else, such as a pinentry, may ask in it. */
export class TerminalGate {
  #holds = 0;
  #reader: TerminalReader | undefined;
  #isStopped = false;
  #since = 0;
  #settings = '';
  #last = Promise.resolve();
  /** What has gone on while the terminal was held is being stopped again. */
  #stoppingAgain = Promise.resolve();
  /** The settings before the target could change them. */
  #ownSettings = '';
  #isLost = false;
  #hasEnded = false;
  #tellLost = () => {};
  /** Resolves when who held the terminal has gone without releasing it, and what read it is ended. */
  readonly lost = new Promise<void>((resolve) => {
    this.#tellLost = resolve;
  });

  constructor(
    /** Runs a script on this terminal; resolves to what it prints. */
    private readonly run: (script: string, ...words: string[]) => Promise<string> = inTerminal,
    private readonly now = () => performance.now(),
    /** A job in the background leaves the terminal to the program in front, with its settings and its input. */
    private readonly hasTerminal: () => Promise<boolean> = isInFront,
  ) {}

  /** Notes the settings that a terminal gets back when its hold is lost. */
  async begin(): Promise<void> {
    this.#ownSettings = await this.run(SETTINGS);
  }

  /** Whether who held the terminal has gone without releasing it. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Whether what read the terminal was ended for that. */
  get hasEnded(): boolean {
    return this.#hasEnded;
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

  /** Resolves when nothing is read for the target; as often as it is called `release` has to be. */
  hold(): Promise<void> {
    this.#holds++;
    return this.#settle();
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
    if (!this.#reader || isWanted === this.#isStopped) return;
    if (isWanted) {
      this.#isStopped = true;
      process.on('SIGTSTP', this.#ignore).on('SIGCONT', this.#stopAgain);
      await this.#reader.stop();
      this.#settings = (await this.hasTerminal()) ? await this.run(FOR_A_PROMPT) : '';
      this.#since = this.now();
      return;
    }
    if (await this.hasTerminal()) {
      this.#settings ||= await this.run(SETTINGS); // it has come to the front
      if (this.now() - this.#since >= PROMPT_MS) await this.run(DROP_TYPED);
      if (this.#holds > 0) {
        await this.run(FOR_A_PROMPT); // again, meanwhile
        return;
      }
      if (this.#settings) await this.run(AS_BEFORE, this.#settings);
    }
    if (this.#holds > 0) return;
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

  async #end(): Promise<void> {
    const reader = this.#reader;
    if (!reader) return;
    this.#reader = undefined;
    this.#isStopped = true;
    await reader.stop().catch(() => {});
    const hadTerminal = await this.hasTerminal();
    reader.end();
    this.#hasEnded = true;
    if (this.#ownSettings && hadTerminal) await this.run(AS_BEFORE, this.#ownSettings);
    this.#tellLost();
  }
}

let controlling: number | undefined;

/** A stream of this process that is a terminal, if one is. */
export function terminalStream(): number | undefined {
  return [0, 1, 2].find((descriptor) => isatty(descriptor));
}

/** A descriptor of this process's terminal, if it has one: a command here can open that whatever its streams are. */
export function ownTerminal(): number | undefined {
  const stream = terminalStream();
  if (stream !== undefined) return stream;
  try {
    controlling ??= openSync('/dev/tty', constants.O_RDWR | constants.O_NOCTTY);
  } catch {
    // it has none
  }
  return controlling;
}

/** Runs a script on this terminal; returns what it prints. */
async function inTerminal(script: string, ...words: string[]): Promise<string> {
  const terminal = ownTerminal();
  if (terminal === undefined) return '';
  // In a session of its own, as a pinentry is: the kernel would stop it if the target's shell has the foreground.
  const child = spawn('/bin/sh', ['-c', script, 'sh', ...words], {
    stdio: [terminal, 'pipe', 'ignore'],
    detached: true,
  });
  // With all that it has started: a `cat` that waits behind another reader would take what is typed later.
  const kill = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // it has ended
    }
  };
  const timer = setTimeout(kill, SETTINGS_TIMEOUT_MS);
  process.once('exit', kill);
  let printed = '';
  child.stdout?.setEncoding('latin1').on('data', (text: string) => {
    printed += text;
  });
  return new Promise((resolve: (printed: string) => void) => {
    child.once('error', () => resolve(''));
    child.once('close', () => resolve(printed.trim()));
  }).finally(() => {
    clearTimeout(timer);
    process.off('exit', kill);
  });
}
