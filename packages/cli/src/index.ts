/** The library behind the command: bridges from other programs. */
export type { Runtime as RuntimeName } from '@gpg-bridge/socket-server';
export type { BridgeOptions, OptionChange } from './bridge-options.ts';
export { Manager, type ManagerOptions } from './manager/manager.ts';
export { type Call, MockManager } from './manager/mock-manager.ts';
export type { BridgeInfo, EnsureOptions, SocketBridgeManager } from './manager/types.ts';
