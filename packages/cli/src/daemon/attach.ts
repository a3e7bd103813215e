/** What a daemon needs only once the launcher runs in its target, in one piece to load meanwhile. */
export { Bridge } from '../bridge/bridge.ts';
export { findHostAgents } from '../bridge/host-agents.ts';
export { Tidying } from './tidying.ts';
