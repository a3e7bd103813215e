/** The word that somebody may have meant: one or two letters away, fewer if it is short; undefined if there is none. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: { name: string; steps: number } | undefined;
  for (const name of known) {
    const steps = distance(word.toLowerCase(), name.toLowerCase());
    if (steps <= Math.min(2, Math.floor(name.length / 2)) && (!best || steps < best.steps)) {
      best = { name, steps };
    }
  }
  return best?.name;
}

/** Letters that are missing, too many, other ones, or swapped with their neighbour. */
function distance(a: string, b: string): number {
  let [older, old]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(row[j - 1]! + 1, old[j]! + 1, old[j - 1]! + cost);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) row[j] = Math.min(row[j]!, older[j - 2]! + 1);
    }
    [older, old] = [old, row];
  }
  return old[b.length]!;
}
