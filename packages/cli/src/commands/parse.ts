import { parseArgs } from 'node:util';
import { BridgeError } from '@gpg-bridge/core/errors';
import { nearest } from '@gpg-bridge/core/text/nearest';
import {
  COMMANDS,
  COMMON_OPTIONS,
  type CommandName,
  type CommandSpec,
  type OptionSpec,
  type ParsedCommand,
  parserOptions,
} from './specs.ts';

/** Whether this word is a command. */
export function isCommand(word: string): word is CommandName {
  return Object.hasOwn(COMMANDS, word);
}

/** Parses a command's words, or says what is wrong with them. */
export function parseCommand(name: CommandName, all: readonly string[]): ParsedCommand {
  const spec: CommandSpec = COMMANDS[name];
  const { words, command } = splitCommand(spec, all);
  try {
    const { values, positionals, tokens } = parseArgs({
      args: [...words],
      options: parserOptions(spec),
      allowPositionals: true,
      strict: true,
      tokens: true,
    });
    const options: Readonly<Record<string, OptionSpec>> = spec.options;
    for (const option of Object.keys(values)) {
      const { value, many } = options[option] ?? {};
      const given = tokens.filter((token) => token.kind === 'option' && token.name === option).length;
      if (value !== undefined && !many && given > 1) throw usage(name, `--${option} is given ${given} times`);
    }
    if (spec.verbs && !values.help) checkVerb(name, spec.verbs, positionals, Object.keys(values));
    else if (!spec.verbs && positionals.length > spec.maxOperands) {
      throw usage(name, `unexpected operand '${positionals[spec.maxOperands]}'`);
    }
    for (const [option, value] of Object.entries(values)) {
      const { choices, value: takes } = options[option] ?? {};
      if ([value].flat().includes('')) throw usage(name, `--${option} takes ${takes}, not nothing`);
      // `--keys` also takes IDs; its choices are what completion offers.
      if (choices && option !== 'keys' && typeof value === 'string' && !choices.includes(value)) {
        throw usage(name, `--${option} takes ${choices.join(', ')}, not '${value}'`);
      }
    }
    return { operands: positionals, command, flags: values as ParsedCommand['flags'] };
  } catch (error) {
    if (error instanceof BridgeError) throw error;
    // The first sentence of Node's message says what is wrong; the rest is advice about Node's parser.
    const why = (error as Error).message.split(/\. |\n/)[0] ?? 'the options are not understood';
    const [, unknown] = /^Unknown option '--(.+)'/.exec(why) ?? [];
    const known = Object.entries({ ...spec.options, ...COMMON_OPTIONS }).filter(
      ([, { internal }]) => !internal,
    );
    const meant =
      unknown &&
      nearest(
        unknown,
        known.map(([option]) => option),
      );
    throw usage(name, why.charAt(0).toLowerCase() + why.slice(1).replace(/\.$/, ''), meant && `--${meant}`);
  }
}

/** Throws unless the first operand is something that the command does, and takes what else was given. */
function checkVerb(
  name: CommandName,
  verbs: NonNullable<CommandSpec['verbs']>,
  [verb, ...operands]: readonly string[],
  given: readonly string[],
): void {
  const known = Object.keys(verbs);
  const spec = verb !== undefined && Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (!spec) {
    const why = verb === undefined ? `it takes one of ${known.join(', ')}` : `it knows no '${verb}'`;
    const meant = verb === undefined ? undefined : nearest(verb, known);
    throw usage(name, why, meant && `gpg-bridge ${name} ${meant}`);
  }
  const foreign = given.find(
    (option) => !spec.options.includes(option) && !Object.hasOwn(COMMON_OPTIONS, option),
  );
  if (foreign !== undefined) throw usage(name, `--${foreign} has no meaning for ${verb}`);
  if (operands.length > spec.maxOperands) {
    throw usage(name, `unexpected operand '${operands[spec.maxOperands]}'`);
  }
}

/** A command's own words, without those of a command that it runs: these may look like anything. */
export function ownWords([name = '', ...words]: readonly string[]): string[] {
  return isCommand(name) ? splitCommand(COMMANDS[name], words).words : words;
}

/** The command to run begins behind `--`, or with the first word behind the target that is no option. */
function splitCommand(spec: CommandSpec, all: readonly string[]): { words: string[]; command: string[] } {
  const words = [...all];
  if (!spec.takesCommand) return { words, command: [] };
  const { tokens } = parseArgs({
    args: words,
    options: parserOptions(spec),
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  let operandsLeft = spec.maxOperands;
  for (const token of tokens) {
    // `--exec` stands in place of a target.
    if (token.kind === 'option' && token.name === 'exec') operandsLeft--;
    if (token.kind === 'option-terminator')
      return { words: words.slice(0, token.index), command: words.slice(token.index + 1) };
    if (token.kind === 'positional' && operandsLeft-- <= 0)
      return { words: words.slice(0, token.index), command: words.slice(token.index) };
  }
  return { words, command: [] };
}

/** The error for wrong words, with where to look. */
export function usage(name: CommandName | undefined, why: string, meant?: string): BridgeError {
  return new BridgeError('USAGE', {
    what: name ? `wrong usage of ${name}` : 'wrong usage',
    why,
    fix: `${meant ? `Did you mean \`${meant}\`? ` : ''}See \`gpg-bridge ${name ? `${name} ` : ''}--help\`.`,
  });
}
