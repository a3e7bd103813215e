import { describe, expect, it } from 'vitest';
import { statusHtml } from './status-html.ts';
import { parseRemoteReport, reportText, type StatusReport } from './status-report.ts';

const REPORT: StatusReport = {
  title: 'GPG Bridge: ready',
  detail: 'The keys can be used.',
  tone: 'good',
  halves: [{ title: 'Remote GPG Bridge', lines: [{ label: 'Socket', value: '/run/S.gpg-agent' }] }],
  tables: [
    { title: 'Keys offered', columns: ['Key', 'State'], rows: [['Zoë <z@x>', 'expired']], empty: 'none' },
    { title: 'Last operations', columns: ['Time'], rows: [], empty: 'Nothing yet.' },
  ],
};

describe('statusHtml', () => {
  it('has no script, and lets nothing of a report become markup', () => {
    const title = '"><script>alert(1)</script>';
    const html = statusHtml({
      report: { ...REPORT, title, detail: title, tables: [{ ...REPORT.tables[0]!, rows: [[title, title]] }] },
      buttons: [{ label: title, command: 'copy' }],
      language: 'de',
      nonce: 'n',
    });
    expect(html).not.toContain('<script');
    expect(html.match(/&lt;script&gt;/g)).toHaveLength(6);
    expect(html).toContain(`content="default-src 'none'; style-src 'nonce-n'"`);
    expect(html).toContain('<html lang="de">');
  });

  it('shows what a table says when it is empty', () => {
    const html = statusHtml({ report: REPORT, buttons: [], language: 'en', nonce: 'n' });
    expect(html).toContain('<p>Nothing yet.</p>');
    expect(html).toContain('<td>Zoë &lt;z@x&gt;</td><td>expired</td>');
  });
});

describe('reportText', () => {
  it('is Markdown', () => {
    expect(reportText(REPORT)).toBe(`# GPG Bridge: ready

The keys can be used.

## Remote GPG Bridge

- Socket: /run/S.gpg-agent

## Keys offered

- Zoë <z@x>, expired

## Last operations

Nothing yet.
`);
  });
});

describe('parseRemoteReport', () => {
  it('takes what a half of ours sends', () => {
    const sent = {
      title: 'T',
      detail: 'D',
      tone: 'bad',
      lines: [{ label: 'L', value: 'V', tone: 'attention' }],
      operations: [
        { command: 'PKSIGN', key: 'K', outcome: 'error', errorCode: 11, startedAt: 1, durationMs: 2 },
      ],
    };
    expect(parseRemoteReport(sent)).toEqual(sent);
  });

  it('takes nothing else for a report, and bounds what it takes', () => {
    for (const value of [undefined, null, 'x', {}, { title: 'T' }, { title: 'T', lines: [], operations: 1 }])
      expect(parseRemoteReport(value)).toBeUndefined();
    const many = Array.from({ length: 500 }, () => null);
    const parsed = parseRemoteReport({ title: `a\nb${'x'.repeat(5_000)}`, lines: many, operations: many });
    expect(parsed?.title).toMatch(/^a\S? ?b/);
    expect(parsed?.title).toHaveLength(1_000);
    expect(parsed?.lines).toHaveLength(20);
    expect(parsed?.lines[0]).toEqual({ label: '', value: '', tone: undefined });
    expect(parsed?.operations).toHaveLength(20);
    expect(parsed?.tone).toBe('calm');
  });
});
