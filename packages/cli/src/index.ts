/** The library behind the command: bridges from other programs. */
export { Manager, type ManagerOptions } from './manager/manager.ts';
export { type Call, MockManager } from './manager/mock-manager.ts';
export type { BridgeInfo, BridgeOptions, RuntimeName, SocketBridgeManager } from './manager/types.ts';
