import { BridgeError } from '@gpg-bridge/core/errors';
import type { EngineKind } from './engine.ts';

/** What the engines accept as a name or an id. */
const CONTAINER_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
/** A host name of 64 and a path have room for less. */
const MAX_NAME = 255;

/** Whether an engine would accept it as a name or an id. */
export function isContainerName(name: string): boolean {
  return name.length <= MAX_NAME && CONTAINER_NAME.test(name);
}

/** Refuses what can't be a container's name, before it is taken for an option or a path. */
export function checkContainerName(kind: EngineKind, name: string): void {
  if (!isContainerName(name)) throw containerNotFound(kind, name, 'this is not a name or id of a container');
}

/** The error for a container that is not there. */
export function containerNotFound(kind: EngineKind, name: string, why: string, meant?: string): BridgeError {
  return new BridgeError('TARGET_NOT_FOUND', {
    what: `${kind} container ${JSON.stringify(name)} not found`,
    why,
    fix: `${meant ? `Did you mean ${meant}? ` : ''}See \`${kind} ps -a\` for the names.`,
  });
}

/** The error for a container in which nothing can be run now. */
export function containerNotRunning(kind: EngineKind, name: string, why: string): BridgeError {
  return new BridgeError('TARGET_NOT_RUNNING', {
    what: `${kind} container ${JSON.stringify(name)} is not running`,
    why,
    fix: `Start it with \`${kind} start ${name}\`, or \`${kind} unpause ${name}\` if it is paused.`,
  });
}
