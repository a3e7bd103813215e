import type { ContainerDetails, EngineKind } from '../engine/engine.ts';
import type { Rule } from './rules.ts';
import { matchesPattern } from './selector.ts';

/** A container, and what the engine says about it. */
export interface Candidate {
  engine: EngineKind;
  details: ContainerDetails;
  /** The labels that it was given itself. */
  ownLabels: ReadonlyMap<string, string>;
}

/** What is approved: an image, and the directory of the project that the container is from, if it is from one. */
export interface Origin {
  /** The ID of the image. */
  image: string;
  directory?: string;
}

/** What becomes of a container: nothing, a bridge by a rule, or a question about where it comes from. */
export type Verdict =
  | { kind: 'none' }
  | { kind: 'bridge'; rule: Rule }
  | { kind: 'waiting'; rule: Rule; origin: Origin };

const COMPOSE_PROJECT = 'com.docker.compose.project';
/** Where compose and dev containers note the directory that they were called in. */
const DIRECTORY_LABELS = ['com.docker.compose.project.working_dir', 'devcontainer.local_folder'] as const;

/** Labels without those that the image brought: an image must not invite itself. */
export function withoutInherited(
  labels: ReadonlyMap<string, string>,
  imageLabels: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  return new Map([...labels].filter(([key, value]) => imageLabels.get(key) !== value));
}

/** Whether a rule is for a container. */
export function matches({ selector }: Rule, { engine, details, ownLabels }: Candidate): boolean {
  switch (selector.kind) {
    case 'name':
      return (
        (selector.engine === undefined || selector.engine === engine) &&
        matchesPattern(selector.pattern, details.name)
      );
    case 'compose':
      return matchesLabel(ownLabels, COMPOSE_PROJECT, selector.project);
    default:
      return matchesLabel(ownLabels, selector.key, selector.value);
  }
}

function matchesLabel(labels: ReadonlyMap<string, string>, key: string, pattern: string): boolean {
  const value = labels.get(key);
  return value !== undefined && matchesPattern(pattern, value);
}

/**
 * Where a container comes from. A directory counts wherever its label is from, and all of them together: what a project
 * says of itself can make what is asked about more, and never hide the directory that a tool has noted.
 */
export function originOf({ image, labels }: ContainerDetails): Origin {
  const directories = new Set(DIRECTORY_LABELS.flatMap((key) => labels.get(key) || []));
  return { image, ...(directories.size === 0 ? {} : { directory: [...directories].join(', ') }) };
}

/** Whether a person has said yes to everything that a container comes from. */
export function isApproved({ trust, approved }: Rule, { image, directory }: Origin): boolean {
  if (trust) return true;
  return (
    approved.images.includes(image) && (directory === undefined || approved.directories.includes(directory))
  );
}

/** The first rule that a container may be bridged by; else the first that it waits for. */
export function judge(rules: readonly Rule[], candidate: Candidate): Verdict {
  const matching = rules.filter((rule) => matches(rule, candidate));
  const origin = originOf(candidate.details);
  const allowed = matching.find((rule) => isApproved(rule, origin));
  if (allowed) return { kind: 'bridge', rule: allowed };
  const [first] = matching;
  return first ? { kind: 'waiting', rule: first, origin } : { kind: 'none' };
}
