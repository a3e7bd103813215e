import { BridgeError } from '@gpg-bridge/core/errors';
import { isContainerName } from './container-errors.ts';
import type { ContainerInfo, EngineKind } from './engine.ts';

/** What is read of a description; an engine may say anything. */
interface InspectDocument {
  Id?: unknown;
  Name?: unknown;
  State?: { Running?: unknown } | null;
  Config?: { User?: unknown } | null;
}

/** A full ID, and what podman calls one. */
const CONTAINER_ID = /^[0-9a-f]{64}$/;
/** A name or a number, and maybe the same of a group: no blank, and nothing that a terminal would obey. */
const USER = /^[^\p{C}\p{Z}]{0,256}$/u;

/** Reads what the API and `inspect` of both engines print for a container, and refuses what no engine calls one. */
export function parseContainerInfo(kind: EngineKind, document: unknown): ContainerInfo {
  const { Id, Name, State, Config } = (document ?? {}) as InspectDocument;
  const name = typeof Name === 'string' ? Name.replace(/^\//, '') : Id;
  const user = Config?.User ?? '';
  if (typeof Id !== 'string' || !CONTAINER_ID.test(Id))
    throw unknownForm(kind, 'the id is missing or is none');
  if (typeof State !== 'object' || State === null) throw unknownForm(kind, 'the state is missing');
  if (typeof name !== 'string' || !isContainerName(name)) {
    throw unknownForm(kind, `its name ${JSON.stringify(name)} can't be the name of a container`);
  }
  if (typeof user !== 'string' || !USER.test(user)) {
    throw unknownForm(kind, `its user ${JSON.stringify(user)} can't be the name of a user`);
  }
  return { id: Id, name, running: State.Running === true, user };
}

function unknownForm(kind: EngineKind, why: string): BridgeError {
  return new BridgeError('ENGINE_FAILED', {
    what: `${kind} described the container in a form that is not known`,
    why,
    fix: `Check what \`${kind} inspect\` prints for it.`,
  });
}
