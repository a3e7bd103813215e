import { describe, expect, it } from 'vitest';
import { matchesTarget } from './match-target.ts';

const ID = '3f1c0a9b8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3';
const HERE = 'unix:///var/run/docker.sock';
const docker = { key: `docker\n${ID}\n0`, target: 'box', id: ID, place: HERE };
const podman = { key: `podman\n${ID}\n0`, target: 'podman:box', id: ID, place: HERE };
const pod = { key: 'k8s\n…', target: 'k8s:team/pod-0/app', id: 'team/pod-0/app', place: 'cluster\nuid' };
const deployed = { ...pod, target: 'k8s:team/deploy:web/app' };

describe('matchesTarget', () => {
  it.each([
    [docker, 'docker', 'box', HERE, true],
    [docker, 'docker', ID, HERE, true],
    [docker, 'docker', ID.slice(0, 12), HERE, true],
    [docker, 'docker', ID.slice(0, 11), HERE, false],
    [docker, 'docker', 'box', 'ssh://elsewhere', false],
    [docker, 'docker', ID, 'ssh://elsewhere', false],
    [docker, 'docker', 'bo', HERE, false],
    [docker, 'podman', 'podman:box', HERE, false],
    [podman, 'podman', 'podman:box', HERE, true],
    [podman, 'podman', `podman:${ID}`, HERE, true],
    [podman, 'docker', 'box', HERE, false],
    [pod, 'k8s', 'k8s:team/pod-0', 'cluster', true],
    [pod, 'k8s', 'k8s:team/pod-0/app', 'cluster', true],
    [pod, 'k8s', 'k8s:team/pod-0/other', 'cluster', false],
    [pod, 'k8s', 'k8s:team/pod', 'cluster', false],
    [pod, 'k8s', 'k8s:team/pod-0', 'cluster\nuid', true],
    [pod, 'k8s', 'k8s:team/pod-0', 'cluster\nother uid', false],
    [pod, 'k8s', 'k8s:team/pod-0', 'another cluster', false],
    [deployed, 'k8s', 'k8s:team/deploy:web', 'cluster', true],
    [deployed, 'k8s', 'k8s:team/pod-0', 'cluster', true],
  ])('%o, as %s %s at %s: %s', (bridge, kind, name, place, expected) => {
    expect(matchesTarget(bridge, { kind, name, place })).toBe(expected);
  });
});
