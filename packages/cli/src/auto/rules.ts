import { type BridgeOptions, checkKeyChoice, checkOptions, mergedOptions } from '../bridge-options.ts';
import { parseRules, type Rule, WrongRule } from './rule-format.ts';
import { type Selector, selectorName } from './selector.ts';
import { readState, unreadable, whileLocked, writeState } from './state-file.ts';

export type { Rule } from './rule-format.ts';

const FILE = 'auto-rules.json';
/** Of each kind; the oldest are asked about again. Images are built anew all the time. */
const MAX_APPROVED = 1_000;

/** What a rule is called: the words that it was added with. */
export function ruleName({ selector }: Rule): string {
  return selectorName(selector);
}

/** Every rule, in the order in which they were added. */
export function readRules(): Rule[] {
  const value = readState(FILE);
  return checked(value === undefined ? { rules: [] } : value);
}

/** Every change is checked like a file that a person wrote: what can't be read again is not written. */
function writeRules(rules: readonly Rule[]): void {
  // As JSON has it: a field without a value is no field.
  checked(JSON.parse(JSON.stringify({ rules })));
  writeState(FILE, { rules });
}

function checked(value: unknown): Rule[] {
  try {
    return parseRules(value);
  } catch (error) {
    throw error instanceof WrongRule ? unreadable(FILE, error.message, error.meant) : error;
  }
}

/** Adds a rule, or changes the one with these words; what was approved for that stays. Returns the whole rule. */
export function addRule(
  selector: Selector,
  { options, trust }: { options: BridgeOptions; trust?: boolean | undefined },
): Promise<{ rule: Rule; isNew: boolean }> {
  return whileLocked(() => {
    const rules = readRules();
    const before = rules.findIndex((rule) => ruleName(rule) === selectorName(selector));
    const known = rules[before] ?? {
      approved: { images: [], directories: [] },
      added: new Date().toISOString(),
      trust: false,
    };
    // Like `up`: what was said before holds until it is changed by name.
    const merged = mergedOptions(rules[before]?.options ?? {}, options);
    checkKeyChoice(options, rules[before]?.options);
    checkOptions(merged);
    const rule: Rule = { ...known, selector, options: merged, ...(trust === undefined ? {} : { trust }) };
    writeRules(before < 0 ? [...rules, rule] : rules.with(before, rule));
    return { rule, isNew: before < 0 };
  });
}

/** Removes the rule with these words; false if there is none. */
export function removeRule(name: string): Promise<boolean> {
  return whileLocked(() => {
    const rules = readRules();
    const left = rules.filter((rule) => ruleName(rule) !== name);
    if (left.length < rules.length) writeRules(left);
    return left.length < rules.length;
  });
}

/** Something that a person says yes to for one rule. */
export interface Approval {
  rule: string;
  image: string;
  directory?: string;
}

/** Keeps that a person said yes. A rule that was removed meanwhile is left out. */
export function approve(approvals: readonly Approval[]): Promise<void> {
  return whileLocked(() => {
    const rules = readRules().map((rule) => {
      const added = approvals.filter((approval) => approval.rule === ruleName(rule));
      const { images, directories } = rule.approved;
      const approved = {
        images: withNew(
          images,
          added.map(({ image }) => image),
        ),
        directories: withNew(
          directories,
          added.flatMap(({ directory }) => directory ?? []),
        ),
      };
      return { ...rule, approved };
    });
    writeRules(rules);
  });
}

function withNew(known: readonly string[], added: readonly string[]): string[] {
  return [...new Set([...known, ...added])].slice(-MAX_APPROVED);
}
