import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import type { BridgeOptions } from '../bridge-options.ts';
import type { BridgeInfo } from '../manager/types.ts';
import { operandWords } from '../targets/operand-words.ts';
import { exportLines } from '../targets/shell-quote.ts';
import { stylesIf } from '../terminal/style.ts';

/** How many keys can be used there, and how to make them fewer. */
function describeOffers({ offers: { gpg, ssh }, sockets }: BridgeInfo): string {
  const ofSocket = (wanted: string, count: number | null) =>
    sockets.some(({ type }) => type === wanted) ? count : null;
  const kinds = [
    ['GPG', ofSocket('gpg-agent', gpg), '--gpg-key'],
    ['SSH', ofSocket('ssh-agent', ssh), '--ssh-key'],
  ] as const;
  const counts = kinds.flatMap(([kind, count]) =>
    count === null ? [] : [`${count} ${kind} ${count === 1 ? 'key' : 'keys'}`],
  );
  const options = kinds.flatMap(([, count, option]) => (count !== null && count > 1 ? [option] : []));
  return counts.join(', ') + (options.length > 0 ? `; offer fewer with ${options.join(' and ')}` : '');
}

const NO_KEY =
  "this machine has no private GPG key to sign with; make one: gpg --quick-gen-key 'Your Name <you@example.org>'";

const NO_VALID_KEY =
  'no GPG key of this machine can sign now, since they have expired or are revoked; what to do: gpg-bridge doctor';

/** How a bridge is told of. */
interface Telling {
  json: boolean;
  /** Whether a terminal shows it, with colours. */
  isDecorated: boolean;
}

/** What is printed of a bridge. */
export function printedBridge(
  info: BridgeInfo,
  options: BridgeOptions,
  { json, isDecorated }: Telling,
): string {
  const { shell: _shell, grantText: _text, ...document } = info;
  return `${json ? jsonLine(document) : describeBridge(info, options, isDecorated).join('\n')}\n`;
}

/** The exit status of an `up` that has this bridge: what a new one lacks is a warning. */
export function statusOf({ result, problems }: BridgeInfo): number {
  return result !== 'new' && problems.length > 0 ? 1 : 0;
}

/** A bridge in words for a person: where its sockets are, and what to try next. */
function describeBridge(told: BridgeInfo, options: BridgeOptions, isDecorated: boolean): string[] {
  const info = printableValue(told);
  const { bold, dim, green, yellow } = stylesIf(isDecorated);
  const isWhole = info.problems.length === 0;
  const works = isWhole ? 'works' : 'works in part';
  const changed = isWhole ? 'was changed' : `was changed, and ${works}`;
  const how = { new: 'is up', running: `was up already, and ${works}`, changed }[info.result];
  const lines = [
    `${isWhole ? green('✓') : yellow('!')} The bridge to ${bold(info.target)} ${how} ${dim(`(${info.runtime}, pid ${info.pid})`)}`,
  ];
  lines.push(`  ${info.grantText}`);
  if (info.where) lines.push(`  at   ${info.where}`);
  for (const { type, path } of info.sockets) lines.push(`  ${type.replace('-agent', '').padEnd(4)} ${path}`);
  const offers = describeOffers(info);
  if (offers) lines.push(`  keys ${offers}`);
  if (info.offers.gpg === 0) lines.push(`${yellow('!')} ${NO_KEY}`);
  else if (info.offers.canSign === false) lines.push(`${yellow('!')} ${NO_VALID_KEY}`);
  for (const { option, from, to } of info.changes) lines.push(`  ${option}: ${from} → ${to}`);
  for (const note of info.notes) lines.push(`  ${note}`);
  for (const text of info.mended) lines.push(`${yellow('!')} ${text}`);
  for (const text of new Set([...info.warnings, ...info.problems])) lines.push(`${yellow('!')} ${text}`);
  if (info.result !== 'new') return lines;
  const words = operandWords(info.target, options);
  const gpg = info.sockets.some(({ type }) => type === 'gpg-agent');
  const [example, test] = gpg
    ? ['git commit -S', "sh -c 'echo hello | gpg --clear-sign'"]
    : ['git push', 'ssh-add -l'];
  lines.push(
    '',
    'Use it:',
    `  gpg-bridge shell ${words}`,
    `  gpg-bridge exec ${words} -- ${example}`,
    `  gpg-bridge exec ${words} -- ${test}`,
  );
  if (gpg)
    lines.push(dim('  (gpg -K shows sec# there, and that is right: the secret half stays on the host)'));
  if (info.shell || Object.keys(info.variables).length > 0) {
    lines.push('', 'Or in any other shell there:');
    if (info.shell) lines.push(`  ${info.shell}`);
    lines.push(...exportLines(info.variables).map((line) => `  ${line}`));
  }
  lines.push('', dim(`End it with: gpg-bridge down ${words}`));
  return lines;
}
