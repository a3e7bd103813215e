/** Measures of the drawing, in pixels. */
const LABEL = 290;
const BARS = 520;
const ROW = 26;
const TOP = 64;
const WIDTH = LABEL + BARS + 130;

const COLOURS = { ours: '#2563a8', other: '#9aa4ae', tail: '#00000030' };
const STEPS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

/** Bars of the round trip of every path, with a line to the 99th percentile; one scale, from zero. */
export function plot(results) {
  const rows = Object.values(results['round-trips']?.rows ?? {});
  if (rows.length === 0) return drawing(TOP, [text(10, 30, 'The round trips were not measured.')]);
  // The tail of a disturbed path may be very long: it is cut at twice the slowest median.
  const longest = Math.max(...rows.map(({ roundTrip }) => roundTrip.median)) * 2;
  const x = (us) => LABEL + (Math.min(us, longest) / longest) * BARS;
  const bottom = TOP + rows.length * ROW;
  const step = STEPS.find((candidate) => longest / candidate <= 8) ?? 10_000;
  const grid = [];
  for (let us = 0; us <= longest; us += step) {
    grid.push(`<line x1="${x(us)}" y1="${TOP - 6}" x2="${x(us)}" y2="${bottom}" stroke="#d8dde2"/>`);
    grid.push(text(x(us), TOP - 12, `${us}`, 'middle'));
  }
  const bars = rows.flatMap(({ label, ours, roundTrip: { median, p99 } }, index) => {
    const y = TOP + index * ROW;
    const middle = y + ROW / 2;
    return [
      text(LABEL - 8, middle + 4, label.replaceAll('`', ''), 'end'),
      `<rect x="${LABEL}" y="${y + 5}" width="${(x(median) - LABEL).toFixed(1)}" height="${ROW - 10}" fill="${ours ? COLOURS.ours : COLOURS.other}"/>`,
      `<line x1="${x(median).toFixed(1)}" y1="${middle}" x2="${x(p99).toFixed(1)}" y2="${middle}" stroke="${COLOURS.tail}" stroke-width="3"/>`,
      text(
        x(p99) + 6,
        middle + 4,
        `${Math.round(median)} µs${p99 > longest ? ` (99 %: ${Math.round(p99)})` : ''}`,
      ),
    ];
  });
  const title = text(
    10,
    22,
    'Round trip of NOP: median (bar) and 99th percentile (line), microseconds',
    'start',
    'bold',
  );
  return drawing(bottom + 16, [title, ...grid, ...bars]);
}

function drawing(height, content) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...content,
    '</svg>',
    '',
  ].join('\n');
}

function text(x, y, words, anchor = 'start', weight = 'normal') {
  const safe = words.replace(/[&<>]/g, (character) => `&#${character.codePointAt(0)};`);
  return `<text x="${Math.round(x)}" y="${Math.round(y)}" text-anchor="${anchor}" font-weight="${weight}" fill="#1f2933">${safe}</text>`;
}
