import { BridgeError } from '@gpg-bridge/core/errors';
import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import { nearest } from '@gpg-bridge/core/text/nearest';
import { approve, type Rule, readRules, ruleName } from '../auto/rules.ts';
import { runningPid } from '../auto/runner.ts';
import { selectorWords } from '../auto/selector.ts';
import { readWaiting, type WaitingContainer } from '../auto/waiting.ts';
import { bridgeWords } from '../bridge-options.ts';
import { pasteable } from '../targets/shell-quote.ts';
import { shortImage } from '../terminal/format.ts';
import { styles } from '../terminal/style.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** `auto list`: the rules, and what waits for a person. */
export async function listRules({ flags }: ParsedCommand): Promise<number> {
  const rules = readRules();
  const waiting = readWaiting(rules);
  const pid = await runningPid();
  if (flags.json) {
    const listed = rules.map((rule) => ({ rule: ruleName(rule), ...rule }));
    process.stdout.write(
      `${jsonLine({ rules: listed, waiting, running: pid === undefined ? null : { pid } })}\n`,
    );
    return 0;
  }
  const { dim, yellow } = styles(process.stdout);
  const lines =
    rules.length === 0 ? ['There are no rules. Add one with `gpg-bridge auto add`.'] : rules.map(describe);
  if (waiting.length > 0) {
    const count = waiting.length === 1 ? '1 container waits' : `${waiting.length} containers wait`;
    lines.push('', yellow(`${count} for you: gpg-bridge auto approve`));
  }
  const watching =
    pid === undefined ? 'Nothing watches the engines: gpg-bridge auto install' : `Watched by pid ${pid}.`;
  lines.push('', dim(watching));
  process.stdout.write(`${lines.join('\n')}\n`);
  return 0;
}

function describe(rule: Rule): string {
  const { bold, dim } = styles(process.stdout);
  const { images, directories } = rule.approved;
  const counted = (count: number, one: string, many: string) =>
    count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
  const approved = [
    ...counted(images.length, 'image', 'images'),
    ...counted(directories.length, 'directory', 'directories'),
  ];
  const trusted = rule.trust
    ? 'trusts every image'
    : approved.length > 0
      ? `${approved.join(', ')} approved`
      : 'nothing approved yet';
  const words = [bold(pasteable(selectorWords(rule.selector))), pasteable(bridgeWords(rule.options))];
  return `${words.filter(Boolean).join(' ')}  ${dim(`(${trusted})`)}`;
}

/** `auto approve`: shows what waits, or lets it through. */
export async function approveWaiting({ operands, flags }: ParsedCommand): Promise<number> {
  if (operands.length > 0 && flags.all) throw usage('auto', 'approve takes names or --all, not both');
  const rules = readRules();
  const waiting = readWaiting(rules);
  const chosen = flags.all ? waiting : chooseByName(waiting, operands);
  if (chosen.length > 0) await approve(chosen);
  const left = readWaiting(readRules());
  if (flags.json) process.stdout.write(`${jsonLine({ approved: chosen, waiting: left })}\n`);
  else
    process.stdout.write(
      `${[...approvedLines(chosen), ...waitingLines(left, chosen.length > 0)].join('\n')}\n`,
    );
  return 0;
}

function fullName({ engine, container }: WaitingContainer): string {
  return engine === 'docker' ? container : `${engine}:${container}`;
}

function chooseByName(waiting: readonly WaitingContainer[], names: readonly string[]): WaitingContainer[] {
  return [...new Set(names)].flatMap((name) => {
    const found = waiting.filter((each) => fullName(each) === name || each.container === name);
    if (found.length > 0) return found;
    const meant = nearest(name, waiting.map(fullName));
    throw new BridgeError('NOTHING_WAITS', {
      what: `nothing was approved`,
      why: `no container ${JSON.stringify(name)} waits`,
      fix: `${meant ? `Did you mean ${meant}? ` : ''}See \`gpg-bridge auto approve\` for those that do.`,
    });
  });
}

function originLines(waiting: WaitingContainer): string[] {
  const { rule, image, imageName, directory } = printableValue(waiting);
  return [
    `  rule       ${rule}`,
    `  image      ${[imageName, `(${shortImage(image)})`].filter(Boolean).join(' ')}`,
    ...(directory === undefined ? [] : [`  directory  ${directory}`]),
  ];
}

function approvedLines(chosen: readonly WaitingContainer[]): string[] {
  const { green } = styles(process.stdout);
  return chosen.flatMap((each) => [
    `${green('✓')} Approved: ${printableValue(fullName(each))}`,
    ...originLines(each),
  ]);
}

function waitingLines(left: readonly WaitingContainer[], isMore: boolean): string[] {
  const { bold, dim } = styles(process.stdout);
  if (left.length === 0) return isMore ? [] : ['Nothing waits for you.'];
  return [
    ...(isMore ? ['', 'Still waiting:'] : ['These get a bridge once you approve where they come from:']),
    ...left.flatMap((each) => [bold(printableValue(fullName(each))), ...originLines(each)]),
    '',
    dim(`Approve with: gpg-bridge auto approve ${pasteable([fullName(left[0]!)])}, or --all`),
  ];
}

/** The error for a rule that is not there. */
export function unknownRule(name: string): BridgeError {
  const meant = nearest(name, readRules().map(ruleName));
  return new BridgeError('RULE_UNKNOWN', {
    what: `there is no rule ${JSON.stringify(name)}`,
    why: 'none was added with these words',
    fix: `${meant ? `Did you mean ${meant}? ` : ''}See \`gpg-bridge auto list\`.`,
  });
}
