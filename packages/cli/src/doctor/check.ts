import type { Facts } from './facts.ts';
import type { Judgement, Side } from './finding.ts';

/** One thing that doctor looks at: it judges facts, and collects none. */
export interface Check {
  id: string;
  side: Side;
  /** Undefined where there is nothing to judge. */
  judge(facts: Facts): Judgement | undefined;
}
