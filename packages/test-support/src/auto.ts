import { expect, onTestFinished } from 'vitest';
import type { Person, Started } from './cli.ts';

/** What `gpg-bridge status --json` tells of a bridge that a rule brought up. */
export interface RuleBridge {
  target: string;
  id: string;
  pid: number;
  state: string;
  rule: string | null;
}

/** Something that waits for a person, as `gpg-bridge auto approve --json` tells it. */
export interface Waiting {
  rule: string;
  container: string;
  image: string;
  directory?: string;
}

/** Starts `auto run`, and resolves when it watches the engine; ended with the test, which it has to survive. */
export async function startAuto(person: Person, kind: 'docker' | 'podman'): Promise<Started> {
  const auto = person.start(['auto', 'run']);
  onTestFinished(async () => {
    auto.child.kill('SIGTERM');
    expect(await auto.exited).toBe(0);
  });
  await auto.printed(new RegExp(`watching ${kind}\\b`), 'stderr');
  return auto;
}

/** What it says when it has brought a bridge up. */
export function saysUp(kind: string, name: string): RegExp {
  return new RegExp(`${kind}:${name}: the bridge is up`);
}

/** How many bridges to a container it has brought up. */
export function timesUp(auto: Started, kind: string, name: string): number {
  return auto.stderr.match(new RegExp(saysUp(kind, name).source, 'g'))?.length ?? 0;
}
