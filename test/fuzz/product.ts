/** What of the command's own code is fuzzed. */
export { unexpectedAnswer } from '../../packages/cli/src/engine/api-connection.ts';
export { ApiEngine } from '../../packages/cli/src/engine/api-engine.ts';
export { parseContainerInfo } from '../../packages/cli/src/engine/container-info.ts';
export { parseEvent } from '../../packages/cli/src/engine/event-stream.ts';
export { StdioDemuxer } from '../../packages/cli/src/engine/stdio-demuxer.ts';
export { fileInTar } from '../../packages/cli/src/engine/tar.ts';
export { pasteable, shellQuote } from '../../packages/cli/src/targets/shell-quote.ts';
