/** Modules that a daemon loads while the launcher starts in its target, and not before. */
export { Bridge } from '../bridge/bridge.ts';
export { afterKeyringChange, findHostAgents } from '../bridge/host-agents.ts';
export { confirmUses, notifyOfUses } from '../bridge/person-at-host.ts';
