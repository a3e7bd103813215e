import type { BridgeSelector } from '../bridge-options.ts';
import { grantOf, grantSentence } from '../grants/grant-words.ts';
import type { BridgeInfo, EnsureOptions, SocketBridgeManager } from './types.ts';

/** One recorded call. */
export interface Call {
  method: keyof SocketBridgeManager;
  args: unknown[];
}

/**
 * A SocketBridgeManager for tests of code that uses one: it starts nothing, remembers every call in
 * `calls`, and behaves as if every bridge came up at once. Give `overrides` to have a method do otherwise.
 */
export class MockManager implements SocketBridgeManager {
  readonly calls: Call[] = [];
  readonly #running = new Map<string, BridgeInfo>();

  constructor(readonly overrides: Partial<SocketBridgeManager> = {}) {}

  /** Whether `method` was called with this target as its first argument. */
  calledWith(method: keyof SocketBridgeManager, target: string): boolean {
    return this.calls.some((call) => call.method === method && call.args[0] === target);
  }

  async ensureBridge(target: string, options?: EnsureOptions): Promise<BridgeInfo> {
    this.calls.push({ method: 'ensureBridge', args: [target, options] });
    if (this.overrides.ensureBridge) return this.overrides.ensureBridge(target, options);
    const present = this.#running.get(target);
    if (present) return { ...present, result: 'running' };
    const granted = { target, options: options ?? {}, sockets: [] };
    const info: BridgeInfo = {
      target,
      user: options?.user ?? '',
      id: target,
      pid: process.pid,
      started: new Date().toISOString(),
      runtime: 'node',
      sockets: [],
      warnings: [],
      offers: { gpg: null, ssh: null },
      notes: [],
      result: 'new',
      changes: [],
      problems: [],
      mended: [],
      grant: grantOf(granted),
      grantText: grantSentence(granted),
      variables: {},
    };
    this.#running.set(target, info);
    return info;
  }

  async stopBridge(target: string, options?: BridgeSelector): Promise<boolean> {
    this.calls.push({ method: 'stopBridge', args: [target, options] });
    if (this.overrides.stopBridge) return this.overrides.stopBridge(target, options);
    return this.#running.delete(target);
  }

  async stopAll(): Promise<number> {
    this.calls.push({ method: 'stopAll', args: [] });
    if (this.overrides.stopAll) return this.overrides.stopAll();
    const count = this.#running.size;
    this.#running.clear();
    return count;
  }

  async isRunning(target: string, options?: BridgeSelector): Promise<boolean> {
    this.calls.push({ method: 'isRunning', args: [target, options] });
    if (this.overrides.isRunning) return this.overrides.isRunning(target, options);
    return this.#running.has(target);
  }
}
