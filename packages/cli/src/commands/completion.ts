import { Manager } from '../manager/manager.ts';
import { usage } from './parse.ts';
import {
  COMMANDS,
  COMMON_OPTIONS,
  type CommandName,
  type CommandSpec,
  type ParsedCommand,
  SHORT,
} from './specs.ts';

/** Prints a shell's completion script, or for such a script the targets that have a bridge. */
export async function run({ operands: [shell] }: ParsedCommand): Promise<number> {
  if (shell === 'targets') {
    const targets = new Set((await new Manager().list()).map(({ target }) => target));
    const offered = [...targets].filter((target) => PLAIN_WORD.test(target));
    process.stdout.write(offered.map((target) => `${target}\n`).join(''));
    return 0;
  }
  const script = shell === undefined || !Object.hasOwn(SHELLS, shell) ? undefined : SHELLS[shell];
  if (!script) throw usage('completion', `it takes one of ${Object.keys(SHELLS).join(', ')}`);
  process.stdout.write(script());
  return 0;
}

const SHELLS: Readonly<Record<string, () => string>> = { bash, zsh, fish };

/** A word that no shell changes or obeys. bash expands `$(…)` in the words that it is given to choose from. */
const PLAIN_WORD = /^[\w@%+=:,./-]+$/;
/** The same for the names that an engine prints, in every shell. */
const PLAIN_NAMES = "grep -xE '(podman:)?[A-Za-z0-9][A-Za-z0-9_.-]*'";

/** What prints the containers that a bridge may be brought up to, and the targets that have one, in every shell. */
const CONTAINERS = [
  `docker ps --format '{{.Names}}' 2>/dev/null | ${PLAIN_NAMES}`,
  `podman ps --format 'podman:{{.Names}}' 2>/dev/null | ${PLAIN_NAMES}`,
].join('; ');
const TARGETS = 'gpg-bridge completion targets 2>/dev/null';

/** Commands whose target need not have a bridge yet. */
const STARTING: ReadonlySet<string> = new Set<CommandName>(['up', 'exec', 'shell', 'doctor']);

interface Option {
  name: string;
  short: string | undefined;
  help: string;
  /** What it takes; undefined for a switch. */
  value: string | undefined;
  many: boolean;
  choices: readonly string[];
}

interface Command {
  name: string;
  summary: string;
  /** What stands before its operand. */
  verbs: string[];
  /** What its operand is. */
  operand: 'container' | 'target' | readonly string[];
  options: Option[];
}

/** Every command with the options that may follow it. */
function vocabulary(): Command[] {
  return Object.entries<CommandSpec>(COMMANDS).map(([name, { summary, operands = '', options }]) => ({
    name,
    summary,
    verbs: operands.match(/^[a-z]+(?= TARGET)/) ?? [],
    operand: operands.includes('TARGET')
      ? STARTING.has(name)
        ? 'container'
        : 'target'
      : operands.split(' | ').filter(Boolean),
    options: Object.entries({ ...options, ...COMMON_OPTIONS })
      .filter(([, option]) => !option.internal)
      .map(([option, { help, value, many, choices = [] }]) => ({
        name: `--${option}`,
        short: SHORT[option],
        help,
        value,
        many: many === true,
        choices,
      })),
  }));
}

function bash(): string {
  const commands = vocabulary();
  const words = ({ operand }: Command) =>
    operand === 'container'
      ? '$(_gpg_bridge_containers)'
      : operand === 'target'
        ? '$(_gpg_bridge_targets)'
        : operand.join(' ');
  const operandCases = commands.map(
    (command) => `      ${command.name}) words="${[...command.verbs, words(command)].join(' ')}" ;;`,
  );
  const optionCases = commands.map(
    ({ name, options }) => `      ${name}) words="${options.map((o) => o.name).join(' ')}" ;;`,
  );
  const values = new Map(commands.flatMap(({ options }) => options.map((o) => [o.name, o])));
  // After an option that takes a value neither options nor operands are offered.
  const valueCases = [...values.values()]
    .filter(({ value }) => value !== undefined)
    .map(({ name, choices }) => `    ${name}) words="${choices.join(' ')}" ;;`);
  return `_gpg_bridge_containers() { ${CONTAINERS}; }
_gpg_bridge_targets() { ${TARGETS}; }
_gpg_bridge() {
  local line="\${COMP_LINE:0:COMP_POINT}" command="\${COMP_WORDS[1]}" words="" word before
  word="\${line##* }" # whole: bash itself takes \`local:/x\` and \`--keys=x\` for several words
  before="\${line%"$word"}" before="\${before%"\${before##*[! ]}"}" before="\${before##* }"
  case "$word" in --*=*) before="\${word%%=*}" word="\${word#*=}" ;; esac
  case "$before" in
${valueCases.join('\n')}
    *) if [ "$COMP_CWORD" -eq 1 ]; then words="${commands.map(({ name }) => name).join(' ')}"
    elif [[ "$word" == -* ]]; then case "$command" in
${optionCases.join('\n')}
    esac; else case "$command" in
${operandCases.join('\n')}
    esac; fi ;;
  esac
  local IFS=$' \\t\\n'
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ "$word" == *:* ]] && COMPREPLY=("\${COMPREPLY[@]#"\${word%"\${word##*:}"}"}")
  return 0
}
complete -F _gpg_bridge gpg-bridge
`;
}

function zsh(): string {
  const commands = vocabulary();
  const operand = ({ verbs, operand }: Command) => {
    const words = verbs.map((verb, i) => `'${i + 1}: :(${verb})'`);
    const place = words.length + 1;
    if (operand === 'container') return [...words, `'${place}:target:_gpg_bridge_containers'`];
    if (operand === 'target') return [...words, `'${place}:target:_gpg_bridge_targets'`];
    return operand.length > 0 ? [`'1: :(${operand.join(' ')})'`] : [];
  };
  const optionSpec = ({ name, short, help, value, many, choices }: Option) => {
    const takes =
      value === undefined ? '' : `:${value}:${choices.length > 0 ? `(${choices.join(' ')})` : '_default'}`;
    const spec = (option: string) =>
      quoteForSh(`${many ? '*' : ''}${option}[${help.replace(/[[\]:\\]/g, '\\$&')}]${takes}`);
    return [spec(value === undefined ? name : `${name}=`), ...(short ? [spec(`-${short}`)] : [])];
  };
  const cases = commands.map(
    (command) =>
      `    ${command.name}) _arguments -s ${[...command.options.flatMap(optionSpec), ...operand(command)].join(' ')} ;;`,
  );
  const described = commands.map(({ name, summary }) =>
    quoteForSh(`${name}:${summary.replaceAll(':', '\\:')}`),
  );
  return `#compdef gpg-bridge
_gpg_bridge_containers() { local -a names=(\${(f)"$(${CONTAINERS})"}); compadd -a names }
_gpg_bridge_targets() { local -a names=(\${(f)"$(${TARGETS})"}); compadd -a names }
_gpg-bridge() {
  local curcontext="$curcontext" state line
  local -a commands=(${described.join(' ')})
  _arguments -C '1: :->command' '*:: :->rest' && return
  case $state in
    command) _describe -t commands command commands ;;
    rest) case $line[1] in
${cases.join('\n')}
    esac ;;
  esac
}
if [ "$funcstack[1]" = _gpg-bridge ]; then
  _gpg-bridge "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _gpg-bridge gpg-bridge
fi
`;
}

function fish(): string {
  const lines = vocabulary().flatMap((command) => {
    const { name, summary, verbs, operand, options } = command;
    const after = `complete -c gpg-bridge -n '__fish_seen_subcommand_from ${name}'`;
    const offered =
      operand === 'container'
        ? '(__gpg_bridge_containers)'
        : operand === 'target'
          ? '(__gpg_bridge_targets)'
          : operand.join(' ');
    return [
      `complete -c gpg-bridge -n __fish_use_subcommand -a ${name} -d ${quoteForFish(summary)}`,
      ...options.map(({ name: option, short, help, value, choices }) =>
        [
          `${after} -l ${option.slice(2)}`,
          ...(short ? [`-s ${short}`] : []),
          // An option that takes something may take a file: a key of SSH, the PID file.
          ...(value === undefined ? [] : choices.length > 0 ? [`-x -a '${choices.join(' ')}'`] : ['-r -F']),
          `-d ${quoteForFish(help)}`,
        ].join(' '),
      ),
      ...(offered ? [`${after} -a '${[...verbs, offered].join(' ')}'`] : []),
    ];
  });
  return `function __gpg_bridge_containers; ${CONTAINERS}; end
function __gpg_bridge_targets; ${TARGETS}; end
complete -c gpg-bridge -f
${lines.join('\n')}
`;
}

function quoteForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

function quoteForSh(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
