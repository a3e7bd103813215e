import { AgentProxy, type AgentProxyConfig, type AgentProxyDeps } from '@gpg-bridge/core/host/agent-proxy';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';
import {
  type RequestProxyConfig,
  type RequestProxyDeps,
  type RequestProxyInstance,
  startRequestProxy,
} from '@gpg-bridge/core/remote/request-proxy';
import { GnupgHome } from './gnupg-home.ts';
import { LogBook } from './log-book.ts';

/** Two homes of GnuPG, joined by both proxies in this process. */
export interface ProxiedHomes {
  host: GnupgHome;
  target: GnupgHome;
  agentProxy: AgentProxy;
  requestProxy: RequestProxyInstance;
  /** Clients of the target's socket at this moment. */
  clients(): number;
  /** What either proxy logged, at every level. */
  book: LogBook;
  /** Payload that crossed the bridge: data lines of either side, hashes, descriptions of keys. */
  payload: Buffer[];
  /** Gives the target the host's public keys, with ultimate trust. */
  shareKeys(): Promise<void>;
  remove(): Promise<void>;
}

/** Options for `joinHomes`. */
export interface JoinOptions {
  agentConf?: string;
  agentConfig?: AgentProxyConfig;
  agentDeps?: AgentProxyDeps;
  requestConfig?: RequestProxyConfig;
  requestDeps?: Partial<RequestProxyDeps>;
}

/** Makes two homes and joins them; the caller makes keys in `host` and calls `shareKeys`. */
export async function joinHomes(options: JoinOptions = {}): Promise<ProxiedHomes> {
  const book = new LogBook();
  const host = await GnupgHome.create(options.agentConf);
  const target = await GnupgHome.create();
  const payload: Buffer[] = [];
  const logCallback = book.log;
  const agentProxy = new AgentProxy(
    { env: host.env, logCallback, ...options.agentConfig },
    options.agentDeps,
  );
  let clients = 0;
  const requestProxy = await startRequestProxy(
    {
      env: target.env,
      logCallback,
      onSessionsChanged: (open) => {
        clients = open;
      },
      ...options.requestConfig,
    },
    {
      ...options.requestDeps,
      commandExecutor: tapped(options.requestDeps?.commandExecutor ?? agentProxy, payload),
    },
  );
  return {
    host,
    target,
    agentProxy,
    requestProxy,
    clients: () => clients,
    book,
    payload,
    async shareKeys() {
      const { stdout } = await host.gpg(['--export']);
      await target.gpgOk(['--no-autostart', '--import'], { input: stdout });
      const trust = await host.gpgOk(['--export-ownertrust']);
      await target.gpgOk(['--no-autostart', '--import-ownertrust'], { input: trust });
    },
    async remove() {
      await requestProxy.stop();
      await agentProxy.stop();
      await target.remove();
      await host.remove();
    },
  };
}

/** Lines whose argument is payload; one that is shorter could be part of any sentence. */
const PAYLOAD_LINE = /^(?:D|SETKEYDESC|SETHASH --hash=\w+) ([^\n]{16,})\n/gm;

function tapped(executor: CommandExecutor, payload: Buffer[]): CommandExecutor {
  const keep = (text: string) => {
    for (const [, found] of text.matchAll(PAYLOAD_LINE)) payload.push(Buffer.from(found!, 'latin1'));
  };
  return {
    async connectAgent(first) {
      keep(`${first?.lines ?? ''}${first?.block ?? ''}`);
      const opened = await executor.connectAgent(first);
      keep(opened.response ?? '');
      return opened;
    },
    disconnectAgent: (id) => executor.disconnectAgent(id),
    async sendCommands(id, block, told) {
      keep(`${told?.lines ?? ''}${block}`);
      const answer = await executor.sendCommands(id, block, told);
      keep(answer.response);
      return answer;
    },
  };
}
