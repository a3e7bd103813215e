/** The text of a bundle. */
export function bundled(entry: string): Promise<string>;
/** The bundle's text with counters in it, and how many there are. */
export function instrumented(entry: string): Promise<{ text: string; count: number }>;
/** Adds a counter to every function, branch, loop, case and right side of a logical operator. */
export function addCounters(text: string): { text: string; count: number };
