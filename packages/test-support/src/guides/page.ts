/** A command of a page, and the output that the page shows below it. */
export interface ShownCommand {
  kind: 'command';
  command: string;
  output: string;
}

/** A file whose content a page shows; its path follows the language in the opening fence. */
export interface ShownFile {
  kind: 'file';
  path: string;
  text: string;
}

/** What a person does who follows a page, in order. */
export type Step = ShownCommand | ShownFile;

type Part = { text: string } | Step;

const FENCE = /^( *)```(\w+)?(?: (\S+))?$/;
const PROMPT = '$ ';
const CONTINUATION = '> ';

/**
 * A page in Markdown whose `console` blocks are commands (`$ `, further lines `> `) with their output, and whose
 * other blocks with a path in the fence (```yaml compose.yaml) are files. It can be written again with other outputs.
 */
export class GuidePage {
  readonly #parts: Part[];

  constructor(text: string) {
    this.#parts = parse(text.split('\n'));
  }

  get steps(): Step[] {
    return this.#parts.filter((part): part is Step => 'kind' in part);
  }

  /** The page as text, with the outputs that its steps have now. */
  toString(): string {
    return this.#parts.map(render).join('\n');
  }
}

function parse(lines: readonly string[]): Part[] {
  const parts: Part[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    const [, indent, language, path] = FENCE.exec(line) ?? [];
    parts.push({ text: line });
    if (indent === undefined) continue;
    const end = lines.indexOf(`${indent}\`\`\``, at + 1);
    if (end < 0) throw new Error(`the block that begins with ${line} has no end`);
    const block = lines.slice(at + 1, end);
    if (language === 'console') parts.push(...commandsOf(block));
    else if (path) parts.push({ kind: 'file', path, text: `${block.join('\n')}\n` });
    else parts.push(...block.map((text) => ({ text })));
    parts.push({ text: lines[end]! });
    at = end;
  }
  return parts;
}

function commandsOf(lines: readonly string[]): ShownCommand[] {
  const commands: ShownCommand[] = [];
  let isCommand = false;
  for (const line of lines) {
    const last = commands.at(-1);
    if (line.startsWith(PROMPT)) {
      commands.push({ kind: 'command', command: line.slice(PROMPT.length), output: '' });
      isCommand = true;
    } else if (!last) throw new Error(`a console block begins with ${line}, which is no command`);
    else if (isCommand && line.startsWith(CONTINUATION))
      last.command += `\n${line.slice(CONTINUATION.length)}`;
    else {
      last.output += `${line}\n`;
      isCommand = false;
    }
  }
  return commands;
}

function render(part: Part): string {
  if ('text' in part && !('kind' in part)) return part.text;
  if (part.kind === 'file') return part.text.replace(/\n$/, '');
  const command = `${PROMPT}${part.command.replaceAll('\n', `\n${CONTINUATION}`)}`;
  return part.output === '' ? command : `${command}\n${part.output.replace(/\n$/, '')}`;
}
