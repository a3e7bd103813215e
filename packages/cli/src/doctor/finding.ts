/** Where a check looks: on this machine, on the way to the target, in the target, at git there. */
export type Side = 'host' | 'line' | 'target' | 'git';

/** How a check came out. */
export type CheckStatus = 'ok' | 'warn' | 'fail';

/** What a check says about the facts. */
export interface Judgement {
  status: CheckStatus;
  detail: string;
  /** What to type, if something is not right. */
  fix?: string | undefined;
}

/** A judgement with the check that made it. */
export interface Finding {
  id: string;
  side: Side;
  status: CheckStatus;
  detail: string;
  fix: string | null;
}

/** The judgement of a check that found nothing wrong. */
export function fine(detail: string): Judgement {
  return { status: 'ok', detail };
}

/** Something that may get in a person's way, and what to type against it. */
export function warning(detail: string, fix: string): Judgement {
  return { status: 'warn', detail, fix };
}

/** Something that does not work, and what to type against it. */
export function failure(detail: string, fix: string): Judgement {
  return { status: 'fail', detail, fix };
}

/** Several of something, in words: `1 key`, `3 keys`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
