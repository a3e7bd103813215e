import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import { type Diagnosis, diagnoseHost, diagnoseTarget } from '../doctor/diagnose.ts';
import { type CheckStatus, count, type Finding, type Side } from '../doctor/finding.ts';
import { masked } from '../doctor/private-words.ts';
import { Spinner, styles } from '../terminal/style.ts';
import { VERSION } from '../version.ts';
import { namedBridge } from './bridge-operand.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** The status when something does not work. */
const FAILED_STATUS = 1;

const MARKS: Readonly<Record<CheckStatus, string>> = { ok: '✓', warn: '!', fail: '✗' };
const SIDES: readonly Side[] = ['host', 'line', 'target', 'git'];

/** Checks every hop, and says what to type where something is not right. */
export async function run(command: ParsedCommand): Promise<number> {
  const { sign, json, report } = command.flags;
  const named = namedBridge('doctor', command);
  if (!named && sign) throw usage('doctor', '--sign needs a target to sign in');
  if (json && report) throw usage('doctor', '--json and --report exclude each other');
  const spinner = new Spinner();
  let diagnosis: Diagnosis;
  try {
    diagnosis = named
      ? await diagnoseTarget({ ...named, sign: sign === true, progress: spinner.show })
      : await diagnoseHost();
  } finally {
    spinner.stop();
  }
  const { findings } = diagnosis;
  const ok = findings.every(({ status }) => status !== 'fail');
  if (json) {
    const checks = findings.map(({ id, status, detail, fix }) => ({ id, status, detail, fix }));
    process.stdout.write(`${jsonLine({ ok, checks })}\n`);
  } else {
    const lines = report ? reportLines(diagnosis) : shownLines(printableValue(findings), named?.name);
    process.stdout.write(`${lines.join('\n')}\n`);
  }
  return ok ? 0 : FAILED_STATUS;
}

/** What a person reads: by hop, each finding with its mark, and below it what to type. */
function shownLines(findings: readonly Finding[], target: string | undefined): string[] {
  const lines = SIDES.flatMap((side) => {
    const here = findings.filter((finding) => finding.side === side);
    return here.length === 0 ? [] : [heading(side, target), ...here.flatMap(findingLines), ''];
  });
  return [...lines, verdict(findings)];
}

function heading(side: Side, target: string | undefined): string {
  const { bold } = styles(process.stdout);
  const name = printableValue(target ?? '');
  const headings: Record<Side, string> = {
    host: 'This machine',
    line: target === undefined ? 'Bridges' : `The line to ${name}`,
    target: `In ${name}`,
    git: `git in ${name}`,
  };
  return bold(headings[side]);
}

function findingLines({ id, status, detail, fix }: Finding): string[] {
  const { green, yellow, red, dim } = styles(process.stdout);
  const colour = { ok: green, warn: yellow, fail: red }[status];
  return [
    `  ${colour(MARKS[status])} ${id.replace(/^(?:host|line|target|git|bridge|grant)[-:]/, '').padEnd(14)} ${detail}`,
    ...(fix === null ? [] : [`      ${dim('→')} ${fix}`]),
  ];
}

function verdict(findings: readonly Finding[]): string {
  const { green, yellow, red } = styles(process.stdout);
  const [fails, warns] = (['fail', 'warn'] as const).map(
    (wanted) => findings.filter(({ status }) => status === wanted).length,
  ) as [number, number];
  const also = warns === 0 ? '' : ` and ${count(warns, 'warning')}`;
  if (fails > 0)
    return red(
      `${count(fails, 'problem')}${also}: type what stands behind the arrows, and run doctor again.`,
    );
  if (warns > 0) return yellow(`Nothing fails; ${count(warns, 'warning')}.`);
  return green('Everything is as it should be.');
}

/** What can be shown to anybody: versions and findings, without names, addresses, keys and places. */
function reportLines({ facts, findings }: Diagnosis): string[] {
  const { host, target, line } = facts;
  const versions = [
    `gpg-bridge ${VERSION}, Node ${process.version}, ${process.platform} ${process.arch}`,
    `GnuPG here: ${host.gpg.found?.version ?? 'none'}, gpg-agent ${host.agent.found?.version ?? 'none'}`,
    ...(target
      ? [
          `there: ${target.system}, ${line?.found?.runtime ?? 'no runtime'}, GnuPG ${target.gpgVersion ?? 'none'}, git ${target.git?.version ?? 'none'}`,
        ]
      : []),
  ];
  const lines = findings.flatMap(({ id, status, detail, fix }) => [
    `${status.padEnd(4)} ${id}: ${detail}`,
    ...(fix === null ? [] : [`     fix: ${fix}`]),
  ]);
  return printableValue([...versions, '', ...lines].map((text) => masked(text, facts)));
}
