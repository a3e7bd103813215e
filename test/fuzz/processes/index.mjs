import { CONTROL_TARGET } from './control.mjs';
import { ENGINE_API_TARGET } from './engine-api.mjs';
import { SERVER_TARGETS } from './servers.mjs';

/** What is fuzzed as it runs: processes and connections, without coverage. */
export const PROCESSES = [...SERVER_TARGETS, CONTROL_TARGET, ENGINE_API_TARGET];
