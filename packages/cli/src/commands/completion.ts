import { usage } from './parse.ts';
import { COMMANDS, COMMON_OPTIONS, type CommandSpec, type ParsedCommand } from './specs.ts';

/** Prints a shell's completion script. */
export async function run({ operands: [shell] }: ParsedCommand): Promise<number> {
  const script = shell === undefined || !Object.hasOwn(SHELLS, shell) ? undefined : SHELLS[shell];
  if (!script) throw usage('completion', `it takes one of ${Object.keys(SHELLS).join(', ')}`);
  process.stdout.write(script());
  return 0;
}

const SHELLS: Readonly<Record<string, () => string>> = { bash, zsh, fish };

interface Option {
  name: string;
  help: string;
  value: boolean;
  choices: readonly string[];
}

/** Every command with the options that may follow it. */
function vocabulary(): { name: string; summary: string; options: Option[] }[] {
  return Object.entries<CommandSpec>(COMMANDS).map(([name, { summary, options }]) => ({
    name,
    summary,
    options: Object.entries({ ...options, ...COMMON_OPTIONS })
      .filter(([, option]) => !option.internal)
      .map(([option, { help, value, choices = [] }]) => ({
        name: `--${option}`,
        help,
        value: value !== undefined,
        choices,
      })),
  }));
}

/** What completes an operand: running bridges or containers for a TARGET, else the words of the usage line. */
function operandWords({ operands = '' }: CommandSpec, name: string): string {
  if (!operands.includes('TARGET')) return operands.replaceAll(' | ', ' ');
  return name === 'up' ? '$(_gpg_bridge_containers)' : '$(_gpg_bridge_targets)';
}

/** Options that take a value; after one of them neither options nor operands are offered. */
function valueCases(): string[] {
  const options = new Map(vocabulary().flatMap((command) => command.options.map((o) => [o.name, o])));
  return [...options.values()]
    .filter(({ value }) => value)
    .map(({ name, choices }) => `    ${name}) words="${choices.join(' ')}" ;;`);
}

function bash(): string {
  const commands = vocabulary();
  const operandCases = Object.entries<CommandSpec>(COMMANDS).map(
    ([name, spec]) => `      ${name}) words="${operandWords(spec, name)}" ;;`,
  );
  const optionCases = commands.map(
    ({ name, options }) => `      ${name}) words="${options.map((o) => o.name).join(' ')}" ;;`,
  );
  return `_gpg_bridge_containers() { docker ps --format '{{.Names}}' 2>/dev/null; }
_gpg_bridge_targets() {
  gpg-bridge status --json 2>/dev/null | tr '{' '\\n' | sed -n 's/^"target":"\\([^"]*\\)".*/\\1/p'
}
_gpg_bridge() {
  local line="\${COMP_LINE:0:COMP_POINT}" command="\${COMP_WORDS[1]}" words="" word
  word="\${line##* }" # whole: bash itself takes \`local:/x\` for several words
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
${valueCases().join('\n')}
    *) if [ "$COMP_CWORD" -eq 1 ]; then words="${commands.map(({ name }) => name).join(' ')}"
    elif [[ "$word" == -* ]]; then case "$command" in
${optionCases.join('\n')}
    esac; else case "$command" in
${operandCases.join('\n')}
    esac; fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ "$word" == *:* ]] && COMPREPLY=("\${COMPREPLY[@]#"\${word%"\${word##*:}"}"}")
  return 0
}
complete -F _gpg_bridge gpg-bridge
`;
}

function zsh(): string {
  return `#compdef gpg-bridge
autoload -U +X bashcompinit && bashcompinit
${bash()}`;
}

function fish(): string {
  const lines = vocabulary().flatMap(({ name, summary, options }) => [
    `complete -c gpg-bridge -n __fish_use_subcommand -f -a ${name} -d ${quote(summary)}`,
    ...options.map(
      (option) =>
        `complete -c gpg-bridge -n '__fish_seen_subcommand_from ${name}' -l ${option.name.slice(2)} -d ${quote(option.help)}`,
    ),
  ]);
  return `${lines.join('\n')}\n`;
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
