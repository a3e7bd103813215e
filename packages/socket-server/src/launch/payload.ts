import { encodeConfig, type ServerConfig } from './config.ts';
import type { ProgramForm, Runtime } from './runtimes.ts';

/** Bytes of a program in one block, and in one line: what is made of them is as long as an argument may be anywhere. */
const BLOCK_BYTES = 1_024;

/**
 * What goes to a launcher's stdin before the first frame: the server's text and its configuration, or those of a
 * native program, in the form that the target can read.
 */
export function serverPayload(
  runtime: Runtime,
  config: ServerConfig,
  source: string | Buffer,
  form: ProgramForm = 'blocks',
): Buffer {
  const settings = encodeConfig(config);
  if (runtime === 'native') {
    const words = Buffer.from(settings.trimEnd().replace(/\n/g, ' ').concat('\n'));
    return Buffer.concat([PROGRAM_FORMS[form](Buffer.from(source)), words]);
  }
  const text = Buffer.from(runtime === 'node' ? source : withoutComments(String(source)));
  return Buffer.concat([Buffer.from(`${text.length} ${settings.length}\n`), text, Buffer.from(settings)]);
}

const PROGRAM_FORMS: Readonly<Record<ProgramForm, (bytes: Buffer) => Buffer>> = {
  /** The number of blocks in a line, and the blocks; zeros behind the end of a program do nothing. */
  blocks: (bytes) => {
    const count = Math.ceil(bytes.length / BLOCK_BYTES);
    return Buffer.concat([
      Buffer.from(`${count}\n`),
      bytes,
      Buffer.alloc(count * BLOCK_BYTES - bytes.length),
    ]);
  },
  /** Lines for the printf of sh, and an empty one. A space would be cut off by `read`, a minus begin an option. */
  lines: (bytes) => {
    const lines: string[] = [];
    for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
      lines.push(bytes.toString('latin1', at, at + BLOCK_BYTES).replace(/[^!-~]|[%\\-]/g, octal));
    }
    return Buffer.from(`${lines.join('\n')}\n\n`);
  },
};

function octal(character: string): string {
  return `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`;
}

/** Empty lines take the place of comments, so that the numbers of the lines stay what they are. */
function withoutComments(source: string): string {
  return source.replace(/^[ \t]*#.*$/gm, '');
}
