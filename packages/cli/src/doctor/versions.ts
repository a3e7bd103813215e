/** The version in the first line that a program of GnuPG prints for --version. */
export function versionIn(text: string): string | undefined {
  return /(\d+\.\d+\.\d+)/.exec(text.split('\n', 1)[0] ?? '')?.[1];
}

/** The first GnuPG that has a keyboxd. */
export const FIRST_KEYBOXD = '2.3.0';

/** Whether one version comes before another. */
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number)) as [number[], number[]];
  for (let part = 0; part < Math.max(a.length, b.length); part++) {
    const difference = (a[part] ?? 0) - (b[part] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

/** A pair of versions that does not work together. */
interface BadPair {
  matches(agent: string, client: string): boolean;
  why(agent: string, client: string): string;
  /** Which side gets another version. */
  update: 'host' | 'target';
}

/** Pairs of the host's gpg-agent and the target's gpg, the worst first. */
const BAD_PAIRS: readonly BadPair[] = [
  {
    matches: (_agent, client) => isOlder(client, '2.1.0'),
    why: (_agent, client) => `gpg ${client} there asks no agent for private keys, so it can't use a bridge`,
    update: 'target',
  },
  {
    matches: (agent) => isOlder(agent, '2.1.17'),
    why: (agent) => `gpg-agent ${agent} on the host makes no extra socket unless it is told to`,
    update: 'host',
  },
];

/** What is wrong with a pair of versions; undefined if nothing is known against it. */
export function badPair(agent: string, client: string) {
  const pair = BAD_PAIRS.find(({ matches }) => matches(agent, client));
  return pair && { why: pair.why(agent, client), update: pair.update };
}
