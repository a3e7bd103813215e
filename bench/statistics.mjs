/** The value below which `share` of the samples lie. */
export function quantile(samples, share) {
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Half of the samples are smaller. */
export const median = (samples) => quantile(samples, 0.5);

/** What is kept of a list of samples. */
export function summary(samples) {
  return { count: samples.length, median: median(samples), p99: quantile(samples, 0.99) };
}

/**
 * Runs `once(candidate)` for all candidates in small rounds, so that whatever else goes on in the machine
 * hits all alike; each round begins with another one. Returns all samples by candidate.
 */
export async function interleave(candidates, rounds, once) {
  const samples = new Map(candidates.map((candidate) => [candidate, []]));
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < candidates.length; at++) {
      const candidate = candidates[(at + round) % candidates.length];
      for (const value of await once(candidate)) samples.get(candidate).push(value);
    }
  }
  return samples;
}
