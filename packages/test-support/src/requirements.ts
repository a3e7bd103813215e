import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { hasKubernetes } from './kubernetes/programs.ts';
import { OTHER_ARCHITECTURE, OWN_ARCHITECTURE, whatNativeNeeds } from './native-server.ts';
import { hasWindows } from './windows/programs.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Why a suite could not run here; shown at the end of the run. */
    notRun?: string;
  }
}

/** What a machine needs before a suite can run on it. */
interface Requirement {
  root?: boolean;
  programs: readonly string[];
  /** Says what else is missing. */
  other?: () => string | undefined;
}

const REQUIREMENTS = {
  docker: { root: true, programs: ['dockerd', 'containerd', 'runc', 'docker', 'mmdebstrap', 'setpriv'] },
  podman: { root: true, programs: ['podman', 'conmon', 'runc', 'mmdebstrap', 'setpriv'] },
  sshd: { root: true, programs: ['sshd', 'ssh', 'ssh-keygen', 'setpriv'] },
  kubernetes: {
    root: true,
    programs: ['containerd', 'runc', 'ctr', 'mmdebstrap', 'openssl', 'nsenter', 'ip', 'setpriv'],
    other: () => (hasKubernetes() ? undefined : 'kubernetes needs to be built once: scripts/kubernetes.sh'),
  },
  compose: { programs: ['docker-compose'] },
  windows: {
    programs: ['wine', 'setpriv'],
    other: () => (hasWindows() ? undefined : 'windows needs to be built once: scripts/windows.sh'),
  },
  root: { root: true, programs: [] },
  namespaces: { root: true, programs: ['unshare', 'pivot_root', 'mount', 'umount', 'setpriv'] },
  mount: { root: true, programs: ['mount', 'umount'] },
  systemd: { root: true, programs: ['systemd', 'systemctl', 'unshare', 'nsenter', 'setpriv'] },
  zsh: { programs: ['zsh', 'tmux'] },
  fish: { programs: ['fish', 'tmux'] },
  bash: { programs: ['bash', 'tmux'] },
  shells: { programs: ['csh', 'tcsh', 'zsh', 'fish'] },
  chromium: { programs: ['chromium'] },
  expect: { programs: ['expect'] },
  tmux: { programs: ['tmux'] },
  pinentry: { programs: ['pinentry-curses', 'pinentry-tty'] },
  socat: { programs: ['socat'] },
  openssl: { programs: ['openssl'] },
  gpgsm: { programs: ['gpgsm'] },
  perl: { programs: ['perl'] },
  native: { programs: [], other: () => whatNativeNeeds(OWN_ARCHITECTURE) },
  emulated: {
    programs: [`qemu-${OTHER_ARCHITECTURE}-static`],
    other: () => whatNativeNeeds(OTHER_ARCHITECTURE),
  },
} as const satisfies Record<string, Requirement>;

/** Something a suite may need from the machine. */
export type RequirementName = keyof typeof REQUIREMENTS;

/**
 * `describe` for a suite that needs these. Where one is missing the suite does not run, and the summary
 * says so and why; with CI=true that is a failure.
 */
export function requireSystem(
  ...names: readonly RequirementName[]
): (name: string, suite: () => void) => void {
  const reasons = names.flatMap((name) => whatIsMissing(name));
  if (reasons.length === 0) return (name, suite) => describe(name, suite);
  const reason = reasons.join('; ');
  return (name) =>
    describe(name, () => {
      it('can run here', ({ task, skip }) => {
        if (process.env.CI === 'true') throw new Error(`this suite did not run: ${reason}`);
        task.meta.notRun = reason;
        skip(reason);
      });
    });
}

/** `describe` for a suite about one of the socket server's runtimes; Node is what runs the tests. */
export function requireRuntime(
  runtime: 'node' | 'perl' | 'native' | 'emulated',
): (name: string, suite: () => void) => void {
  return runtime === 'node' ? (name, suite) => describe(name, suite) : requireSystem(runtime);
}

/** Why a requirement is not met; empty if it is. */
export function whatIsMissing(name: RequirementName): string[] {
  const requirement: Requirement = REQUIREMENTS[name];
  const reasons = requirement.programs
    .filter((program) => !isOnPath(program))
    .map((program) => `${name} needs the program ${program}`);
  const other = requirement.other?.();
  if (other) reasons.push(other);
  if (requirement.root && process.getuid?.() !== 0) reasons.push(`${name} needs root`);
  return reasons;
}

/** Whether the machine has a program. */
export function isOnPath(program: string): boolean {
  const dirs = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin'];
  return dirs.some((dir) => {
    try {
      accessSync(join(dir, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
