import { fakeMemento } from '@gpg-bridge/test-support/fake-vscode';
import { describe, expect, it } from 'vitest';
import { AgentService } from './agent-service.ts';
import { Consent, type ConsentAnswer } from './consent.ts';
import type { Remote } from './remote-authority.ts';

const REMOTE: Remote = { authority: 'ssh-remote+build1', label: 'SSH: build1' };
const DENIED = expect.objectContaining({ code: 'CONSENT_DENIED' });

/** A service before a proxy that writes down what reaches it. */
function setUp(
  person: { answer?: ConsentAnswer | undefined; remote?: Remote | undefined; chosen?: string[] } = {},
) {
  const { answer, remote, chosen } = {
    answer: 'allow' as const,
    remote: REMOTE,
    chosen: undefined,
    ...person,
  };
  const reached: string[] = [];
  const consent = new Consent({
    store: fakeMemento(),
    dialogs: { ask: async () => answer, confirmAlways: async () => false },
    always: () => false,
  });
  let proxies = 0;
  const service = new AgentService({
    version: '0.1.0',
    consent,
    remote: () => remote,
    hostSockets: async () => [{ dev: '1', ino: '2' }],
    chooseKeys: async () => chosen,
    onWaiting: () => () => {},
    createProxy: () => {
      const name = `proxy${++proxies}`;
      return {
        connectAgent: async () => {
          reached.push(`${name} connect`);
          return { sessionId: 's', greeting: 'OK\n' };
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
  return { service, consent, reached };
}

describe('AgentService', () => {
  it('works for a remote that the person allows', async () => {
    const { service, reached } = setUp();
    expect(await service.connectAgent()).toEqual({ sessionId: 's', greeting: 'OK\n' });
    expect(await service.sendCommands('s', 'RESET\n')).toEqual({ response: 'OK\n' });
    await service.disconnectAgent('s');
    expect(reached).toEqual(['proxy1 connect', 'proxy1 RESET', 'proxy1 disconnect']);
  });

  it.each(['never', undefined] as const)('lets nothing through when the answer is %s', async (answer) => {
    const { service, reached } = setUp({ answer });
    await expect(service.connectAgent()).rejects.toThrow(DENIED);
    await expect(service.sendCommands('s', 'PKSIGN\n')).rejects.toThrow(DENIED);
    await expect(service.exportPublicKeys('all')).rejects.toThrow(DENIED);
    await expect(service.exportPublicKeys('choose')).rejects.toThrow(DENIED);
    expect(reached).toEqual([]);
  });

  it('lets nothing through in a local window', async () => {
    const { service, reached } = setUp({ remote: undefined });
    await expect(service.connectAgent()).rejects.toThrow(DENIED);
    await expect(service.sendCommands('s', 'PKSIGN\n')).rejects.toThrow(DENIED);
    await expect(service.exportPublicKeys('all')).rejects.toThrow(DENIED);
    expect(reached).toEqual([]);
  });

  it('ends open sessions when the permission is taken back, and refuses their commands', async () => {
    const { service, consent, reached } = setUp();
    await service.connectAgent();
    await consent.decide(REMOTE, 'never');
    await service.enforceConsent();
    expect(reached).toEqual(['proxy1 connect', 'proxy1 stop']);
    await expect(service.sendCommands('s', 'PKSIGN\n')).rejects.toThrow(DENIED);
  });

  it('leaves sessions alone that are still allowed', async () => {
    const { service, reached } = setUp();
    await service.connectAgent();
    await service.enforceConsent();
    expect(reached).toEqual(['proxy1 connect']);
  });

  it('can be turned off and on', async () => {
    const { service, reached } = setUp();
    await service.turnOff();
    expect(reached).toEqual(['proxy1 stop']);
    await expect(service.connectAgent()).rejects.toThrow(
      expect.objectContaining({ code: 'HOST_TURNED_OFF' }),
    );
    expect((await service.checkVersion()).permission).toBe('stopped');
    service.turnOn();
    await service.connectAgent();
  });

  it('goes on with a new proxy when a setting changed', async () => {
    const { service, reached } = setUp();
    await service.renew();
    await service.connectAgent();
    expect(reached).toEqual(['proxy1 stop', 'proxy2 connect']);
  });

  it('exports what is asked for, or what the person picks', async () => {
    const { service, reached } = setUp({ chosen: ['F1', 'F2'] });
    await service.exportPublicKeys('pairs');
    await service.exportPublicKeys(['a@b']);
    expect(await service.exportPublicKeys('choose')).toMatchObject({ chosen: ['F1', 'F2'] });
    expect(reached).toEqual(['proxy1 export pairs', 'proxy1 export a@b', 'proxy1 export F1,F2']);
  });

  it('exports nothing when the person closes the list', async () => {
    const { service, reached } = setUp();
    expect(await service.exportPublicKeys('choose')).toMatchObject({ chosen: undefined, count: 0 });
    expect(reached).toEqual(['proxy1 export none']);
  });

  it.each([undefined, 'everything', 7, [1], { all: true }])('refuses to export %j', async (wanted) => {
    const { service, reached } = setUp();
    await expect(service.exportPublicKeys(wanted as never)).rejects.toThrow(
      expect.objectContaining({ code: 'USAGE' }),
    );
    expect(reached).toEqual([]);
  });

  it('tells its version and what is allowed without asking, and its sockets to one who starts', async () => {
    const { service, consent } = setUp();
    expect(await service.checkVersion()).toEqual({ version: '0.1.0', permission: 'undecided', sockets: [] });
    await consent.decide(REMOTE, 'allow');
    expect(await service.checkVersion('0.1.0')).toEqual({
      version: '0.1.0',
      permission: 'allowed',
      sockets: [{ dev: '1', ino: '2' }],
    });
    await consent.decide(REMOTE, 'never');
    expect((await service.checkVersion()).permission).toBe('refused');
  });
});
