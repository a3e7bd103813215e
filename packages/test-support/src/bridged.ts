import { onTestFinished } from 'vitest';
import { Person, type PersonOptions } from './cli.ts';
import type { Container, ContainerEngine, ContainerOptions, ExecOptions } from './engine/containers.ts';

/** What `gpg-bridge up --json` prints. */
export interface Up {
  target: string;
  id: string;
  pid: number;
  runtime: string;
  sockets: { type: string; path: string }[];
}

/** A person, and a container of the test's own on an engine that the person's programs find. */
export async function personWithContainer(
  engine: ContainerEngine,
  options: ContainerOptions = {},
  personOptions: PersonOptions = {},
): Promise<{ person: Person; container: Container; name: string }> {
  const container = await engine.startContainer(options);
  onTestFinished(() => container.remove());
  const person = await Person.create({ env: engine.env, ...personOptions });
  const prefix = engine.address.program === 'podman' ? 'podman:' : '';
  return { person, container, name: `${prefix}${container.name}` };
}

/** Signs inside with a key, verifies that there, and returns gpg's verdict. */
export function signInside(container: Container, signer = 'ada@example.org', options: ExecOptions = {}) {
  return container.execOk(
    [
      'sh',
      '-c',
      `echo hello | gpg --batch -u ${signer} --clear-sign > /tmp/signed.$$ && gpg --batch --status-fd 1 --verify /tmp/signed.$$ && rm /tmp/signed.$$`,
    ],
    options,
  );
}

/** Processes inside whose command line matches, by their ids there. */
export async function processesInside(container: Container, pattern: string): Promise<string[]> {
  const script = `for d in /proc/[0-9]*; do [ "\${d#/proc/}" = $$ ] && continue; c=$(tr '\\0' ' ' < $d/cmdline 2>/dev/null) || continue; case $c in ${pattern}) echo "\${d#/proc/}";; esac; done`;
  return (await container.execOk(['sh', '-c', script])).split('\n').filter(Boolean);
}
