/** Measures of the drawings, in pixels. */
const LABEL = 290;
const BARS = 520;
const ROW = 26;
const TOP = 64;
const GROUP = 30;
const WIDTH = LABEL + BARS + 130;

const COLOURS = { ours: '#2563a8', other: '#9aa4ae', tail: '#00000030' };
const STEPS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

/** The groups of the first drawing: where a commit is signed, and by which ways. `id` leads to the results. */
const COMMITS = [
  {
    title: 'On the host itself',
    bars: [{ label: 'its own agent', at: (r) => r.distance?.rows?.['0 commit']?.here }],
  },
  {
    title: 'In a container',
    bars: [
      { label: 'with private keys copied there', at: (r) => r['git-commit']?.rows?.empty?.own },
      { label: 'GPG Bridge', ours: true, at: (r) => r['git-commit']?.rows?.empty?.bridged },
    ],
  },
  {
    title: 'In a container, from a Windows host',
    bars: [
      { label: 'every answer crosses', at: (r) => r['windows-host']?.rows?.empty?.['no-ahead'] },
      { label: 'GPG Bridge', ours: true, at: (r) => r['windows-host']?.rows?.empty?.ahead },
    ],
  },
  {
    title: 'On a machine 50 ms away',
    bars: [
      { label: 'ssh -R', at: (r) => r.distance?.rows?.['25 commit']?.['ssh-R'] },
      { label: 'GPG Bridge', ours: true, at: (r) => r.distance?.rows?.['25 commit']?.bridge },
    ],
  },
];

/** Bars of what a person waits for, `git commit -S`, by where it is typed. */
export function plotCommits(results) {
  const groups = COMMITS.map(({ title, bars }) => ({
    title,
    bars: bars.flatMap((bar) => {
      const time = bar.at(results);
      return time ? [{ ...bar, ms: time.median / 1000, p99: time.p99 / 1000 }] : [];
    }),
  })).filter(({ bars }) => bars.length > 0);
  if (groups.length === 0) return drawing(TOP, [text(10, 30, 'No commits were measured.')]);
  const scale = new Scale(Math.max(...groups.flatMap(({ bars }) => bars.map(({ ms }) => ms))) * 1.1);
  let y = TOP;
  const content = groups.flatMap(({ title, bars }) => {
    const heading = text(10, y + 18, title, 'start', 'bold');
    y += GROUP;
    return [
      heading,
      ...bars.flatMap(({ label, ours, ms, p99 }) => {
        y += ROW;
        return bar(scale, { y: y - ROW, label, ours, value: ms, tail: p99, words: `${ms.toFixed(0)} ms` });
      }),
    ];
  });
  const title = text(
    10,
    22,
    'A signed commit (git commit -S): milliseconds, median (bar) and 99 % (line)',
    'start',
    'bold',
  );
  return drawing(y + 16, [title, ...scale.grid(y), ...content]);
}

/** Bars of the round trip of every path, with a line to the 99th percentile; one scale, from zero. */
export function plotRoundTrips(results) {
  const rows = Object.values(results['round-trips']?.rows ?? {});
  if (rows.length === 0) return drawing(TOP, [text(10, 30, 'The round trips were not measured.')]);
  // The tail of a disturbed path may be very long: it is cut at twice the slowest median.
  const scale = new Scale(Math.max(...rows.map(({ roundTrip }) => roundTrip.median)) * 2);
  const bars = rows.flatMap(({ label, ours, roundTrip: { median, p99 } }, index) => {
    const cut = p99 > scale.longest ? ` (99 %: ${Math.round(p99)})` : '';
    const words = `${Math.round(median)} µs${cut}`;
    return bar(scale, { y: TOP + index * ROW, label, ours, value: median, tail: p99, words });
  });
  const words = 'Round trip of NOP: median (bar) and 99th percentile (line), microseconds';
  const bottom = TOP + rows.length * ROW;
  return drawing(bottom + 16, [text(10, 22, words, 'start', 'bold'), ...scale.grid(bottom), ...bars]);
}

/** From values to places, with a grid. */
class Scale {
  constructor(longest) {
    this.longest = longest;
  }

  x(value) {
    return LABEL + (Math.min(value, this.longest) / this.longest) * BARS;
  }

  grid(bottom) {
    const step = STEPS.find((candidate) => this.longest / candidate <= 8) ?? 10_000;
    const lines = [];
    for (let value = 0; value <= this.longest; value += step) {
      const x = this.x(value).toFixed(1);
      lines.push(`<line x1="${x}" y1="${TOP - 6}" x2="${x}" y2="${bottom}" stroke="#d8dde2"/>`);
      lines.push(text(this.x(value), TOP - 12, `${value}`, 'middle'));
    }
    return lines;
  }
}

/** One bar with its name, its tail and its figure. */
function bar(scale, { y, label, ours, value, tail, words }) {
  const middle = y + ROW / 2;
  const [end, tailEnd] = [scale.x(value), scale.x(Math.max(value, tail))];
  return [
    text(LABEL - 8, middle + 4, label.replaceAll('`', ''), 'end'),
    `<rect x="${LABEL}" y="${y + 5}" width="${(end - LABEL).toFixed(1)}" height="${ROW - 10}" fill="${ours ? COLOURS.ours : COLOURS.other}"/>`,
    `<line x1="${end.toFixed(1)}" y1="${middle}" x2="${tailEnd.toFixed(1)}" y2="${middle}" stroke="${COLOURS.tail}" stroke-width="3"/>`,
    text(tailEnd + 6, middle + 4, words),
  ];
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
