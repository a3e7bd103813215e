import { describe, expect, it } from 'vitest';
import { matchesTarget } from './match-target.ts';

const ID = '3f1c0a9b8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3';
const docker = { key: `docker\n${ID}\n`, target: 'box', id: ID, options: {} };
const podman = { key: `podman\n${ID}\n`, target: 'podman:box', id: ID, options: {} };
const local = { key: 'local\n/x\n', target: 'local:/x', id: '/x', options: {} };

describe('matchesTarget', () => {
  it.each([
    [docker, 'box', true],
    [docker, 'docker:box', true],
    [docker, ID, true],
    [docker, ID.slice(0, 12), true],
    [docker, `docker:${ID.slice(0, 12)}`, true],
    [docker, ID.slice(0, 11), false],
    [docker, 'podman:box', false],
    [docker, `podman:${ID}`, false],
    [docker, 'bo', false],
    [podman, 'podman:box', true],
    [podman, `podman:${ID}`, true],
    [podman, 'box', false],
    [podman, ID, false],
    [local, 'local:/x', true],
    [local, '/x', false],
  ])('%o by the name %s: %s', (bridge, spec, expected) => {
    expect(matchesTarget(bridge, spec, undefined)).toBe(expected);
  });

  it('tells users apart', () => {
    const dev = { ...docker, options: { user: 'dev' } };
    expect(matchesTarget(dev, 'box', 'dev')).toBe(true);
    expect(matchesTarget(dev, 'box', undefined)).toBe(false);
    expect(matchesTarget(docker, 'box', 'dev')).toBe(false);
  });
});
