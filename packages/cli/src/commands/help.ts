import { COMMANDS, COMMON_OPTIONS, type CommandName, type CommandSpec, type OptionSpec } from './specs.ts';

/** How a target is written, and what it is. */
export const TARGET_KINDS: readonly (readonly [target: string, what: string])[] = [
  ['NAME, docker:NAME', 'a Docker container, by name or ID'],
  ['podman:NAME', 'a Podman container'],
  ['ssh:[USER@]HOST', 'a machine that ssh reaches'],
  ['k8s:[NS/]POD[/CTR]', 'a pod that kubectl reaches; deploy:NAME for POD: its first ready one'],
  ['wsl:DISTRO', 'a WSL distribution'],
  ['local:DIR', 'this machine, with DIR as GNUPGHOME'],
  ["--exec 'COMMAND'", 'whatever runs a command with its input and output'],
];

/** What a command's exit status says, unless its own help says more. */
export const EXIT_STATUSES: readonly (readonly [status: number, what: string])[] = [
  [0, 'it is done'],
  [1, 'it failed'],
  [2, 'the words of the command are wrong'],
  [3, 'the target was not found, or does not run'],
  [4, 'the agent of this machine is not available'],
  [5, 'the target has nothing that can run its end of the bridge'],
];

const TARGETS = `Targets:\n${TARGET_KINDS.map(([target, what]) => `  ${target.padEnd(23)}${what}`).join('\n')}`;

/** What `gpg-bridge --help` prints. */
export function generalHelp(): string {
  const commands = Object.entries<CommandSpec>(COMMANDS).map(
    ([name, { summary }]) => `  ${name.padEnd(12)}${summary}`,
  );
  return `gpg-bridge: use the GPG and SSH keys of this machine somewhere else

Usage: gpg-bridge COMMAND [OPTION…]

Commands:
${commands.join('\n')}

${TARGETS}

Start with:
  gpg-bridge demo                 see it work, with a throw-away key
  gpg-bridge shell my-container   then run \`git commit -S\` in there

\`gpg-bridge COMMAND --help\` tells more; \`gpg-bridge --version\` says which one this is.`;
}

/** What `gpg-bridge COMMAND --help` prints. */
export function commandHelp(name: CommandName): string {
  const spec: CommandSpec = COMMANDS[name];
  const examples = spec.examples.map(([command, what]) => `  ${command}\n      ${what}`);
  return [
    `gpg-bridge ${name}: ${spec.summary}`,
    `Usage: ${usageLine(name)}`,
    ...(spec.verbs ? [`Commands:\n${verbLines(name).join('\n')}`] : []),
    ...(spec.details ? [spec.details] : []),
    `Options:\n${optionLines({ ...spec.options, ...COMMON_OPTIONS })}`,
    ...(spec.operands?.includes('TARGET') ? [TARGETS] : []),
    `Examples:\n${examples.join('\n')}`,
  ].join('\n\n');
}

/** How a command is written; the options of one that runs another command stand before that. */
export function usageLine(name: CommandName): string {
  const spec: CommandSpec = COMMANDS[name];
  const operands = spec.takesCommand ? (spec.operands ?? '').replace(' ', ' [OPTION…] ') : spec.operands;
  return ['gpg-bridge', name, operands, spec.takesCommand ? '' : '[OPTION…]'].filter(Boolean).join(' ');
}

/** What a command's first word may be, and what that does: each as it is written, and in words. */
export function verbUsages(name: CommandName): [usage: string, what: string][] {
  const { verbs = {} }: CommandSpec = COMMANDS[name];
  return Object.entries(verbs).map(([verb, { operands, summary }]) => [
    [name, verb, operands].filter(Boolean).join(' '),
    summary,
  ]);
}

function verbLines(name: CommandName): string[] {
  return verbUsages(name).flatMap(([usage, what]) => [`  ${usage}`, `      ${what}`]);
}

function optionLines(options: Readonly<Record<string, OptionSpec>>): string {
  return Object.entries(options)
    .filter(([, option]) => !option.internal)
    .map(([name, { value, help }]) => `  ${`--${name}${value ? ` ${value}` : ''}`.padEnd(20)} ${help}`)
    .join('\n');
}
