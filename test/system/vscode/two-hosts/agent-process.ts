import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { ToldBlock } from '@gpg-bridge/core/assuan/answer-table';
import type { BridgeError } from '@gpg-bridge/core/errors';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { AgentProxy, type AgentProxyDeps } from '@gpg-bridge/core/host/agent-proxy';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { reply } from '@gpg-bridge/vscode-shared/contract';

/** The real AgentProxy behind the local double: a browser's extension host reaches it over HTTP. */
export class AgentProcess {
  readonly book = new LogBook();
  /** What was called, in order. */
  readonly calls: string[] = [];
  /** What `connectAgent` fails with, while it is set. */
  refusal: BridgeError | undefined;
  proxy!: AgentProxy;
  readonly #server: Server;
  readonly #env: NodeJS.ProcessEnv;

  private constructor(env: NodeJS.ProcessEnv) {
    this.#env = env;
    this.use();
    this.#server = createServer(async (request, response) => {
      const name = (request.url ?? '').slice(1);
      const args = JSON.parse((await text(request)) || '[]') as unknown[];
      this.calls.push(name);
      const answer = await reply(() => this.#run(name, args));
      // The page of the double is another origin.
      response.setHeader('Access-Control-Allow-Origin', '*');
      response.end(JSON.stringify(answer));
    });
  }

  /** Listens, for the agent of the home that `env` names. */
  static async start(env: NodeJS.ProcessEnv): Promise<AgentProcess> {
    const process = new AgentProcess(env);
    process.#server.listen(0, '127.0.0.1');
    await once(process.#server, 'listening');
    return process;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Takes a new proxy, to the home's agent or to what a test has in its place. */
  use(deps: AgentProxyDeps = {}): void {
    this.proxy = new AgentProxy({ env: this.#env, logCallback: this.book.log }, deps);
  }

  async stop(): Promise<void> {
    await this.proxy.stop();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #run(name: string, args: readonly unknown[]): Promise<unknown> {
    switch (name) {
      case 'checkVersion':
        return { version: String(args[0] ?? '0.1.0'), permission: 'allowed' };
      case 'connectAgent':
        if (this.refusal) throw this.refusal;
        return this.proxy.connectAgent((args[1] ?? undefined) as ToldBlock | undefined);
      case 'sendCommands':
        return this.proxy.sendCommands(String(args[0]), String(args[1]), (args[2] ?? undefined) as ToldBlock);
      case 'disconnectAgent':
        return this.proxy.disconnectAgent(String(args[0]));
      case 'exportPublicKeys':
        return this.proxy.exportPublicKeys(args[0] as KeyFilter);
      default:
        throw new Error(`there is no command ${name}`);
    }
  }
}
