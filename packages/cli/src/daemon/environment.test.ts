import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { daemonEnvironment, restoreEnvironment } from './environment.ts';

describe("a daemon's environment", () => {
  it('has no certificates to read at the start, and all of it again after', () => {
    const env = { PATH: '/bin', NODE_EXTRA_CA_CERTS: '/etc/company.pem' };
    const started = daemonEnvironment(env);
    expect(started).not.toHaveProperty('NODE_EXTRA_CA_CERTS');
    restoreEnvironment(started);
    expect(started).toEqual(env);
  });

  it('stays as it is without them', () => {
    const env = { PATH: '/bin' };
    const started = daemonEnvironment(env);
    expect(started).toEqual(env);
    restoreEnvironment(started);
    expect(started).toEqual(env);
  });

  it('has the GNUPGHOME that is meant from here', () => {
    expect(daemonEnvironment({ GNUPGHOME: 'mine' })).toEqual({ GNUPGHOME: resolve('mine') });
  });

  it('has the configurations that are meant from here', () => {
    expect(daemonEnvironment({ KUBECONFIG: 'a::/b', DOCKER_CONFIG: 'c' })).toEqual({
      KUBECONFIG: `${resolve('a')}:/b`,
      DOCKER_CONFIG: resolve('c'),
    });
  });
});
