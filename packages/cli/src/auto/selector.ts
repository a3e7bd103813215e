import type { EngineKind } from '../engine/engine.ts';

/** Which containers a rule is for. `*` and `?` stand for any characters and for one. */
export type Selector =
  | { kind: 'name'; pattern: string; engine?: EngineKind }
  | { kind: 'compose'; project: string }
  | { kind: 'label'; key: string; value: string };

/** Letters of a container's name, and those of a pattern. */
const NAME_PATTERN = /^(?:(docker|podman):)?([A-Za-z0-9_.*?-]{1,255})$/;
/** A project is a word; its pattern may have both signs. */
const PROJECT_PATTERN = /^[A-Za-z0-9_.*?-]{1,255}$/;
/** A label's key has no blank and nothing that a terminal would obey; its value may be any text but that. */
const LABEL = /^([^\p{C}\p{Z}=]{1,255})=([^\p{C}]{0,4096})$/u;

/** Why words select no containers; a text for a person. */
export class WrongSelector extends Error {}

/** Reads the pattern of a container's name, with the engine before it if it is for one alone. */
export function nameSelector(text: string): Selector {
  const [, engine, pattern] = NAME_PATTERN.exec(text) ?? [];
  if (pattern === undefined || pattern.startsWith('-'))
    throw new WrongSelector(`'${text}' can't be the name of a container, nor a pattern of one`);
  return { kind: 'name', pattern, ...(engine ? { engine: engine as EngineKind } : {}) };
}

/** Reads the name of a compose project. */
export function composeSelector(text: string): Selector {
  if (!PROJECT_PATTERN.test(text))
    throw new WrongSelector(`--compose takes the name of a project, not '${text}'`);
  return { kind: 'compose', project: text };
}

/** Reads a label. */
export function labelSelector(text: string): Selector {
  const [, key, value] = LABEL.exec(text) ?? [];
  if (key === undefined || value === undefined)
    throw new WrongSelector(`--label takes KEY=VALUE, not '${text}'`);
  return { kind: 'label', key, value };
}

/** The words that say it, as `auto add` and `auto remove` take them. */
export function selectorWords(selector: Selector): string[] {
  switch (selector.kind) {
    case 'name':
      return [selector.engine ? `${selector.engine}:${selector.pattern}` : selector.pattern];
    case 'compose':
      return ['--compose', selector.project];
    default:
      return ['--label', `${selector.key}=${selector.value}`];
  }
}

/** The same as one text: what a rule is called. */
export function selectorName(selector: Selector): string {
  return selectorWords(selector).join(' ');
}

/** Whether a text is what a pattern stands for, as a whole. */
export function matchesPattern(pattern: string, text: string): boolean {
  // Two pointers instead of an expression: the time is bounded whatever the pattern.
  let [p, t] = [0, 0];
  let [star, resume] = [-1, 0];
  while (t < text.length) {
    if (pattern[p] === '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.length && (pattern[p] === '?' || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else return false;
  }
  while (pattern[p] === '*') p++;
  return p === pattern.length;
}
