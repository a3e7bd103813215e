import { BridgeError } from '@gpg-bridge/core/errors';
import { isContainerName } from './container-errors.ts';
import type { ContainerDetails, ContainerInfo, EngineKind } from './engine.ts';

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

/** Engines allow fewer. */
const MAX_IMAGE_NAME = 512;

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

/** What is read of it beside that. */
interface DetailedDocument {
  Image?: unknown;
  State?: { StartedAt?: unknown } | null;
  Config?: { Labels?: unknown; Image?: unknown } | null;
}

/** Reads the same with the image, the labels and the time of the last start. */
export function parseContainerDetails(kind: EngineKind, document: unknown): ContainerDetails {
  const info = parseContainerInfo(kind, document);
  const { Image, State, Config } = document as DetailedDocument;
  const image = typeof Image === 'string' ? Image.replace(/^sha256:/, '') : '';
  if (!CONTAINER_ID.test(image)) throw unknownForm(kind, 'the id of its image is missing or is none');
  const started = typeof State?.StartedAt === 'string' ? Date.parse(State.StartedAt) : Number.NaN;
  return {
    ...info,
    image,
    imageName: typeof Config?.Image === 'string' ? Config.Image.slice(0, MAX_IMAGE_NAME) : '',
    labels: parseLabels(Config?.Labels),
    startedAt: Number.isNaN(started) ? undefined : started,
  };
}

/** The ids in what an engine lists; anything else in it is left out. */
export function parseContainerIds(listed: readonly unknown[]): string[] {
  return listed.filter((id): id is string => typeof id === 'string' && CONTAINER_ID.test(id));
}

/** The labels in what both engines print for an image. */
export function parseImageLabels(document: unknown): ReadonlyMap<string, string> {
  const { Config, Labels } = (document ?? {}) as { Config?: { Labels?: unknown } | null; Labels?: unknown };
  return new Map([...parseLabels(Labels), ...parseLabels(Config?.Labels)]);
}

function parseLabels(labels: unknown): ReadonlyMap<string, string> {
  if (typeof labels !== 'object' || labels === null) return new Map();
  return new Map(
    Object.entries(labels).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

function unknownForm(kind: EngineKind, why: string): BridgeError {
  return new BridgeError('ENGINE_FAILED', {
    what: `${kind} described the container in a form that is not known`,
    why,
    fix: `Check what \`${kind} inspect\` prints for it.`,
  });
}
