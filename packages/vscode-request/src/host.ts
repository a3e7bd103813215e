import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';
import {
  type ExportedKeys,
  HOST_COMMANDS,
  type HostFacts,
  type KeyRequest,
  type Permission,
  type Reply,
  unwrap,
} from '@gpg-bridge/vscode-shared/contract';
import { PrivateKeyWatch } from '@gpg-bridge/vscode-shared/private-key-watch';
import { assertCompatible } from '@gpg-bridge/vscode-shared/versions';

/** What runs a command of another extension, wherever that extension is. */
export type ExecuteCommand = (command: string, ...args: unknown[]) => Thenable<unknown>;

/** The host's extension as seen from the remote. */
export class Host implements CommandExecutor {
  readonly #execute: ExecuteCommand;
  readonly #watch: PrivateKeyWatch;

  /** `onWaiting` is called when an operation waits for the person, and returns what ends that. */
  constructor(execute: ExecuteCommand, onWaiting: () => () => void) {
    this.#execute = execute;
    this.#watch = new PrivateKeyWatch(onWaiting);
  }

  /** Opens a session with the host's gpg-agent. */
  connectAgent(): Promise<{ sessionId: string; greeting: string }> {
    return this.#call('connectAgent');
  }

  /** Sends one command or inquiry block of a session. */
  sendCommands(sessionId: string, block: string): Promise<{ response: string }> {
    return this.#watch.exchange(sessionId, block, () => this.#call('sendCommands', sessionId, block));
  }

  /** Ends a session. */
  async disconnectAgent(sessionId: string): Promise<void> {
    this.#watch.forget(sessionId);
    await this.#call('disconnectAgent', sessionId);
  }

  /** Public keys of the host. */
  exportPublicKeys(wanted: KeyRequest): Promise<ExportedKeys> {
    return this.#call('exportPublicKeys', wanted);
  }

  /** Resolves when the host answers at all, with what this remote may do. */
  async ping(): Promise<Permission> {
    return (await this.#call<HostFacts>('checkVersion')).permission;
  }

  /** What the host says about itself; throws VERSION_MISMATCH unless its extension fits ours. */
  async meet(ownVersion: string): Promise<HostFacts> {
    const facts = await this.#call<HostFacts>('checkVersion', ownVersion);
    assertCompatible(facts.version, ownVersion);
    return facts;
  }

  async #call<T>(name: keyof typeof HOST_COMMANDS, ...args: unknown[]): Promise<T> {
    const command = HOST_COMMANDS[name];
    let answer: unknown;
    try {
      answer = await this.#execute(command, ...args);
    } catch (error) {
      throw carrierFailed(command, error);
    }
    return unwrap(answer as Reply<T>);
  }
}

/** A command that fails without a reply never reached the host's extension. */
function carrierFailed(command: string, cause: unknown): BridgeError {
  // VS Code gives no code for this; the message is the only way to tell.
  if (cause instanceof Error && cause.message.includes(`'${command}' not found`)) {
    return new BridgeError('HOST_EXTENSION_MISSING', {
      what: "can't reach the keys of your computer",
      why: 'the extension gpg-bridge-agent is not installed or not enabled there',
      fix: 'Install it on your computer (Extensions view, "Local - Installed"), then reload the window.',
      cause,
    });
  }
  return new BridgeError('CARRIER_FAILED', {
    what: "can't reach the keys of your computer",
    why: toBridgeError(cause, '').why,
    fix: 'Check the connection to your computer, then reload the window.',
    cause,
  });
}
