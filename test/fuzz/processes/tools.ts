/** What the fuzzers of real processes need of the code, as one bundle. */
export { launcherCommand, SERVER_CONFIG, serverPayload } from '@gpg-bridge/socket-server';
export { mutate } from '../engine/mutate.ts';
export { Random } from '../engine/random.ts';
export { ApiEngine } from '../product.ts';
