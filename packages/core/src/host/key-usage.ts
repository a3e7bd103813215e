/** What a grant can allow, and what a key can serve. */
export type GrantWord = 'sign' | 'decrypt' | 'login';

/** Everything that there is a word for. */
export const ALL_WORDS: ReadonlySet<GrantWord> = new Set(['sign', 'decrypt', 'login']);

/** What a key can be used for. */
export interface KeyUsage {
  /** The words that it can serve; every one of them for a key of unknown usage. */
  words: ReadonlySet<GrantWord>;
  /** Of two keys that are used together, those that each can serve. */
  each?: ReadonlySet<GrantWord> | undefined;
  /** Whether the host knows its usage. */
  known: boolean;
  /** The fingerprint under which an ssh-agent would offer it, where that is known. */
  ssh?: string | undefined;
}

/** A key that no certificate names, or that could not be looked up, may serve everything. */
export const UNKNOWN_USAGE: KeyUsage = { words: ALL_WORDS, known: false };

/** What two keys that are used at the same time can be used for; no ssh-agent offers them as one. */
export function usageOfBoth(one: KeyUsage, two: KeyUsage): KeyUsage {
  const words = new Set([...one.words, ...two.words]);
  const each = new Set([...words].filter((word) => one.words.has(word) && two.words.has(word)));
  return { words, each, known: one.known && two.known };
}

/** Which words a grant has for one key. */
export interface WordGrant {
  /** Absent: granted. */
  sign?: boolean | undefined;
  /** Absent: granted. */
  decrypt?: boolean | undefined;
  /** With every key, with none, or with the SSH keys that have these fingerprints; absent: with every key. */
  login?: boolean | ReadonlySet<string> | undefined;
}

/** The letters of gpg's and gpgsm's capabilities: `t` is for timestamps, `r` an additional decryption key. */
const LETTERS: Readonly<Record<string, GrantWord>> = {
  s: 'sign',
  c: 'sign',
  t: 'sign',
  e: 'decrypt',
  r: 'decrypt',
  a: 'login',
};

/**
 * The word for which a command needs a grant, and the words that a key must not serve for the command to stay what its
 * name says. With RSA, a raw decryption is a signature or a login, and a signature can be a login. A signature is
 * always padded, so it decrypts nothing.
 */
const COMMANDS: Readonly<Record<string, { word: GrantWord; notWith: readonly GrantWord[] }>> = {
  PKSIGN: { word: 'sign', notWith: ['login'] },
  PKDECRYPT: { word: 'decrypt', notWith: ['sign', 'login'] },
  PKAUTH: { word: 'login', notWith: ['sign'] },
};

const DEEDS: Readonly<Record<GrantWord, string>> = {
  sign: 'sign',
  decrypt: 'decrypt',
  login: 'log in over SSH',
};
const ABILITIES: Readonly<Record<GrantWord, string>> = {
  sign: 'signs',
  decrypt: 'decrypts',
  login: 'logs in over SSH',
};

const UNKNOWN_TO_HOST = "the host doesn't know what that key is for";

/** What becomes of a use: `refused` says why; `note` says where it is not what its command is called. */
export interface UsageDecision {
  refused?: string;
  note?: string;
}

/** The words of a capability field: its lowercase letters are of that one key, also after it expired or was revoked. */
export function wordsOf(capabilities: string): Set<GrantWord> {
  return new Set([...capabilities].flatMap((letter) => LETTERS[letter] ?? []));
}

/**
 * Decides about one command with one key. A key that serves only what the command's name says needs that word; any other
 * key needs, in addition, every word that it can serve. `looked`: its usage, undefined where nobody looks it up.
 */
export function decideByUsage(
  command: string,
  looked: KeyUsage | undefined,
  grant: WordGrant,
): UsageDecision {
  const rule = COMMANDS[command];
  if (!rule) return {};
  const usage = looked ?? UNKNOWN_USAGE;
  const { words, each = words, known } = usage;
  const { word, notWith } = rule;
  const granted = grantedWords(grant, usage);
  if (!granted.has(word)) return { refused: `this target may not ${DEEDS[word]}` };
  const isItsUse = known && each.has(word);
  if (isItsUse && !notWith.some((other) => words.has(other))) return {};
  // libgcrypt crashes when some keys decrypt that can't, and the agent with it.
  if (word === 'decrypt' && looked && !isItsUse) {
    return { refused: known ? 'that key does not decrypt' : UNKNOWN_TO_HOST };
  }
  const missing = [...words].filter((each) => !granted.has(each));
  if (missing.length === 0) return { note: noteOn(word, usage) };
  if (!known) return { refused: UNKNOWN_TO_HOST };
  const also = words.has(word) ? 'also ' : '';
  return { refused: `that key can ${also}${deeds(missing)}, which this target may not` };
}

/** Whether a grant has every word with every key, so that it leaves none out. */
export function isEverything({ sign, decrypt, login = true }: WordGrant): boolean {
  return sign !== false && decrypt !== false && login === true;
}

/** What a key could do and can't under a grant that has the word for it, with the reason. */
export function lostUses(usage: KeyUsage, grant: WordGrant): { deed: string; why: string }[] {
  const granted = grantedWords(grant, usage);
  return ['PKSIGN', 'PKDECRYPT'].flatMap((command) => {
    const { word } = COMMANDS[command]!;
    const why = decideByUsage(command, usage, grant).refused;
    return why && granted.has(word) && usage.words.has(word) ? [{ deed: DEEDS[word], why }] : [];
  });
}

/** What a grant allows with one key. */
function grantedWords({ sign, decrypt, login }: WordGrant, { ssh }: KeyUsage): Set<GrantWord> {
  const mayLogIn = typeof login === 'object' ? ssh !== undefined && login.has(ssh) : login !== false;
  const each: Record<GrantWord, boolean> = {
    sign: sign !== false,
    decrypt: decrypt !== false,
    login: mayLogIn,
  };
  return new Set([...ALL_WORDS].filter((word) => each[word]));
}

function noteOn(word: GrantWord, { words, known }: KeyUsage): string {
  if (!known) return 'a key of unknown usage';
  const others = [...words].filter((other) => other !== word).map((other) => ABILITIES[other]);
  return `a key that ${words.has(word) ? 'also ' : ''}${others.join(' and ')}`;
}

function deeds(words: readonly GrantWord[]): string {
  return words.map((word) => DEEDS[word]).join(' and ');
}
