import { connect } from 'node:net';
import { json } from 'node:stream/consumers';
import { inject } from 'vitest';
import { ContainerEngine, type EngineAddress } from './containers.ts';
import type { ServiceAnswer, ServiceRequest } from './service.ts';

/**
 * The engine that all test files of this run share; started when the first asks for it, ended with the
 * run. A test removes the containers it starts. One that stops the engine starts its own
 * (`DockerEngine.start()`).
 */
export async function sharedEngine(kind: 'docker' | 'podman'): Promise<ContainerEngine> {
  const address = (await ask({ engine: kind })) as EngineAddress;
  return new ContainerEngine(address, async (image) => (await ask({ engine: kind, image })) as string);
}

async function ask(request: ServiceRequest): Promise<unknown> {
  const socket = connect(inject('engineService'));
  socket.end(JSON.stringify(request));
  const answer = (await json(socket)) as ServiceAnswer;
  if (answer.ok) return answer.value;
  throw new Error(answer.message);
}
