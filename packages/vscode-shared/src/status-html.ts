import type { ReportHalf, ReportTable, StatusReport } from './status-report.ts';

/** A button of the page: runs a command. */
export interface PageButton {
  label: string;
  command: string;
}

/** What a page is made of. */
export interface StatusPageParts {
  report: StatusReport;
  /** The first one stands out. */
  buttons: PageButton[];
  language: string;
  nonce: string;
}

/** The page: no script, one style sheet, the colours of the person's theme. */
export function statusHtml({ report, buttons, language, nonce }: StatusPageParts): string {
  const { title, detail, tone, halves, tables } = report;
  return `<!DOCTYPE html>
<html lang="${escapeHtml(language)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'">
<title>${escapeHtml(title)}</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<header class="${tone}"><h1>${escapeHtml(title)}</h1><p>${escapeHtml(capitalized(detail))}</p></header>
<nav>${buttons.map(buttonHtml).join('')}</nav>
<div class="halves">${halves.map(halfHtml).join('')}</div>
${tables.map(tableHtml).join('')}
</body>
</html>`;
}

function buttonHtml({ label, command }: PageButton): string {
  return `<a role="button" href="command:${escapeHtml(command)}">${escapeHtml(label)}</a>`;
}

function halfHtml({ title, lines }: ReportHalf): string {
  const rows = lines.map(
    ({ label, value, tone }) =>
      `<dt>${escapeHtml(label)}</dt><dd${tone ? ` class="${tone}"` : ''}>${escapeHtml(value)}</dd>`,
  );
  return `<section><h2>${escapeHtml(title)}</h2><dl>${rows.join('')}</dl></section>`;
}

function tableHtml({ title, columns, rows, empty }: ReportTable): string {
  const head = columns.map((column) => `<th scope="col">${escapeHtml(column)}</th>`).join('');
  const body = rows
    .map((row) => `<tr>${row.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('')}</tr>`)
    .join('');
  const content = rows.length
    ? `<table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`
    : `<p>${escapeHtml(empty)}</p>`;
  return `<section><h2>${escapeHtml(title)}</h2>${content}</section>`;
}

/** The message of an error begins as a part of a sentence does. */
function capitalized(sentence: string): string {
  return sentence.slice(0, 1).toUpperCase() + sentence.slice(1);
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text that can't become markup. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);
}

const STYLE = `
body { max-width: 60rem; margin: 0 auto; padding: 1.5rem; line-height: 1.5; color: var(--vscode-foreground); }
header { border-left: 0.3rem solid var(--tone); padding: 0.1rem 0 0.1rem 1rem; }
h1 { font-size: 1.5rem; font-weight: 600; margin: 0; }
h2 { font-size: 1.1rem; font-weight: 600; margin: 0 0 0.6rem; }
p { margin: 0.2rem 0; }
nav { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 1rem 0 1.5rem; }
nav a { padding: 0.25rem 0.9rem; border-radius: 2px; text-decoration: none;
  border: 1px solid var(--vscode-button-border, var(--vscode-contrastBorder, var(--vscode-widget-border)));
  background: var(--vscode-button-secondaryBackground); color: var(--vscode-button-secondaryForeground); }
nav a:first-child { background: var(--vscode-button-background); color: var(--vscode-button-foreground); }
nav a:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 2px; }
.halves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1rem;
  margin-bottom: 1.5rem; }
section { margin-bottom: 1.5rem; }
.halves section { margin: 0; padding: 1rem; border: 1px solid var(--vscode-contrastBorder, transparent);
  background: var(--vscode-textBlockQuote-background, var(--vscode-editorWidget-background)); }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0.3rem 1rem; margin: 0; }
@media (max-width: 20rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 0.4rem; } }
dt { color: var(--vscode-descriptionForeground); }
dd { margin: 0; overflow-wrap: anywhere; }
dd.bad, dd.attention { color: var(--tone); font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 1rem 0.25rem 0; overflow-wrap: anywhere;
  border-bottom: 1px solid var(--vscode-widget-border, var(--vscode-contrastBorder, rgba(128, 128, 128, 0.35))); }
th { color: var(--vscode-descriptionForeground); font-weight: 400; overflow-wrap: normal; }
.good { --tone: var(--vscode-testing-iconPassed, var(--vscode-foreground)); }
.calm { --tone: var(--vscode-descriptionForeground); }
.attention { --tone: var(--vscode-editorWarning-foreground, var(--vscode-foreground)); }
.bad { --tone: var(--vscode-errorForeground); }
`;
