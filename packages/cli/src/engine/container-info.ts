import { BridgeError } from '@gpg-bridge/core/errors';
import type { ContainerInfo, EngineKind } from './engine.ts';

interface InspectDocument {
  Id?: string;
  Name?: string;
  State?: { Running?: boolean };
  Config?: { User?: string };
}

/** Reads what the API and `inspect` of both engines print for a container. */
export function parseContainerInfo(kind: EngineKind, document: unknown): ContainerInfo {
  const { Id, Name, State, Config } = (document ?? {}) as InspectDocument;
  if (!Id || !State) {
    throw new BridgeError('ENGINE_FAILED', {
      what: `${kind} described the container in a form that is not known`,
      why: 'the id or the state is missing',
      fix: `Check what \`${kind} inspect\` prints for it.`,
    });
  }
  return {
    id: Id,
    name: (Name ?? Id).replace(/^\//, ''),
    running: State.Running === true,
    user: Config?.User ?? '',
  };
}
