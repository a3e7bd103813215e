/** What the fuzzers of real processes need of the code, as one bundle. */
export { PROTOCOL_VERSION } from '@gpg-bridge/core/mux/frame';
export { launcherCommand, serverPayload } from '@gpg-bridge/socket-server';
export { ApiEngine } from '../../../packages/cli/src/engine/api-engine.ts';
export { mutate } from '../engine/mutate.ts';
export { Random } from '../engine/random.ts';
