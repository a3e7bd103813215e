import { BridgeError } from '@gpg-bridge/core/errors';
import { describe, expect, it } from 'vitest';
import { judge } from './checks.ts';
import type { Facts } from './facts.ts';
import { HOST_CHECKS } from './host-checks.ts';
import type { HostFacts } from './host-facts.ts';

const missing = {
  error: new BridgeError('GPG_MISSING', {
    what: "can't find gpg",
    why: 'it is on no PATH',
    fix: 'Install it.',
  }),
};

/** A machine with an agent and a display, and nothing else. */
const HOST: HostFacts = {
  env: {},
  gpg: { found: { path: '/usr/bin/gpg', version: '2.4.7' } },
  gpgconf: { found: { path: '/usr/bin/gpgconf', version: '2.4.7' } },
  home: undefined,
  agent: { found: { version: '2.4.7', wasStarted: false, startupEnv: new Map([['DISPLAY', ':0']]) } },
  extraSocket: { found: '/run/S.gpg-agent.extra' },
  keys: { found: [] },
  pinentry: { path: '/usr/bin/pinentry', isConfigured: false, canRun: true, name: 'pinentry-gnome3' },
  sshAgent: missing,
  state: { path: '/state', problem: undefined, fix: '' },
  sockets: [],
};

function finding(id: string, host: Partial<HostFacts>) {
  const facts: Facts = { host: { ...HOST, ...host } };
  return judge(HOST_CHECKS, facts).find((one) => one.id === id);
}

// What the other tests provoke for real is not repeated here.
describe('the checks of the host', () => {
  it('find GnuPG missing, and then ask nothing of it', () => {
    expect(finding('host-gpg', { gpg: missing })).toMatchObject({ status: 'fail', fix: expect.any(String) });
    expect(finding('host-gpgconf', { gpgconf: missing })).toMatchObject({ status: 'fail' });
    for (const id of ['host-agent', 'host-extra-socket', 'host-pinentry']) {
      expect(finding(id, { gpgconf: missing })).toBeUndefined();
    }
  });

  it('find an agent that is older than gpg, and one without an extra socket', () => {
    const agent = (version: string) => ({ found: { version, wasStarted: false, startupEnv: new Map() } });
    expect(finding('host-agent', { agent: agent('2.2.40') })).toMatchObject({
      status: 'warn',
      fix: 'gpgconf --kill gpg-agent',
    });
    expect(finding('host-agent', { agent: agent('2.1.15') })).toMatchObject({ status: 'fail' });
    expect(finding('host-agent', { agent: missing })).toMatchObject({ status: 'fail' });
    expect(finding('host-agent', {})).toMatchObject({ status: 'ok', fix: null });
  });

  it('let a pinentry with windows have a display or a terminal, and one of the system neither', () => {
    expect(finding('host-pinentry', {})).toMatchObject({
      status: 'ok',
      detail: 'pinentry-gnome3 at DISPLAY=:0',
    });
    const blind = { found: { version: '2.4.7', wasStarted: false, startupEnv: new Map<string, string>() } };
    expect(finding('host-pinentry', { agent: blind })).toMatchObject({ status: 'warn' });
    const mac = { ...HOST.pinentry!, name: 'pinentry-mac' };
    expect(finding('host-pinentry', { agent: blind, pinentry: mac })).toMatchObject({ status: 'ok' });
    const none = { ...HOST.pinentry!, canRun: false };
    expect(finding('host-pinentry', { pinentry: none })).toMatchObject({ status: 'fail' });
  });

  it('take SSH keys alone for enough', () => {
    const key = { fingerprint: 'SHA256:x', comment: 'me', base64: 'AAAA' };
    const sshAgent = { found: { path: '/agent', keys: [key] } };
    expect(finding('host-keys', {})).toMatchObject({ status: 'fail' });
    expect(finding('host-keys', { sshAgent })).toMatchObject({ status: 'warn' });
  });
});
