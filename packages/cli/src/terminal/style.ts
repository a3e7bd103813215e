import { styleText } from 'node:util';
import { printable } from '@gpg-bridge/core/text/escape';

type Stream = Pick<NodeJS.WriteStream, 'isTTY'>;

/** Whether colours and movement are wanted there: on a terminal, unless NO_COLOR says otherwise. */
export function isDecorated(stream: Stream, env: NodeJS.ProcessEnv = process.env): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
}

/** Text styles for a stream; they leave the text alone where nothing is decorated. */
export function styles(stream: Stream, env: NodeJS.ProcessEnv = process.env) {
  return stylesIf(isDecorated(stream, env));
}

/** Text styles, or none. */
export function stylesIf(decorated: boolean) {
  // Newer versions of Node look at a stream by themselves, but only for standard output and without TERM.
  const style = (format: 'bold' | 'dim' | 'green' | 'yellow' | 'red') => (text: string) =>
    decorated ? styleText(format, text, { validateStream: false }) : text;
  return {
    bold: style('bold'),
    dim: style('dim'),
    green: style('green'),
    yellow: style('yellow'),
    red: style('red'),
  };
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
    this.#text = printable(text);
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
    process.stderr.write(`\r\x1b[K${spinnerLine(FRAMES[this.#frame]!, this.#text, process.stderr.columns)}`);
  }
}

/** A spinner's line, cut to a terminal's width: what is wrapped into the next line would stay there. */
export function spinnerLine(frame: string, text: string, columns = 80): string {
  return [...`${frame} ${text}`]
    .slice(0, Math.max(columns - 2, 1))
    .join('')
    .concat('…');
}
