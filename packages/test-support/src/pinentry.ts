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
    GETINFO) echo "D $$"; echo OK ;;
    BYE) echo 'OK closing connection'; exit 0 ;;
    *) echo OK ;;
  esac
done`;

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
