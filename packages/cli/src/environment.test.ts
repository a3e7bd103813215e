import { delimiter, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isForExec, resolvedEnvironment, serviceEnvironment, variablesFor } from './environment.ts';

describe('the environment', () => {
  it.each([
    ['GPG_BRIDGE_STATE_DIR', 'state', '/here/state'],
    ['XDG_STATE_HOME', './state', '/here/state'],
    ['XDG_RUNTIME_DIR', '../run', '/run'],
    ['HOME', '.', '/here'],
    ['SSH_AUTH_SOCK', 'agent', '/here/agent'],
    ['SSH_AUTH_SOCK', '\\\\.\\pipe\\agent', '\\\\.\\pipe\\agent'],
    ['KUBECONFIG', ['a', '', '/b'].join(delimiter), ['/here/a', '/b'].join(delimiter)],
    ['DOCKER_HOST', 'unix://docker.sock', 'unix:///here/docker.sock'],
    ['DOCKER_HOST', 'unix:///run/docker.sock', 'unix:///run/docker.sock'],
    ['DOCKER_HOST', 'tcp://host:2376', 'tcp://host:2376'],
    ['DOCKER_CONTEXT', 'work', 'work'],
    ['GNUPGHOME', '/keys', '/keys'],
    ['GNUPGHOME', '', ''],
    // The working directory must not decide which program runs.
    ['PATH', `bin${delimiter}/usr/bin`, `bin${delimiter}/usr/bin`],
    ['UNKNOWN', 'as/it/is', 'as/it/is'],
  ])('with %s=%s is resolved to %s', (name, value, expected) => {
    expect(resolvedEnvironment({ [name]: value }, '/here')).toEqual({ [name]: expected });
  });

  it('of a service has what decides where engines, agents and files are, with absolute paths', () => {
    const env = {
      PATH: ['/usr/bin', 'bin', ''].join(delimiter),
      GPG_BRIDGE_STATE_DIR: 'state',
      DOCKER_HOST: 'tcp://host:2376',
      DOCKER_TLS: '1',
      DOCKER_TLS_VERIFY: '1',
      DOCKER_CERT_PATH: 'certificates',
      DOCKER_API_VERSION: '1.43',
      CONTAINER_HOST: 'ssh://host/run/podman.sock',
      CONTAINER_CONNECTION: 'work',
      CONTAINER_SSHKEY: 'id',
      DOCKER_CONTEXT: '',
      SECRET: 'no',
    };
    expect(serviceEnvironment(env)).toEqual({
      PATH: '/usr/bin',
      GPG_BRIDGE_STATE_DIR: resolve('state'),
      DOCKER_HOST: 'tcp://host:2376',
      DOCKER_TLS: '1',
      DOCKER_TLS_VERIFY: '1',
      DOCKER_CERT_PATH: resolve('certificates'),
      DOCKER_API_VERSION: '1.43',
      CONTAINER_HOST: 'ssh://host/run/podman.sock',
      CONTAINER_CONNECTION: 'work',
      CONTAINER_SSHKEY: join(process.cwd(), 'id'),
    });
  });

  it('gives a service every variable that decides which engine is meant, but the runtime directory', () => {
    const ofService = new Set(variablesFor('service'));
    expect(variablesFor('engine').filter((name) => !ofService.has(name))).toEqual(['XDG_RUNTIME_DIR']);
  });

  it('tells commands of --exec apart by whole names and by families', () => {
    expect(['KUBECONFIG', 'LXD_DIR', 'VAGRANT_CWD'].filter(isForExec)).toHaveLength(3);
    expect(['KUBECONFIG2', 'XLXD_DIR', 'TERM'].filter(isForExec)).toEqual([]);
  });
});
