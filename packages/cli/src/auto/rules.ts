import type { BridgeOptions } from '../bridge-options.ts';
import { type Selector, selectorName } from './selector.ts';
import { readState, unreadable, whileLocked, writeState } from './state-file.ts';

/** Containers that get a bridge by themselves, and what that is. */
export interface Rule {
  selector: Selector;
  /** What `up` would be given. */
  options: BridgeOptions;
  /** Bridges whatever matches, without a question about where it comes from. */
  trust: boolean;
  /** ISO time at which it was added. */
  added: string;
  /** What a person has said yes to: IDs of images, and directories of projects. */
  approved: { images: string[]; directories: string[] };
}

const FILE = 'auto-rules.json';
/** Of each kind; the oldest are asked about again. Images are built anew all the time. */
const MAX_APPROVED = 1_000;

/** What a rule is called: the words that it was added with. */
export function ruleName({ selector }: Rule): string {
  return selectorName(selector);
}

/** Every rule, in the order in which they were added. */
export function readRules(): Rule[] {
  const { rules = [] } = (readState(FILE) ?? {}) as { rules?: unknown };
  if (!Array.isArray(rules) || !rules.every(isRule))
    throw unreadable(FILE, 'it has something that is no rule');
  return rules;
}

/** Adds a rule, or changes the one with these words; what was approved for that stays. True if it is new. */
export function addRule(
  selector: Selector,
  { options, trust }: Pick<Rule, 'options' | 'trust'>,
): Promise<boolean> {
  return whileLocked(() => {
    const rules = readRules();
    const before = rules.findIndex((rule) => ruleName(rule) === selectorName(selector));
    const { approved, added } = rules[before] ?? {
      approved: { images: [], directories: [] },
      added: new Date().toISOString(),
    };
    const rule: Rule = { selector, options, trust, added, approved };
    writeState(FILE, { rules: before < 0 ? [...rules, rule] : rules.with(before, rule) });
    return before < 0;
  });
}

/** Removes the rule with these words; false if there is none. */
export function removeRule(name: string): Promise<boolean> {
  return whileLocked(() => {
    const rules = readRules();
    const left = rules.filter((rule) => ruleName(rule) !== name);
    if (left.length < rules.length) writeState(FILE, { rules: left });
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
    writeState(FILE, { rules });
  });
}

function withNew(known: readonly string[], added: readonly string[]): string[] {
  return [...new Set([...known, ...added])].slice(-MAX_APPROVED);
}

function isRule(value: unknown): value is Rule {
  const { selector, options, trust, added, approved } = (value ?? {}) as Partial<Record<keyof Rule, unknown>>;
  const { images, directories } = (approved ?? {}) as Partial<Record<string, unknown>>;
  return (
    isSelector(selector) &&
    typeof options === 'object' &&
    options !== null &&
    typeof trust === 'boolean' &&
    typeof added === 'string' &&
    isTextList(images) &&
    isTextList(directories)
  );
}

/** The fields that each kind of selector has. */
const SELECTOR_FIELDS: Readonly<Record<Selector['kind'], readonly string[]>> = {
  name: ['pattern'],
  compose: ['project'],
  label: ['key', 'value'],
};

function isSelector(value: unknown): value is Selector {
  const fields = (value ?? {}) as Partial<Record<string, unknown>>;
  const kind = String(fields.kind);
  if (!Object.hasOwn(SELECTOR_FIELDS, kind)) return false;
  return SELECTOR_FIELDS[kind as Selector['kind']].every((field) => typeof fields[field] === 'string');
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
