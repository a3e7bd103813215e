import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';
import { onTestFinished } from 'vitest';
import type { GnupgHome } from './gnupg-home.ts';
import { type JoinOptions, joinHomes, type ProxiedHomes } from './proxied-homes.ts';

/** How the two homes are made. */
export interface CountedOptions extends JoinOptions {
  /** Of the key of ada@example.org, to sign and to encrypt with. */
  algorithms?: readonly [sign: string, encrypt: string];
  /** Called when the host has its key, and nobody has asked its agent yet. */
  onHost?: (host: GnupgHome) => Promise<void>;
}

/** Two homes joined by VS Code's proxies, with every call counted. */
export interface CountedHomes extends ProxiedHomes {
  /** How many calls an action makes. */
  calls(action: () => Promise<unknown>): Promise<number>;
  /** From now on the host opens no session. */
  refuse(): void;
}

/** Joins two homes whose calls are counted, with a key on the host; they end with the test. */
export async function countedHomes({
  algorithms = ['ed25519', 'cv25519'],
  onHost,
  ...options
}: CountedOptions = {}): Promise<CountedHomes> {
  let calls = 0;
  let refuses = false;
  const made: { proxy?: AgentProxy } = {};
  const executor: CommandExecutor = {
    connectAgent: async (first) => {
      calls++;
      if (refuses) throw new Error('not allowed any more');
      return made.proxy!.connectAgent(first);
    },
    sendCommands: (id, block, told) => {
      calls++;
      return made.proxy!.sendCommands(id, block, told);
    },
    disconnectAgent: (id) => made.proxy!.disconnectAgent(id),
  };
  const homes = await joinHomes({ ...options, requestDeps: { commandExecutor: executor } });
  onTestFinished(() => homes.remove());
  const [sign, encrypt] = algorithms;
  const key = await homes.host.createKey('Ada <ada@example.org>', { algo: sign, usage: 'sign' });
  await homes.host.addEncryptionKey(key, encrypt);
  await onHost?.(homes.host);
  made.proxy = new AgentProxy({
    env: homes.host.env,
    logCallback: homes.book.log,
    ...options.agentConfig,
  });
  onTestFinished(() => made.proxy?.stop());
  await homes.shareKeys();
  return {
    ...homes,
    refuse: () => {
      refuses = true;
    },
    async calls(action) {
      const before = calls;
      await action();
      return calls - before;
    },
  };
}
