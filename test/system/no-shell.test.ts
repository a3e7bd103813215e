import { delimiter } from 'node:path';
import { personWithContainer } from '@gpg-bridge/test-support/bridged';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

describe.each(['docker', 'podman'] as const)('with %s', (kind) => {
  requireSystem(kind)('a container without a shell', () => {
    it.each(['API', 'command'] as const)(
      'is status 5 and its name, over the engine’s %s, and leaves nothing',
      async (way) => {
        const engine = await sharedEngine(kind);
        const { person, container, name } = await personWithContainer(engine, { image: 'plain' });
        await container.execOk(['rm', '/bin/sh']);
        const variable = kind === 'docker' ? 'DOCKER_HOST' : 'CONTAINER_HOST';
        if (way === 'API') person.env[variable] = `unix://${engine.socketPath}`;
        else {
          // The command alone knows a way to this address.
          const programs = await tempDir();
          const own = process.env.PATH ?? '';
          const host = kind === 'docker' ? `DOCKER_HOST=unix://${engine.socketPath}` : `-u ${variable}`;
          await writeScript(programs, kind, `PATH='${own}' exec env ${host} ${kind} "$@"`);
          person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
          person.env[variable] = 'tcp://127.0.0.1:1';
        }
        const { status, stderr } = await person.run(['up', name]);
        expect(stderr).toMatch(/^gpg-bridge: nothing in \S+ can run the bridge's end: [^\n]*\bsh\b[^\n]*\n$/);
        expect(stderr).toContain(name);
        expect(stderr).toContain('an image with a shell');
        expect(status).toBe(5);
        expect(await person.files()).toEqual([]);
        expect(await person.json('status')).toEqual([]);
      },
    );
  });
});
