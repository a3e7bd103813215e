import { type Frame, SIZE } from './recording.ts';

const ESCAPE = '\x1b';
const FONT_SIZE = 14;
/** Of a character; the fonts below are all as wide as this, or nearly so. */
const CELL = { width: 8.43, height: 19 };
const PADDING = 16;
const TITLE_HEIGHT = 22;

/** Codes of styles, and how to tell them from the text around them. */
const CODES = new RegExp(`^${ESCAPE}\\[([\\d;]*)m$`);
const PIECES = new RegExp(`(${ESCAPE}\\[[\\d;]*m)`);

/** Classes for the codes of styles that the command uses; any other code is an error, not a guess. */
const CLASSES: ReadonlyMap<string, string> = new Map([
  ['1', 'b'],
  ['2', 'd'],
  ['31', 'r'],
  ['32', 'g'],
  ['33', 'y'],
]);
/** Codes that end styles: all of them, or bold and dim, or the colour; the background's is never another. */
const ENDS: ReadonlyMap<string, RegExp> = new Map([
  ['0', /./g],
  ['', /./g],
  ['22', /[bd]/g],
  ['39', /[rgy]/g],
  ['49', /(?!)/],
]);

const STYLE =
  `text{font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;` +
  'fill:#e6edf3;white-space:pre}.b{font-weight:bold}.d{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#3fb950}.y{fill:#d29922}';

/** A row of the screen, from when to when it is the same. */
interface Span {
  row: number;
  content: string;
  from: number;
  to: number;
}

/**
 * An animated image of a recording, without scripts: each row is a text that is shown for its time. Where nothing
 * moves, it is the last screen.
 */
export function renderSvg(frames: readonly Frame[]): string {
  const total = frames.reduce((sum, { ms }) => sum + ms, 0);
  const width = Math.ceil(SIZE.columns * CELL.width + 2 * PADDING);
  const height = SIZE.rows * CELL.height + 2 * PADDING + TITLE_HEIGHT;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="A terminal: git can't sign in a container, with gpg-bridge it can">`,
    `<style>${STYLE}</style>`,
    `<rect width="${width}" height="${height}" rx="8" fill="#0d1117"><animate id="t" attributeName="rx" to="8" dur="${seconds(total)}" begin="0s;t.end"/></rect>`,
    ...['#ff5f57', '#febc2e', '#28c840'].map(
      (fill, index) => `<circle cx="${PADDING + 6 + index * 20}" cy="${PADDING + 2}" r="6" fill="${fill}"/>`,
    ),
    ...spans(frames).map((span) => renderSpan(span, total)),
    '</svg>',
    '',
  ].join('\n');
}

/** The texts of the last screen, row by row, as they stand in such an image. */
export function lastScreenOf(svg: string): string[] {
  const rows: string[] = [];
  for (const [, y, content] of svg.matchAll(/<text x="\d+" y="(\d+)">(.*?)<\/text>/g)) {
    rows[(Number(y) - baseline(0)) / CELL.height] = plain(content!);
  }
  return Array.from(rows, (row) => row ?? '');
}

function spans(frames: readonly Frame[]): Span[] {
  const done: Span[] = [];
  let open: Span[] = [];
  let now = 0;
  for (const { screen, ms } of frames) {
    open = styledRows(screen).flatMap((content, row): Span[] => {
      if (content === '') return [];
      const before = open.find((span) => span.row === row && span.content === content);
      const span = before ?? { row, content, from: now, to: now };
      if (!before) done.push(span);
      span.to = now + ms;
      return [span];
    });
    now += ms;
  }
  return done;
}

function renderSpan({ row, content, from, to }: Span, total: number): string {
  const place = `x="${PADDING}" y="${baseline(row)}"`;
  const set = (value: string, begin: number, ms: number) =>
    `<set attributeName="visibility" to="${value}" begin="t.begin+${seconds(begin)}" dur="${seconds(ms)}"/>`;
  if (to < total) {
    return `<text ${place} visibility="hidden">${content}${set('visible', from, to - from)}</text>`;
  }
  return `<text ${place}>${content}${from === 0 ? '' : set('hidden', 0, from)}</text>`;
}

function baseline(row: number): number {
  return PADDING + TITLE_HEIGHT + row * CELL.height + FONT_SIZE;
}

function seconds(ms: number): string {
  return `${Number((ms / 1000).toFixed(2))}s`;
}

/** The rows of a screen with their codes as spans of classes; a style goes on in the next row. */
function styledRows(screen: string): string[] {
  let classes = '';
  const piece = (text: string): string => {
    const codes = CODES.exec(text)?.[1];
    if (codes === undefined) return styledText(text, classes);
    for (const code of codes.split(';')) {
      const end = ENDS.get(code);
      const begun = CLASSES.get(code);
      if (end) classes = classes.replace(end, '');
      else if (begun) classes += begun;
      else throw new Error(`no class for the style ${code}`);
    }
    return '';
  };
  return screen.split('\n').map((row) => row.split(PIECES).map(piece).join('').trimEnd());
}

function styledText(text: string, classes: string): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return classes === '' || text === ''
    ? escaped
    : `<tspan class="${[...classes].join(' ')}">${escaped}</tspan>`;
}

function plain(content: string): string {
  return content
    .replace(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&amp;', '&');
}
