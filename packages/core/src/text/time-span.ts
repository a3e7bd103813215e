const UNITS: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1 };
/** Longer than anybody means; a date beyond it could not be written. */
const LONGEST_SECONDS = 3_650 * 86_400;

/** The seconds of a time such as `30m`, `2h` or `1h30m`; undefined if it is none. */
export function spanSeconds(text: string): number | undefined {
  if (!/^(?:\d{1,9}d)?(?:\d{1,9}h)?(?:\d{1,9}m)?(?:\d{1,9}s)?$/.test(text)) return undefined;
  let seconds = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)([dhms])/g)) seconds += Number(count) * UNITS[unit!]!;
  return seconds > 0 && seconds <= LONGEST_SECONDS ? seconds : undefined;
}

/** The same time in one way, whichever it was said in: `90m` is `1h30m`. */
export function spanText(seconds: number): string {
  let left = seconds;
  return Object.entries(UNITS)
    .map(([unit, size]) => {
      const count = Math.floor(left / size);
      left -= count * size;
      return count > 0 ? `${count}${unit}` : '';
    })
    .join('');
}
