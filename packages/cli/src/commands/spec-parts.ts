/** One option of a command; `value` names what it takes, and is absent for a switch. */
export interface OptionSpec {
  value?: string;
  many?: true;
  help: string;
  /** What a shell may offer after it. */
  choices?: readonly string[];
  /** Not shown in help: for the tool's own use. */
  internal?: true;
}

/** What the first operand of a command may be, where that does several things. */
export interface VerbSpec {
  summary: string;
  /** What follows it, as the usage line shows it. */
  operands?: string;
  maxOperands: number;
  /** The names of the command's options that it takes. */
  options: readonly string[];
}

/** A command's words: everything that parsing, help and shell completion need to know of it. */
export interface CommandSpec {
  summary: string;
  /** The operands, as the usage line shows them. */
  operands?: string;
  maxOperands: number;
  /** What its first operand may be; then `maxOperands` counts for nothing. */
  verbs?: Readonly<Record<string, VerbSpec>>;
  /** The words of another command follow its operands. */
  takesCommand?: true;
  options: Readonly<Record<string, OptionSpec>>;
  details?: string;
  examples: readonly (readonly [command: string, what: string])[];
  internal?: true;
}

/** Values as parsed: switches are true, `many` options are lists. */
export interface ParsedCommand {
  operands: string[];
  /** The words of the command to run in a target. */
  command: string[];
  flags: Readonly<Record<string, string | boolean | string[] | undefined>>;
  /** Of `up`: see `EnsureOptions.isAsked`. */
  isAsked?: boolean;
}

/** For scripts. */
export const JSON_OPTION: OptionSpec = { help: 'print one JSON document and nothing else' };
/** In place of a target. */
export const EXEC_OPTION: OptionSpec = {
  value: 'COMMAND',
  help: 'reach the target through this command prefix, e.g. `lxc exec box --`',
};
/** Whose bridge is meant. */
export const USER_OPTION: OptionSpec = {
  value: 'USER',
  help: "the target's user (default: the target's own)",
};

/** How much patience there is for the bridge that is changed. */
export const NOW_OPTION: OptionSpec = {
  help: 'when options change, cut off what is in flight instead of waiting for it',
};

/** What a bridge is made of; `up`, `exec`, `shell` and the daemon take the same. */
export const BRIDGE_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  gpg: { help: "bridge the gpg-agent, and fail if the host's can't be had" },
  'no-gpg': { help: 'leave the gpg-agent out' },
  ssh: { help: "bridge the ssh-agent, and fail if the host's can't be had" },
  'no-ssh': { help: 'leave the ssh-agent out' },
  user: USER_OPTION,
  home: {
    value: 'DIR',
    help: "a directory there for the user's keyring and sockets, instead of the own home",
  },
  keys: {
    value: 'WHICH',
    help: 'public keys to import there: pairs (default), all, none, or IDs with commas',
    choices: ['pairs', 'all', 'none'],
  },
  'ssh-key': {
    value: 'KEY',
    many: true,
    help: 'offer only this SSH key: fingerprint, comment, .pub file, or all; repeatable',
  },
  'gpg-key': {
    value: 'KEY',
    many: true,
    help: 'offer only this GPG key: user ID, fingerprint, keygrip, or all; repeatable',
  },
  'no-decrypt': { help: 'let GPG keys sign and not decrypt' },
  decrypt: { help: 'let them decrypt again' },
  'allow-passphrase': {
    help: 'let the target ask you for a passphrase in its own words, and get it',
  },
  'no-allow-passphrase': { help: 'refuse that again' },
  confirm: { help: 'ask you on this machine before each use of a key' },
  'no-confirm': { help: 'do not ask' },
  notify: { help: 'show a notice of your desktop at each use of a key' },
  'no-notify': { help: 'show none' },
  for: { value: 'TIME', help: 'end the bridge after that time: 30m, 2h, 1h30m; none takes it back' },
  idle: { value: 'TIME', help: 'end it when no key was used for that time; none takes it back' },
  'gpg-socket': {
    value: 'PATH',
    help: "gpg-agent's extra socket, if GnuPG does not tell it; default takes it back",
  },
  'ssh-from-gpg': { help: "use gpg-agent's own SSH support instead of SSH_AUTH_SOCK" },
  'no-ssh-from-gpg': { help: 'use SSH_AUTH_SOCK again' },
  runtime: {
    value: 'NAME',
    help: 'what runs the socket server there (default: auto, the first that is found)',
    choices: ['node', 'perl', 'native', 'auto'],
  },
  'no-ahead': { help: 'let every answer come from the agents, at the cost of one crossing each' },
  ahead: { help: 'let the target answer again what it may' },
  git: { help: "tell the target's git who signs and with which key, where it is not told" },
  'no-git': { help: "leave the target's git alone" },
  takeover: { help: 'take the socket over from another forward that holds it' },
  restart: { help: 'wait and attach again when the target is back' },
  'no-restart': { help: 'end with the target again' },
  exec: EXEC_OPTION,
};
