import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { plainLine } from '@gpg-bridge/core/text/escape';

/** How good something is: works, is off or another's, wants the person, does not work. */
export type Tone = 'good' | 'calm' | 'attention' | 'bad';

/** One fact of a half: `GnuPG`, and where it was found. */
export interface ReportLine {
  label: string;
  value: string;
  tone?: Tone | undefined;
}

/** One of the two halves. */
export interface ReportHalf {
  title: string;
  lines: ReportLine[];
}

/** Keys, or operations: rows of cells, or what is said when there are none. */
export interface ReportTable {
  title: string;
  columns: string[];
  rows: string[][];
  empty: string;
}

/** Everything that the status page shows. */
export interface StatusReport {
  title: string;
  detail: string;
  tone: Tone;
  halves: ReportHalf[];
  tables: ReportTable[];
}

/** What the remote's half says of itself, for a page that the person's computer shows. */
export interface RemoteReport extends Pick<StatusReport, 'title' | 'detail' | 'tone'> {
  lines: ReportLine[];
  /** Newest first. */
  operations: Operation[];
}

const TONES: readonly string[] = ['good', 'calm', 'attention', 'bad'] satisfies Tone[];
const MOST_LINES = 20;
const MOST_OPERATIONS = 20;
const LONGEST_TEXT = 1_000;

/** A report as the other half sent it, which may be of another version or no half of ours: undefined if it is none. */
export function parseRemoteReport(value: unknown): RemoteReport | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { title, detail, tone, lines, operations } = value as Partial<Record<keyof RemoteReport, unknown>>;
  if (typeof title !== 'string' || !Array.isArray(lines) || !Array.isArray(operations)) return undefined;
  return {
    title: text(title),
    detail: text(detail),
    tone: toneIn(tone) ?? 'calm',
    lines: lines.slice(0, MOST_LINES).map((line: Partial<ReportLine> | null) => ({
      label: text(line?.label),
      value: text(line?.value),
      tone: toneIn(line?.tone),
    })),
    operations: operations.slice(0, MOST_OPERATIONS).map(operationIn),
  };
}

function operationIn(value: Partial<Operation> | null): Operation {
  const { command, key, outcome, errorCode, startedAt, durationMs } = value ?? {};
  return {
    command: text(command),
    outcome: text(outcome) as Operation['outcome'],
    startedAt: Number(startedAt) || 0,
    durationMs: Number(durationMs) || 0,
    ...(typeof key === 'string' ? { key: text(key) } : {}),
    ...(typeof errorCode === 'number' ? { errorCode } : {}),
  };
}

function text(value: unknown): string {
  return typeof value === 'string' ? plainLine(value).slice(0, LONGEST_TEXT) : '';
}

function toneIn(value: unknown): Tone | undefined {
  return typeof value === 'string' && TONES.includes(value) ? (value as Tone) : undefined;
}

/** The report as text to paste into a bug report, in Markdown. */
export function reportText({ title, detail, halves, tables }: StatusReport): string {
  const parts = [
    `# ${title}\n\n${detail}`,
    ...halves.map(
      (half) =>
        `## ${half.title}\n\n${half.lines.map(({ label, value }) => `- ${label}: ${value}`).join('\n')}`,
    ),
    ...tables.map((table) => {
      const rows = table.rows.map((row) => `- ${row.filter(Boolean).join(', ')}`).join('\n');
      return `## ${table.title}\n\n${rows || table.empty}`;
    }),
  ];
  return `${parts.join('\n\n')}\n`;
}
