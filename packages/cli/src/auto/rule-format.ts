import { BridgeError } from '@gpg-bridge/core/errors';
import { nearest } from '@gpg-bridge/core/text/nearest';
import { type BridgeOptions, checkOptions } from '../bridge-options.ts';
import { FILE_OPTIONS, TEXT, TEXT_LIST, type ValueRule, YES_OR_NO } from '../option-values.ts';
import {
  composeSelector,
  labelSelector,
  nameSelector,
  type Selector,
  selectorName,
  WrongSelector,
} from './selector.ts';

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

/** What is wrong with a file of rules: in which rule and field, why, and what may be meant. */
export class WrongRule extends Error {
  constructor(
    why: string,
    /** A question to the person, if there is a name that they may have meant. */
    readonly meant?: string,
  ) {
    super(why);
  }
}

type Fields = Readonly<Record<string, ValueRule>>;

const OBJECT: ValueRule = {
  takes: 'an object',
  accepts: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};
const TIME: ValueRule = {
  takes: 'an ISO time',
  accepts: (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value)),
};
const LABEL_VALUE: ValueRule = { takes: 'a text', accepts: (value) => typeof value === 'string' };

const FILE_FIELDS: Fields = { rules: { takes: 'a list of rules', accepts: Array.isArray } };
const RULE_FIELDS: Fields = {
  selector: OBJECT,
  options: OBJECT,
  trust: YES_OR_NO,
  added: TIME,
  approved: OBJECT,
};
const APPROVED_FIELDS: Fields = { images: TEXT_LIST, directories: TEXT_LIST };

/** The fields of each kind of selector, and the one that is at fault where its words select nothing. */
const SELECTORS: Readonly<
  Record<Selector['kind'], { fields: Fields; optional: Fields; text: string; read(fields: Texts): Selector }>
> = {
  name: {
    fields: { pattern: TEXT },
    optional: {
      engine: { takes: '"docker" or "podman"', accepts: (value) => value === 'docker' || value === 'podman' },
    },
    text: 'pattern',
    read: ({ pattern, engine }) => nameSelector(engine ? `${engine}:${pattern}` : pattern!),
  },
  compose: {
    fields: { project: TEXT },
    optional: {},
    text: 'project',
    read: ({ project }) => composeSelector(project!),
  },
  label: {
    fields: { key: TEXT, value: LABEL_VALUE },
    optional: {},
    text: 'key',
    read: ({ key, value }) => labelSelector(`${key}=${value}`),
  },
};

type Texts = Readonly<Partial<Record<string, string>>>;

/** The rules that a file's value says; throws WrongRule for anything else. */
export function parseRules(value: unknown): Rule[] {
  if (!OBJECT.accepts(value)) throw new WrongRule('it takes an object with the field "rules"');
  checkFields(value, '', FILE_FIELDS);
  const rules = (value as { rules: unknown[] }).rules.map((rule, index) =>
    parseRule(rule, `rule ${index + 1}`),
  );
  checkNames(rules.map(({ selector }) => selectorName(selector)));
  return rules;
}

/** The options of a second rule for the same containers would count for nothing. */
function checkNames(names: readonly string[]): void {
  const second = names.findIndex((name, index) => names.indexOf(name) < index);
  if (second < 0) return;
  throw new WrongRule(`rule ${second + 1} has the selector of rule ${names.indexOf(names[second]!) + 1}`);
}

function parseRule(value: unknown, place: string): Rule {
  if (!OBJECT.accepts(value)) throw new WrongRule(`${place} takes an object`);
  const { selector, approved, options } = value as Partial<Record<keyof Rule, unknown>>;
  checkFields(value, `${place} has `, RULE_FIELDS);
  const within = (field: string) => `${place} has ${field}.`;
  checkSelector(selector, within('selector'));
  checkFields(approved, within('approved'), APPROVED_FIELDS);
  checkFields(options, within('options'), {}, FILE_OPTIONS);
  checkTogether(options as BridgeOptions, `${place} has options`);
  return value as Rule;
}

function checkSelector(value: unknown, place: string): void {
  const { kind } = value as { kind?: unknown };
  const kinds = Object.keys(SELECTORS);
  const isKind = typeof kind === 'string' && Object.hasOwn(SELECTORS, kind);
  if (!isKind) {
    const listed = kinds.map((name) => JSON.stringify(name)).join(', ');
    throw new WrongRule(
      `${place}kind ${shown(kind)}, and it takes one of ${listed}`,
      suggestion(String(kind), kinds),
    );
  }
  const { fields, optional, text, read } = SELECTORS[kind as Selector['kind']];
  checkFields(value, place, { kind: TEXT, ...fields }, optional);
  const selected = selectedBy(() => read(value as Texts), `${place}${text}`);
  if (!isSame(selected, value as Selector))
    throw new WrongRule(`${place}${text} that selects nothing: it takes ${JSON.stringify(selected)}`);
}

function selectedBy(read: () => Selector, place: string): Selector {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof WrongSelector)) throw error;
    throw new WrongRule(`${place} that selects nothing: ${error.message}`);
  }
}

function isSame(one: Selector, other: Selector): boolean {
  const fields = (selector: Selector) => JSON.stringify(Object.entries(selector).sort());
  return fields(one) === fields(other);
}

/** Throws unless an object has these fields, maybe the optional ones, and no others. */
function checkFields(value: unknown, place: string, fields: Fields, optional: Fields = {}): void {
  const known: Fields = { ...fields, ...optional };
  for (const [name, content] of Object.entries(value as object)) {
    const rule = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!rule) throw unknownField(name, place, Object.keys(known));
    if (!rule.accepts(content))
      throw new WrongRule(`${place}${name} ${shown(content)}, and it takes ${rule.takes}`);
  }
  const missing = Object.keys(fields).find((name) => !Object.hasOwn(value as object, name));
  if (missing !== undefined) throw new WrongRule(`${place}${missing} missing`);
}

function unknownField(name: string, place: string, known: readonly string[]): WrongRule {
  return new WrongRule(`${place}${name}, which is unknown`, suggestion(name, known));
}

function suggestion(name: string, known: readonly string[]): string | undefined {
  const meant = nearest(name, known);
  return meant === undefined ? undefined : `Did you mean ${JSON.stringify(meant)}?`;
}

/** Options that exclude each other make no bridge. */
function checkTogether(options: BridgeOptions, place: string): void {
  try {
    checkOptions(options);
  } catch (error) {
    if (!(error instanceof BridgeError)) throw error;
    throw new WrongRule(`${place} that make no bridge: ${error.why}`);
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'missing' : JSON.stringify(value).slice(0, 100);
}
