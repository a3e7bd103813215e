/** Modules that a daemon loads while the launcher starts in its target, and not before. */
export { homeOfAgent } from '@gpg-bridge/core/host/home-of-agent';
export { isEverything } from '@gpg-bridge/core/host/key-usage';
export { KeyUsages } from '@gpg-bridge/core/host/key-usages';
export { leftOutKeys } from '@gpg-bridge/core/host/left-out-keys';
export { Bridge } from '../bridge/bridge.ts';
export { afterKeyringChange, findHostAgents, fingerprintsOf, sshOffersOf } from '../bridge/host-agents.ts';
export { narrowedKeys } from '../bridge/narrowed-keys.ts';
export { confirmUses, notifyOfUses } from '../bridge/person-at-host.ts';
