import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { AgentService } from './agent-service.ts';
import { ConfirmedSettings } from './confirmed-settings.ts';
import { Consent, type ConsentAnswer } from './consent.ts';
import { GrantStore } from './grant-store.ts';
import type { Remote } from './remote-authority.ts';

const REMOTE: Remote = { authority: 'ssh-remote+build1', label: 'SSH: build1', certain: true };
const denied = (code: string) => expect.objectContaining({ code });

/** A service before a proxy that writes down what reaches it. */
async function setUp(
  person: { answer?: ConsentAnswer | undefined; remote?: Remote | undefined; chosen?: string[] } = {},
) {
  const { answer, remote, chosen } = {
    answer: { is: 'allow' } as ConsentAnswer,
    remote: REMOTE,
    chosen: undefined,
    ...person,
  };
  const reached: string[] = [];
  const written = { gpgBinDir: '', consent: 'ask' };
  const store = new GrantStore(await tempDir());
  const settings = new ConfirmedSettings({ store, written: () => written, confirm: async () => true });
  const consent = new Consent({
    store,
    settings,
    dialogs: { ask: async () => answer, confirmStart: async () => true },
  });
  let proxies = 0;
  let clock = 0;
  const host = { healthy: true, checks: 0 };
  const service = new AgentService({
    version: '0.1.0',
    consent,
    settings,
    remote: () => remote,
    checkAgent: async () => {
      host.checks++;
      if (!host.healthy) throw new Error('no agent');
      return [{ dev: '1', ino: '2' }];
    },
    chooseKeys: async () => chosen,
    onWaiting: () => () => {},
    now: () => clock,
    createProxy: ({ gpgBinDir = 'default' }) => {
      const name = `proxy${++proxies}`;
      reached.push(`${name} of ${gpgBinDir}`);
      let sessions = 0;
      return {
        connectAgent: async () => {
          reached.push(`${name} connect`);
          return { sessionId: `s${++sessions}`, greeting: 'OK\n' };
        },
        sendCommands: async (_id, block) => {
          reached.push(`${name} ${block.trim()}`);
          return { response: 'OK\n' };
        },
        disconnectAgent: async () => void reached.push(`${name} disconnect`),
        exportPublicKeys: async (filter) => {
          reached.push(`${name} export ${filter}`);
          return { keys: '', trust: [], count: 0 };
        },
        stop: async () => void reached.push(`${name} stop`),
      };
    },
  });
  /** Has the person asked, and returns the token that came of it. */
  const allow = async () => (await service.checkVersion('0.1.0', undefined, 'person-asks')).token;
  return { service, consent, reached, written, host, allow, advance: (ms: number) => (clock += ms) };
}

describe('AgentService', () => {
  it('works for a remote that the person allows', async () => {
    const { service, reached, allow } = await setUp();
    const token = await allow();
    expect(await service.connectAgent(token)).toEqual({ sessionId: 's1', greeting: 'OK\n' });
    expect(await service.sendCommands('s1', 'RESET\n')).toEqual({ response: 'OK\n' });
    await service.disconnectAgent('s1');
    expect(reached).toEqual(['proxy1 of default', 'proxy1 connect', 'proxy1 RESET', 'proxy1 disconnect']);
  });

  it.each([
    [{ is: 'never' } as const, 'CONSENT_DENIED'],
    [undefined, 'CONSENT_REQUIRED'],
  ])('lets nothing through when the answer is %j', async (answer, code) => {
    const { service, reached, host, allow } = await setUp({ answer });
    expect(await allow()).toBeUndefined();
    for (const token of [undefined, 'guess', 7, {}]) {
      await expect(service.connectAgent(token)).rejects.toThrow(denied(code));
      await expect(service.exportPublicKeys('all', token)).rejects.toThrow(denied(code));
      await expect(service.exportPublicKeys('choose', token)).rejects.toThrow(denied(code));
    }
    await expect(service.sendCommands('s', 'PKSIGN\n')).rejects.toThrow(denied(code));
    expect(reached).toEqual([]);
    expect(host.checks).toBe(0);
  });

  it('lets nothing through in a local window', async () => {
    const { service, reached, allow } = await setUp({ remote: undefined });
    await allow();
    await expect(service.connectAgent()).rejects.toThrow(denied('CONSENT_DENIED'));
    await expect(service.sendCommands('s', 'PKSIGN\n')).rejects.toThrow(denied('CONSENT_DENIED'));
    await expect(service.exportPublicKeys('all')).rejects.toThrow(denied('CONSENT_DENIED'));
    expect(reached).toEqual([]);
  });

  it('ends open sessions when the permission is taken back, and refuses their commands', async () => {
    const { service, consent, reached, allow } = await setUp();
    await service.connectAgent(await allow());
    consent.decide(REMOTE, { is: 'never' });
    await service.enforce();
    expect(reached.slice(1)).toEqual(['proxy1 connect', 'proxy1 stop']);
    await expect(service.sendCommands('s1', 'PKSIGN\n')).rejects.toThrow(denied('CONSENT_DENIED'));
  });

  it('leaves sessions alone that are still allowed', async () => {
    const { service, reached, allow } = await setUp();
    await service.connectAgent(await allow());
    await service.enforce();
    expect(reached.slice(1)).toEqual(['proxy1 connect']);
  });

  it('ends sessions at a Stop, and opens none until it is started again', async () => {
    const { service, consent, reached, allow } = await setUp();
    const token = await allow();
    await service.connectAgent(token);
    consent.stop('computer', REMOTE);
    await service.enforce();
    expect(reached.at(-1)).toBe('proxy1 stop');
    await expect(service.connectAgent(token)).rejects.toThrow(denied('HOST_TURNED_OFF'));
    await expect(service.sendCommands('s1', 'PKSIGN\n')).rejects.toThrow(denied('HOST_TURNED_OFF'));
    await consent.start(REMOTE);
    await service.connectAgent(token);
  });

  it('goes on with a new proxy when another directory was confirmed', async () => {
    const { service, reached, written, allow } = await setUp();
    const token = await allow();
    await service.connectAgent(token);
    written.gpgBinDir = '/opt/gnupg';
    await service.connectAgent(token);
    expect(reached.slice(2)).toEqual(['proxy1 stop', 'proxy2 of /opt/gnupg', 'proxy2 connect']);
    written.gpgBinDir = '\\\\evil\\share';
    await expect(service.connectAgent(token)).rejects.toThrow(denied('SETTING_REFUSED'));
  });

  it('exports what is asked for, or what the person picks', async () => {
    const { service, reached, allow } = await setUp({ chosen: ['F1', 'F2'] });
    const token = await allow();
    await service.exportPublicKeys('pairs', token);
    await service.exportPublicKeys(['a@b', 'a@b'], token);
    expect(await service.exportPublicKeys('choose', token)).toMatchObject({ chosen: ['F1', 'F2'] });
    expect(reached.slice(1)).toEqual(['proxy1 export pairs', 'proxy1 export a@b', 'proxy1 export F1,F2']);
  });

  it('exports nothing when the person closes the list', async () => {
    const { service, reached, allow } = await setUp();
    expect(await service.exportPublicKeys('choose', await allow())).toMatchObject({
      chosen: undefined,
      count: 0,
    });
    expect(reached.slice(1)).toEqual(['proxy1 export none']);
  });

  it.each([
    undefined,
    'everything',
    7,
    [1],
    { all: true },
    Array.from({ length: 1_001 }, (_, n) => `${n}@b`),
  ])('refuses to export %.30j', async (wanted) => {
    const { service, reached, allow } = await setUp();
    const token = await allow();
    await expect(service.exportPublicKeys(wanted as never, token)).rejects.toThrow(denied('USAGE'));
    expect(reached.slice(1)).toEqual([]);
  });

  it('tells a remote that is not allowed its version and that, and looks at nothing for it', async () => {
    const { service, host } = await setUp({ answer: undefined });
    for (const args of [[], ['0.1.0'], ['0.1.0', 'guess'], ['0.1.0', 'guess', 'person-asks']] as const)
      expect(await service.checkVersion(...(args as []))).toEqual({
        version: '0.1.0',
        permission: 'undecided',
      });
    expect(host.checks).toBe(0);
  });

  it('tells one that is allowed its sockets or what is wrong, looking once for many calls', async () => {
    const { service, host, allow, advance } = await setUp();
    host.healthy = false;
    const token = await allow();
    const look = () => service.checkVersion('0.1.0', token);
    expect(await look()).toMatchObject({ permission: 'allowed', problem: { why: 'no agent' } });
    host.healthy = true;
    advance(2_000);
    for (let n = 0; n < 60; n++) expect(await look()).toMatchObject({ sockets: [{ dev: '1', ino: '2' }] });
    expect(host.checks).toBe(2);
    advance(60_000);
    await look();
    expect(host.checks).toBe(3);
  });
});
