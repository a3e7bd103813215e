/** What differs from one run to the next, and the word that stands for it in a comparison. */
const MASKS: readonly (readonly [RegExp, string])[] = [
  [/SHA256:[A-Za-z0-9+/]{43}/g, 'SHA256:PRINT'],
  [/\b[0-9A-F]{40}\b/g, 'FINGERPRINT'],
  [/\b[0-9A-F]{16}\b/g, 'KEYID'],
  [/\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{12})\b/g, 'HASH'],
  // A commit, as git shortens it.
  [/(?<=\[[^\]]*)\b[0-9a-f]{7,8}\b(?=\])|^[0-9a-f]{7,8}(?= )/gm, 'HASH'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?/g, 'TIME'],
  [/\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \d{4}(?: \+\d{4}| \w+)?/g, 'TIME'],
  [/\b\d{4}-\d\d-\d\d\b/g, 'DATE'],
  [/\buntil \d\d:\d\d(?!:)/g, 'until TIME'],
  [/\bpid \d+/g, 'pid N'],
  [/\bport \d+/g, 'port N'],
  [/\bsession \d+/g, 'session N'],
  // Two programs of GnuPG that use a keyring for the first time, at once.
  [/^gpg: (?:error opening lockfile '[^']*\.lock': No such file or directory|lockfile disappeared)\n/gm, ''],
  // A busy machine can be as slow as a person.
  [/, a person was needed/g, ''],
  [/\b\d+(?:\.\d+)? (?:µs|ms|s|min)(?!\w)/g, 'DURATION'],
  [/\b\d+(?:\.\d+)? k?B\b/g, 'SIZE'],
  [/\b\d+\.\d+\.\d+\b/g, 'VERSION'],
  // Columns are as wide as what stands in them.
  [/ {2,}/g, '  '],
  [/ +$/gm, ''],
];

/** A text in which whatever differs from one run to the next is replaced by a word for it. */
export function masked(text: string): string {
  return MASKS.reduce((result, [pattern, word]) => result.replace(pattern, word), text);
}
