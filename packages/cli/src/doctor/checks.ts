import type { Check } from './check.ts';
import type { Facts } from './facts.ts';
import type { Finding } from './finding.ts';
import { GIT_CHECKS } from './git-checks.ts';
import { HOST_CHECKS } from './host-checks.ts';
import { LINE_CHECKS } from './line-checks.ts';
import { TARGET_CHECKS } from './target-checks.ts';

/** Everything that doctor checks, in the order in which it is shown. */
export const CHECKS: readonly Check[] = [...HOST_CHECKS, ...LINE_CHECKS, ...TARGET_CHECKS, ...GIT_CHECKS];

/** The findings of the checks that have something to judge. */
export function judge(checks: readonly Check[], facts: Facts): Finding[] {
  return checks.flatMap(({ id, side, judge: judgeFacts }) => {
    const judgement = judgeFacts(facts);
    if (!judgement) return [];
    const { status, detail, fix } = judgement;
    return [{ id, side, status, detail, fix: status === 'ok' ? null : (fix ?? null) }];
  });
}
