type Stream = Pick<NodeJS.WriteStream, 'isTTY'>;

/** Whether colours and movement are wanted there: on a terminal, unless NO_COLOR says otherwise. */
export function isDecorated(stream: Stream, env: NodeJS.ProcessEnv = process.env): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
}

/** Text styles for a stream; they leave the text alone where nothing is decorated. */
export function styles(stream: Stream) {
  const on = isDecorated(stream);
  const style = (code: number) => (text: string) => (on ? `\x1b[${code}m${text}\x1b[0m` : text);
  return { bold: style(1), dim: style(2), green: style(32), yellow: style(33), red: style(31) };
}

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/** A line on standard error that says what is being waited for; on a terminal only. */
export class Spinner {
  #timer: NodeJS.Timeout | undefined;
  #text = '';
  #frame = 0;

  /** Shows what is going on now. */
  show = (text: string): void => {
    if (!isDecorated(process.stderr)) return;
    this.#text = text;
    this.#timer ??= setInterval(() => this.#draw(), 100).unref();
    this.#draw();
  };

  /** Takes the line away. */
  stop(): void {
    if (!this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    process.stderr.write('\r\x1b[K');
  }

  #draw(): void {
    this.#frame = (this.#frame + 1) % FRAMES.length;
    process.stderr.write(`\r\x1b[K${FRAMES[this.#frame]} ${this.#text}…`);
  }
}
