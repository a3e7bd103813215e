/** A reader or a rule that is fed with inputs. */
export interface FuzzTarget {
  name: string;
  /** Inputs to begin with. */
  seeds: readonly (string | Buffer)[];
  /** Words of the format. */
  words: readonly (string | Buffer)[];
  /** Bytes of the longest input. */
  maxLength?: number;
  /** Feeds one input; throws when something is not as it has to be. */
  run(input: Buffer): void;
}

/** Text, a byte a character. */
export function bytes(value: string | Buffer): Buffer {
  return typeof value === 'string' ? Buffer.from(value, 'latin1') : value;
}

/** Throws unless something holds. */
export function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

/** Runs something that may throw errors with these codes and no others; true if it threw none. */
export function mayFail(codes: readonly string[], attempt: () => void): boolean {
  try {
    attempt();
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== undefined && codes.includes(code)) return false;
    throw error;
  }
}

/** The pieces of an input: its first byte says where the rest is cut, so that an input is the same every time. */
export function pieces(input: Buffer): Buffer[] {
  const [how = 0] = input;
  const rest = input.subarray(1);
  if (how < 64 || rest.length === 0) return [rest];
  const size = how < 128 ? 1 : how - 126;
  const cut: Buffer[] = [];
  for (let at = 0; at < rest.length; at += size) cut.push(rest.subarray(at, at + size));
  return cut;
}
