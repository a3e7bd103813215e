import { BridgeError } from '@gpg-bridge/core/errors';
import { describeFailure, runProgram } from '@gpg-bridge/core/process/run-program';

/** A remote engine that podman knows by a name. */
export interface PodmanConnection {
  name: string;
  uri: string;
}

interface ListedConnection {
  Name?: string;
  URI?: string;
  Default?: boolean;
}

/** The connection with this name, or podman's default one; undefined if there is no default. */
export async function podmanConnection(
  env: NodeJS.ProcessEnv,
  name: string | undefined,
): Promise<PodmanConnection | undefined> {
  // The variable would have podman reach that very engine first.
  const { CONTAINER_CONNECTION: _connection, ...rest } = env;
  const args = ['system', 'connection', 'list', '--format=json'];
  const result = await runProgram('podman', args, { env: rest }).catch((error: Error) => {
    throw unknownConnection(name, error.message);
  });
  if (result.status !== 0) throw unknownConnection(name, describeFailure(result));
  const listed = parse(result.stdout.toString());
  // Older versions mark the default with a star behind its name.
  const found = listed.find(({ Name = '', Default }) =>
    name === undefined ? Default || Name.endsWith('*') : Name.replace(/\*$/, '') === name,
  );
  if (found?.Name && found.URI) return { name: found.Name.replace(/\*$/, ''), uri: found.URI };
  if (name === undefined) return undefined;
  throw unknownConnection(name, 'podman knows no connection of this name');
}

function parse(text: string): ListedConnection[] {
  try {
    return (JSON.parse(text) as ListedConnection[] | null) ?? [];
  } catch {
    return []; // nothing but a heading
  }
}

function unknownConnection(name: string | undefined, why: string): BridgeError {
  return new BridgeError('ENGINE_UNREACHABLE', {
    what: `podman's connection ${name === undefined ? '' : JSON.stringify(name)} is of no use`.replace(
      '  ',
      ' ',
    ),
    why,
    fix: 'See `podman system connection list`, and choose one with CONTAINER_CONNECTION.',
  });
}
