import type { ParseArgsConfig } from 'node:util';
import { AUTO } from './auto-spec.ts';
import {
  BRIDGE_OPTIONS,
  type CommandSpec,
  EXEC_OPTION,
  JSON_OPTION,
  NOW_OPTION,
  type OptionSpec,
  USER_OPTION,
} from './spec-parts.ts';

export type { CommandSpec, OptionSpec, ParsedCommand, VerbSpec } from './spec-parts.ts';

/** Every command, in the order help shows them. */
export const COMMANDS = {
  up: {
    summary: 'make your keys usable in a target',
    operands: 'TARGET',
    maxOperands: 1,
    options: {
      ...BRIDGE_OPTIONS,
      now: NOW_OPTION,
      json: JSON_OPTION,
    },
    details:
      'Starts a bridge to the target and returns when it works; it stays until `gpg-bridge down`, or until\n' +
      'the target stops. Running it again is harmless: it checks the bridge through the sockets in the\n' +
      'target and mends what it finds. Options that were given hold until they are changed by name.\n' +
      'Restrictions (--gpg-key, --ssh-key, --no-gpg, --no-ssh, --no-decrypt, --confirm, --notify, --idle,\n' +
      '--for) also hold for the next bridge to the target and for its other users, until\n' +
      '`gpg-bridge down --forget`. When the time of --for is over, only a new --for brings the bridge up.\n' +
      '`gpg -K` in the target then shows `sec#`: the secret half is not there, and is used all the same.',
    examples: [
      ['gpg-bridge up my-container', 'GPG and SSH keys in a Docker container'],
      ['gpg-bridge up podman:build --user dev', 'in a Podman container, for the user dev'],
      ['gpg-bridge up box --user 4321 --home /tmp/4321', 'for a user without a home that can be written to'],
      ['gpg-bridge up ssh:me@server --no-ssh', 'GPG alone, on a server'],
      ['gpg-bridge up k8s:team/pod-0/app --keys all', 'in a pod, with every public key'],
      ["gpg-bridge up --exec 'lxc exec box --'", 'through any command that runs a command'],
    ],
  },
  down: {
    summary: 'end a bridge',
    operands: 'TARGET | --all',
    maxOperands: 1,
    options: {
      all: { help: 'end every bridge' },
      force: { help: 'kill a daemon that does not answer, if it is proven to be the bridge' },
      forget: { help: 'also drop the restrictions of the target (--gpg-key, --confirm, --for, …)' },
      user: USER_OPTION,
      exec: EXEC_OPTION,
    },
    details:
      'Restrictions of the target are kept for the next bridge: --gpg-key, --ssh-key, --no-gpg, --no-ssh,\n' +
      '--no-decrypt, --confirm, --notify, --idle, --for. With --forget they are dropped, also when no\n' +
      'bridge is up; with --user those that were given for that user alone.',
    examples: [
      ['gpg-bridge down my-container', 'end the bridge to it; fine if there is none'],
      ['gpg-bridge down my-container --forget', 'and drop what restricts it'],
      ['gpg-bridge down --all', 'end all of them'],
    ],
  },
  status: {
    summary: 'show the bridges and what they do',
    operands: '[TARGET]',
    maxOperands: 1,
    options: {
      watch: { help: 'go on showing it, until Ctrl-C' },
      user: USER_OPTION,
      exec: EXEC_OPTION,
      json: JSON_OPTION,
    },
    details:
      'Looks at every socket in the targets. With a TARGET the exit status is 0 when its bridge works,\n' +
      '1 when it does not, 3 when there is none.',
    examples: [
      ['gpg-bridge status', 'every bridge'],
      ['gpg-bridge status --watch', 'and who waits for you, as it changes'],
      ['gpg-bridge status my-container --json', 'one of them, for a script'],
    ],
  },
  pause: {
    summary: 'let no key be used over any bridge, until resumed',
    maxOperands: 0,
    options: { for: { value: 'TIME', help: 'resume by itself after that time: 30m, 2h, 1h30m' } },
    details:
      'Bridges stay, and those that are started meanwhile are paused, too. Programs in the targets are told\n' +
      'at once that their key was not used.',
    examples: [
      ['gpg-bridge pause', 'nothing is signed or decrypted any more'],
      ['gpg-bridge pause --for 1h', 'for an hour'],
    ],
  },
  resume: {
    summary: 'end a pause',
    maxOperands: 0,
    options: {},
    examples: [['gpg-bridge resume', 'keys can be used again']],
  },
  log: {
    summary: 'show what was asked of your keys',
    operands: '[TARGET]',
    maxOperands: 1,
    options: {
      since: { value: 'T', help: 'from a time on, such as 2026-01-31T12:00, or the last 2h' },
      follow: { help: 'go on as it happens (also -f)' },
      user: USER_OPTION,
      exec: EXEC_OPTION,
      lines: { value: 'N', help: 'the last N lines alone (also -n N)' },
      uses: { help: 'the record of private-key uses alone, which outlives the bridge and its log' },
      json: { help: 'print the operations as one JSON array, with --follow one object a line' },
    },
    examples: [
      ['gpg-bridge log --since 2h', 'what every target asked for lately'],
      ['gpg-bridge log my-container -f', 'watch signatures as they are made'],
      ['gpg-bridge log my-container -n 20', 'what was asked lately'],
      ['gpg-bridge log my-container --uses', 'everything that was signed or decrypted'],
    ],
  },
  exec: {
    summary: 'run a command in a target, with a bridge',
    operands: 'TARGET [--] COMMAND…',
    maxOperands: 1,
    takesCommand: true,
    options: { ...BRIDGE_OPTIONS, now: NOW_OPTION },
    details:
      'Ensures the bridge as `up` does, then runs the command there on a terminal if this is one, with\n' +
      'SSH_AUTH_SOCK and what --home needs in its environment. The exit status is that of the command,\n' +
      '128 and the number of the signal that ended it. Options stand before the command; the bridge stays.\n' +
      'With --exec the terminal there is what the prefix makes of it. While a key is used over any bridge,\n' +
      'what you type does not reach the command, and what no pinentry took is dropped.',
    examples: [
      ['gpg-bridge exec my-container -- git commit -S', 'sign a commit there'],
      ['gpg-bridge exec ssh:me@server --no-gpg -- git push', 'push from a server, with your SSH key'],
      ["gpg-bridge exec --exec 'lxc exec box --' -- ssh-add -l", 'through any command that runs a command'],
    ],
  },
  shell: {
    summary: 'open a shell in a target, with a bridge',
    operands: 'TARGET',
    maxOperands: 1,
    options: { ...BRIDGE_OPTIONS, now: NOW_OPTION },
    details: "Like `exec`, with the user's own shell there as the command.",
    examples: [
      ['gpg-bridge shell my-container', 'a shell in which signing works'],
      ['gpg-bridge shell box --user dev', 'for the user dev'],
    ],
  },
  auto: AUTO,
  keys: {
    summary: 'give a target your public keys again',
    operands: 'sync TARGET',
    maxOperands: 2,
    options: { user: USER_OPTION, exec: EXEC_OPTION, json: JSON_OPTION },
    details:
      'Imports the public keys that --keys asked for, and their trust. A bridge that runs does it by itself\n' +
      'when your keyring changes. Nothing is removed there.',
    examples: [['gpg-bridge keys sync my-container', 'the keys of your keyring as it is now']],
  },
  env: {
    summary: "print the exports for the target's shell",
    operands: 'TARGET',
    maxOperands: 1,
    options: { user: USER_OPTION, exec: EXEC_OPTION },
    examples: [['eval "$(gpg-bridge env local:/tmp/x)"', 'point this shell at the bridged sockets']],
  },
  doctor: {
    summary: 'find what keeps signing from working, and what to type against it',
    operands: '[TARGET]',
    maxOperands: 1,
    options: {
      sign: { help: 'end with a test signature, made in the target and verified there' },
      report: { help: 'print it for a bug report: without names, addresses, keys and places' },
      user: USER_OPTION,
      exec: EXEC_OPTION,
      json: JSON_OPTION,
    },
    details:
      'Checks this machine, the line and the target: programs and versions, agents, keys, sockets, git.\n' +
      'Each line that is not right has below it what to type. Nothing is changed in the target, and what\n' +
      'runs there to look ends with it. Without a TARGET it checks this machine and every bridge that is\n' +
      'up. The exit status is 0 when nothing fails, else 1; warnings do not count.\n' +
      'A --report has versions, states, times and commands. User IDs, addresses, fingerprints, names of\n' +
      'targets, users and machines, and home directories are replaced by words for what they are.',
    examples: [
      ['gpg-bridge doctor', 'this machine, and every bridge'],
      ['gpg-bridge doctor my-container', 'every hop to a container'],
      ['gpg-bridge doctor my-container --sign', 'and a real signature at the end'],
      ['gpg-bridge doctor my-container --report', 'to show to somebody else'],
    ],
  },
  demo: {
    summary: 'show the whole path on this machine alone, with a throw-away key',
    maxOperands: 0,
    options: {},
    examples: [['gpg-bridge demo', 'sign a git commit across both kinds of bridge, and verify it']],
  },
  completion: {
    summary: 'print a completion script for your shell',
    operands: 'bash | zsh | fish',
    maxOperands: 1,
    options: {},
    examples: [
      ['source <(gpg-bridge completion bash)', 'in ~/.bashrc'],
      ['source <(gpg-bridge completion zsh)', 'in ~/.zshrc'],
      ['gpg-bridge completion fish', 'into ~/.config/fish/completions/gpg-bridge.fish'],
    ],
  },
  serve: {
    summary: 'run a bridge in the foreground (what `up` starts)',
    maxOperands: 0,
    options: {
      ...BRIDGE_OPTIONS,
      container: { value: 'ID', help: 'the container to bridge to' },
      target: { value: 'TARGET', help: 'a target of another kind' },
      'pid-file': { value: 'PATH', help: 'where the PID is kept; control socket and log lie beside it' },
      'by-name': { help: 'with --restart, follow a container by its name, not by its ID' },
      'expected-bridge': { value: 'KEY', help: 'the bridge that this has to be', internal: true },
      succeeds: { value: 'SOCKETS', help: 'take the place of a bridge that runs', internal: true },
      keeps: { value: 'SOCKETS', help: 'the agents that it has to have, too', internal: true },
      predecessor: { value: 'PATH', help: 'the control socket of that one, if another', internal: true },
      now: { help: 'end that one without waiting for what is in flight', internal: true },
      until: { value: 'TIME', help: 'when the time of --for is over', internal: true },
      rule: { value: 'WORDS', help: 'the rule that it is brought up by', internal: true },
      'ready-fd': { value: 'N', help: 'where to tell whoever started it', internal: true },
    },
    examples: [
      ['gpg-bridge serve --container 3f1c… --pid-file /run/b.pid --gpg', 'under your own supervisor'],
    ],
  },
} as const satisfies Record<string, CommandSpec>;

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** Options that every command takes. */
export const COMMON_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  help: { help: 'show help (also -h)' },
  verbose: { help: 'show stack traces; a bridge that is started logs every session' },
};

/** One-letter forms. */
export const SHORT: Readonly<Record<string, string>> = { help: 'h', follow: 'f', lines: 'n' };

/** The options of a command in the form that Node's own parser takes. */
export function parserOptions(spec: CommandSpec): NonNullable<ParseArgsConfig['options']> {
  return Object.fromEntries(
    Object.entries({ ...spec.options, ...COMMON_OPTIONS }).map(([name, option]) => [
      name,
      {
        type: option.value === undefined ? 'boolean' : 'string',
        ...(option.many ? { multiple: true } : {}),
        ...(SHORT[name] ? { short: SHORT[name] } : {}),
      },
    ]),
  );
}
