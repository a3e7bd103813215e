import { removeIfDead } from './claim.ts';
import { olderPart } from './log-file.ts';
import { LogReader } from './log-reader.ts';
import { type BridgeFiles, controlSockets, filesBeside } from './state-dir.ts';

/**
 * The files of bridges to targets of this name whose daemons were killed; their control sockets are removed. Only the
 * log tells the name of such a bridge. One that lives, and may be in another place, is left alone.
 */
export async function takeDeadBridges(
  directory: string,
  isNamed: (target: string) => boolean,
): Promise<BridgeFiles[]> {
  const dead: BridgeFiles[] = [];
  for (const control of controlSockets(directory)) {
    const files = filesBeside(control.replace(/\.sock$/, '.pid'));
    const target = lastTarget(files.log);
    if (target !== undefined && isNamed(target) && (await removeIfDead(control))) dead.push(files);
  }
  return dead;
}

/** The target that the last line of a log is about. */
function lastTarget(log: string): string | undefined {
  let target: string | undefined;
  for (const path of [olderPart(log), log]) {
    new LogReader(path, (line) => {
      target = line.target ?? target;
    }).read();
  }
  return target;
}
