import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runOk } from './process.ts';
import { writeScript } from './script.ts';
import { makeTempDir } from './temp.ts';

const PROGRAM = `
dir=$(dirname "$0")
echo 'OK Pleased to meet you'
while read -r word rest; do
  case $word in
    GETPIN) . "$dir/behaviour" ;;
    SETDESC) description=$rest; echo OK ;;
    CONFIRM) echo "$description" >> "$dir/questions"; . "$dir/confirmation" ;;
    GETINFO) if [ "$rest" = flavor ]; then cat "$dir/flavour"; else echo "D $$"; fi; echo OK ;;
    BYE) echo 'OK closing connection'; exit 0 ;;
    *) echo OK ;;
  esac
done`;

/** What a pinentry says when a button is pressed. */
const BUTTONS = {
  ok: 'echo OK',
  other: "echo 'ERR 83886194 Not confirmed <Pinentry>'",
  cancel: "echo 'ERR 83886179 Operation cancelled <Pinentry>'",
  close: "echo 'S BUTTON_INFO close'; echo 'ERR 83886194 Not confirmed <Pinentry>'",
  waits: 'echo asked > "$dir/asked"; read -r _ < "$dir/go"; echo OK',
} as const;

/** Stands in for the person at the host's keyboard. `remove()` deletes it. */
export class ScriptedPinentry {
  private constructor(
    private readonly dir: string,
    private readonly passphrase: string,
  ) {}

  /** One that gives this passphrase, until told otherwise. */
  static async create(passphrase: string): Promise<ScriptedPinentry> {
    const dir = await makeTempDir();
    await writeScript(dir, 'pinentry', PROGRAM);
    await runOk('mkfifo', [join(dir, 'asked'), join(dir, 'go')]);
    const pinentry = new ScriptedPinentry(dir, passphrase);
    await pinentry.gives(passphrase);
    await pinentry.confirms('ok');
    await pinentry.isOf('curses');
    return pinentry;
  }

  /** Where it is. */
  get program(): string {
    return join(this.dir, 'pinentry');
  }

  /** For gpg-agent.conf: this program, asked every time, for keys whose protection takes no time. */
  get agentConf(): string {
    return `pinentry-program ${this.program}\ndefault-cache-ttl 0\nmax-cache-ttl 0\ns2k-count 65536\n`;
  }

  /** The person types this. */
  gives(passphrase: string): Promise<void> {
    return this.#behave(`echo 'D ${passphrase}'; echo OK`);
  }

  /** The person presses Cancel. */
  cancels(): Promise<void> {
    return this.#behave(`echo 'ERR 83886179 Operation cancelled <Pinentry>'`);
  }

  /** The person does not come back in time. */
  timesOut(): Promise<void> {
    return this.#behave(`echo 'ERR 83886142 Timeout <Pinentry>'`);
  }

  /** The person thinks: from `asked()` until `goOn()`, then types the passphrase. */
  waits(): Promise<void> {
    return this.#behave(
      `echo asked > "$dir/asked"; read -r _ < "$dir/go"; echo 'D ${this.passphrase}'; echo OK`,
    );
  }

  /** Asked whether something may be done, the person presses this; `waits` as for a passphrase, then OK. */
  confirms(button: keyof typeof BUTTONS): Promise<void> {
    return writeFile(join(this.dir, 'confirmation'), BUTTONS[button]);
  }

  /** It says that it is of this flavour; of some the third button can be believed. */
  isOf(flavour: string): Promise<void> {
    return writeFile(join(this.dir, 'flavour'), `D ${flavour}\n`);
  }

  /** The questions that were asked since the last call, as they stand in SETDESC. */
  async questions(): Promise<string[]> {
    const path = join(this.dir, 'questions');
    const text = await readFile(path, 'utf8').catch(() => '');
    await rm(path, { force: true });
    return text.split('\n').filter(Boolean);
  }

  /** Resolves when a waiting person has been asked. */
  async asked(): Promise<void> {
    await readFile(join(this.dir, 'asked'));
  }

  /** Lets a waiting person go on. */
  goOn(): Promise<void> {
    return writeFile(join(this.dir, 'go'), '\n');
  }

  remove(): Promise<void> {
    return rm(this.dir, { recursive: true, force: true });
  }

  #behave(script: string): Promise<void> {
    return writeFile(join(this.dir, 'behaviour'), script);
  }
}
