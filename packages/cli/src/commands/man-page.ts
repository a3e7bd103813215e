import { EXIT_STATUSES, TARGET_KINDS, usageLine, verbUsages } from './help.ts';
import {
  COMMANDS,
  COMMON_OPTIONS,
  type CommandName,
  type CommandSpec,
  type OptionSpec,
  SHORT,
} from './specs.ts';

/** The manual page `gpg-bridge(1)`, out of the words that `--help` prints. */
export function manPage(version: string): string {
  const commands = Object.entries<CommandSpec>(COMMANDS);
  return [
    `.TH GPG\\-BRIDGE 1 "" "gpg\\-bridge ${roff(version)}" "User Commands"`,
    '.SH NAME',
    'gpg\\-bridge \\- use the GPG and SSH keys of this machine somewhere else',
    '.SH SYNOPSIS',
    ...commands.flatMap(([name]) => ['.br', roff(usageLine(name as CommandName))]),
    '.SH TARGETS',
    ...TARGET_KINDS.flatMap(([target, what]) => ['.TP', bold(target), roff(what)]),
    '.SH COMMANDS',
    ...commands.flatMap(([name, spec]) => commandSection(name, spec)),
    '.SH OPTIONS OF EVERY COMMAND',
    ...optionEntries(COMMON_OPTIONS),
    '.SH EXIT STATUS',
    ...EXIT_STATUSES.flatMap(([status, what]) => ['.TP', bold(String(status)), roff(what)]),
    '.SH SEE ALSO',
    '.BR gpg (1),',
    '.BR gpg-agent (1),',
    '.BR ssh-agent (1),',
    '.BR git-commit (1)',
    '',
  ].join('\n');
}

function commandSection(name: string, spec: CommandSpec): string[] {
  return [
    `.SS gpg\\-bridge ${roff(name)}`,
    `${roff(capital(spec.summary))}.`,
    ...verbUsages(name as CommandName).flatMap(([usage, what]) => ['.TP', bold(usage), roff(what)]),
    ...(spec.details ? ['.PP', ...spec.details.split('\n').map(roff)] : []),
    ...optionEntries(spec.options),
    ...spec.examples.flatMap(([command, what]) => [
      '.PP',
      `${roff(capital(what))}:`,
      '.RS',
      '.nf',
      roff(command),
      '.fi',
      '.RE',
    ]),
  ];
}

function optionEntries(options: Readonly<Record<string, OptionSpec>>): string[] {
  return Object.entries(options)
    .filter(([, { internal }]) => !internal)
    .flatMap(([name, { value, help }]) => {
      const short = SHORT[name] ? `${bold(`-${SHORT[name]}`)}, ` : '';
      return ['.TP', `${short}${bold(`--${name}`)}${value ? ` \\fI${roff(value)}\\fR` : ''}`, roff(help)];
    });
}

function bold(text: string): string {
  return `\\fB${roff(text)}\\fR`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A line as it is: hyphens that can be copied, and nothing at its start that roff would obey. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/, '\\&');
}
