/** A Markdown table; the first column is text, the others are numbers. */
export function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

/** Microseconds, with as many digits as mean something. */
export function us(value) {
  return value === undefined ? '' : value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString('en');
}

/** Microseconds as milliseconds. */
export function ms(value) {
  return value < 10_000 ? (value / 1000).toFixed(2) : (value / 1000).toFixed(value < 100_000 ? 1 : 0);
}

/** A ratio with two digits. */
export function ratio(value) {
  return value.toFixed(2);
}
