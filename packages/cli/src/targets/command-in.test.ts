import { describe, expect, it } from 'vitest';
import { commandIn } from './command-in.ts';

describe('commandIn', () => {
  it.each([
    [
      { kind: 'docker', id: 'x', shell: 'docker exec -it -u dev box sh' },
      "docker exec -u dev box sh -c 'a && b'",
    ],
    [
      { kind: 'k8s', id: 'x', shell: 'kubectl exec -it pod -c app -- sh' },
      "kubectl exec pod -c app -- sh -c 'a && b'",
    ],
    [{ kind: 'ssh', id: 'me@host', shell: 'ssh me@host' }, "ssh me@host 'a && b'"],
    [{ kind: 'wsl', id: 'Debian', shell: 'wsl -d Debian' }, "wsl -d Debian -- sh -c 'a && b'"],
    [{ kind: 'local', id: '/h o' }, "GNUPGHOME='/h o' sh -c 'a && b'"],
    [{ kind: 'exec', id: 'lxc exec box --' }, "lxc exec box -- sh -c 'a && b'"],
  ])('of %j', (target, line) => {
    expect(commandIn(target, 'a && b')).toBe(line);
  });
});
