import { CONTROL_TARGET } from './control.mjs';
import { ENGINE_API_TARGET } from './engine-api.mjs';
import { GPG_AGENT_TARGET } from './gpg-agent.mjs';
import { SERVER_TARGETS } from './servers.mjs';
import { SSH_AGENTS_TARGET } from './ssh-agents.mjs';

/** What is fuzzed as it runs: processes and connections, without coverage. */
export const PROCESSES = [
  ...SERVER_TARGETS,
  CONTROL_TARGET,
  ENGINE_API_TARGET,
  GPG_AGENT_TARGET,
  SSH_AGENTS_TARGET,
];
