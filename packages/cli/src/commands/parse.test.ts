import { BridgeError } from '@gpg-bridge/core/errors';
import { describe, expect, it } from 'vitest';
import { commandHelp, generalHelp } from './help.ts';
import { isCommand, ownWords, parseCommand } from './parse.ts';
import { COMMANDS, type CommandName, type CommandSpec } from './specs.ts';

const NAMES = Object.keys(COMMANDS) as CommandName[];

function failure(name: CommandName, ...words: string[]): BridgeError {
  try {
    parseCommand(name, words);
  } catch (error) {
    expect(error).toBeInstanceOf(BridgeError);
    return error as BridgeError;
  }
  throw new Error(`'${words.join(' ')}' was taken`);
}

describe('parseCommand', () => {
  it('takes operands, switches, values and repeated values in any order', () => {
    const { operands, flags } = parseCommand('up', [
      '--ssh-key=a',
      'box',
      '--no-gpg',
      '--ssh-key',
      'b',
      '--user=dev',
    ]);
    expect(operands).toEqual(['box']);
    expect({ ...flags }).toEqual({ 'ssh-key': ['a', 'b'], 'no-gpg': true, user: 'dev' });
  });

  it.each<[string[], string[], string[], object]>([
    [['box', '--', 'git', 'log', '--', 'a'], ['box'], ['git', 'log', '--', 'a'], {}],
    [['box', 'git', 'log', '-n', '--', 'a'], ['box'], ['git', 'log', '-n', '--', 'a'], {}],
    [
      ['--user', 'dev', 'box', '--keys=all', 'ls', '--user=x'],
      ['box'],
      ['ls', '--user=x'],
      { user: 'dev', keys: 'all' },
    ],
    [['--exec', 'lxc exec', 'ls', '-l'], [], ['ls', '-l'], { exec: 'lxc exec' }],
    [['--exec=lxc exec', '--', '--json'], [], ['--json'], { exec: 'lxc exec' }],
    [['box'], ['box'], [], {}],
  ])('tells the words of %j from those of the command in it', (words, operands, command, flags) => {
    const parsed = parseCommand('exec', words);
    expect({ ...parsed, flags: { ...parsed.flags } }).toEqual({ operands, command, flags });
    expect(ownWords(['exec', ...words]).join(' ')).not.toMatch(/-l|--json|--user=x/);
  });

  it('takes the short forms', () => {
    expect({ ...parseCommand('log', ['box', '-f']).flags }).toEqual({ follow: true });
    expect({ ...parseCommand('up', ['-h']).flags }).toEqual({ help: true });
  });

  it.each<[CommandName, string[], string]>([
    ['up', ['--nonsense'], "unknown option '--nonsense'"],
    ['up', ['a', 'b'], "unexpected operand 'b'"],
    ['up', ['a', '--user'], "option '--user <value>' argument missing"],
    ['up', ['a', '--user='], '--user takes USER, not nothing'],
    ['up', ['a', '--ssh-key=x', '--ssh-key='], '--ssh-key takes KEY, not nothing'],
    ['up', ['a', '--runtime=ruby'], "--runtime takes node, perl, native, auto, not 'ruby'"],
    ['down', ['--all=yes'], "option '--all' does not take an argument"],
    ['demo', ['x'], "unexpected operand 'x'"],
  ])('%s refuses %j', (name, words, why) => {
    const error = failure(name, ...words);
    expect(error).toMatchObject({ code: 'USAGE', exitStatus: 2 });
    expect(error.message).toBe(`wrong usage of ${name}: ${why}. See \`gpg-bridge ${name} --help\`.`);
  });

  it.each([
    ['--takover', '--takeover'],
    ['--no-shh', '--no-ssh'],
    ['--verbos', '--verbose'],
  ])('asks about %s whether %s is meant', (word, meant) => {
    expect(failure('up', 'box', word).fix).toBe(`Did you mean \`${meant}\`? See \`gpg-bridge up --help\`.`);
  });

  it('knows its commands, and nothing that objects bring along', () => {
    expect(isCommand('up')).toBe(true);
    for (const word of ['UP', '', 'constructor', '__proto__', 'toString'])
      expect(isCommand(word)).toBe(false);
  });
});

describe('a command that does several things', () => {
  it.each([
    [['lst'], /it knows no 'lst'\. Did you mean `gpg-bridge auto list`\?/],
    [[], /it takes one of add, list, remove, approve, run, install, uninstall/],
    [['list', '--user', 'dev'], /--user has no meaning for list/],
    [['run', 'box'], /unexpected operand 'box'/],
    [['add', 'a', 'b'], /unexpected operand 'b'/],
    [['add', '--exec', 'x'], /unknown option '--exec'/],
    [['toString'], /it knows no 'toString'/],
  ])('refuses %j', (words, message) => {
    expect(() => parseCommand('auto', words)).toThrow(message);
  });

  it('takes what each of them takes, and --help alone', () => {
    expect(parseCommand('auto', ['add', 'dev-*', '--user', 'dev', '--trust']).flags).toMatchObject({
      user: 'dev',
      trust: true,
    });
    expect(parseCommand('auto', ['approve', 'a', 'b', 'c']).operands).toEqual(['approve', 'a', 'b', 'c']);
    expect(parseCommand('auto', ['--help']).flags).toMatchObject({ help: true });
  });
});

describe('help', () => {
  it.each(NAMES)('of %s shows its usage, every option, and examples that parse', (name) => {
    const spec: CommandSpec = COMMANDS[name];
    const help = commandHelp(name);
    expect(help).toContain(`Usage: gpg-bridge ${name}`);
    for (const [option, { internal, help: text }] of Object.entries(spec.options)) {
      if (internal) expect(help).not.toContain(`--${option}`);
      else expect(help).toMatch(new RegExp(`^ {2}--${option}\\b.*${literally(text)}$`, 'm'));
    }
    expect(spec.examples.length).toBeGreaterThan(0);
    for (const [example] of spec.examples) {
      expect(help).toContain(example);
      const words = /gpg-bridge (\S+) ?([^)"]*)/.exec(example.replaceAll(/'([^']*)'/g, 'quoted'));
      expect(words?.[1]).toBe(name);
      parseCommand(name, words![2]!.split(' ').filter(Boolean));
    }
  });

  it('fits a terminal of 100 columns', () => {
    for (const text of [generalHelp(), ...NAMES.map(commandHelp)]) {
      for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(100);
    }
  });

  it('in general names every command and every kind of target', () => {
    const help = generalHelp();
    for (const name of NAMES) expect(help).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    for (const kind of ['docker:', 'podman:', 'ssh:', 'k8s:', 'wsl:', 'local:', '--exec'])
      expect(help).toContain(kind);
  });
});

function literally(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
