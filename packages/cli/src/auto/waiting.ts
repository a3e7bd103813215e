import type { EngineKind } from '../engine/engine.ts';
import { isApproved, type Origin } from './matching.ts';
import { type Rule, ruleName } from './rules.ts';
import { readState, unreadable, writeState } from './state-file.ts';

/** A container that got no bridge yet, because a person has not said yes to where it comes from. */
export interface WaitingContainer extends Origin {
  /** The words of the rule. */
  rule: string;
  engine: EngineKind;
  /** The container's name when it was seen last. */
  container: string;
  /** What its image is called. */
  imageName: string;
  /** ISO time at which that was. */
  since: string;
}

const FILE = 'auto-waiting.json';
/** Projects can start any number of containers; the oldest are shown again when they start again. */
const MAX_WAITING = 200;

/** What waits for a person, as far as a rule still asks for it. */
export function readWaiting(rules: readonly Rule[]): WaitingContainer[] {
  const { waiting = [] } = (readState(FILE) ?? {}) as { waiting?: unknown };
  if (!Array.isArray(waiting) || !waiting.every(isWaiting))
    throw unreadable(FILE, 'it has something that is no container');
  return stillWaiting(waiting, rules);
}

/** Notes a container; the same image and directory are noted once for each rule and name. True if it is news. */
export function noteWaiting(container: WaitingContainer, rules: readonly Rule[]): boolean {
  const before = readWaiting(rules);
  const others = before.filter((each) => !isSame(each, container));
  writeState(FILE, { waiting: [...others, container].slice(-MAX_WAITING) });
  return others.length === before.length;
}

function isSame(a: WaitingContainer, b: WaitingContainer): boolean {
  const fields = ['rule', 'engine', 'container', 'image', 'directory'] as const;
  return fields.every((field) => a[field] === b[field]);
}

function stillWaiting(waiting: readonly WaitingContainer[], rules: readonly Rule[]): WaitingContainer[] {
  return waiting.filter((each) => {
    const rule = rules.find((one) => ruleName(one) === each.rule);
    return rule !== undefined && !isApproved(rule, each);
  });
}

function isWaiting(value: unknown): value is WaitingContainer {
  const fields = (value ?? {}) as Partial<Record<keyof WaitingContainer, unknown>>;
  const { rule, engine, container, image, imageName, directory, since } = fields;
  return (
    [rule, container, image, imageName, since].every((each) => typeof each === 'string') &&
    (engine === 'docker' || engine === 'podman') &&
    (directory === undefined || typeof directory === 'string')
  );
}
