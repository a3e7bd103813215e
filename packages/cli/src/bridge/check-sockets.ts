import { toBridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import { agentProblem } from '@gpg-bridge/core/remote/agent-problem';
import type { KeptPath } from '@gpg-bridge/core/remote/keep-path';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { printable } from '@gpg-bridge/core/text/escape';

/** What a check found, in words for a person. */
export interface CheckReport {
  /** What still does not work. */
  problems: string[];
  /** The types of the sockets which that keeps clients from. */
  broken: SocketType[];
  /** What did not work before. */
  mended: string[];
  /** How many clients the check itself has been. */
  asked: number;
}

/** How a check mends what it finds. */
export interface MendOptions {
  /** Whether a path is taken back from another forward. */
  takeover: boolean;
  log: LogCallback;
}

/** Where a path leads, and what is wrong behind it. */
type Found =
  | { place: 'here' | 'unknown'; problem: string | undefined }
  | { place: 'elsewhere'; problem?: undefined };

/** More than a question through the target may take, less than the daemon's own caller waits. */
const SILENCE_MS = 3_000;
/** What a bridge says about a target that does not answer. */
export const SILENT = 'the target does not answer';
const NOT_ANSWERED: Found = { place: 'unknown', problem: SILENT };

/**
 * Asks the host's agents through each socket in the target, as a client there would: the path has to lead to the
 * bridge's own socket, and the agent behind it has to answer. With `mend`, a path that leads elsewhere is claimed
 * as at the start.
 */
export async function checkSockets(
  operations: TargetOperations,
  sockets: readonly KeptPath[],
  mend?: MendOptions,
): Promise<CheckReport> {
  const reports = await Promise.all(sockets.map((socket) => checkSocket(operations, socket, mend)));
  return {
    problems: reports.flatMap(({ problems }) => problems),
    broken: reports.flatMap(({ broken }) => broken),
    mended: reports.flatMap(({ mended }) => mended),
    asked: reports.reduce((sum, { asked }) => sum + asked, 0),
  };
}

async function checkSocket(
  operations: TargetOperations,
  socket: KeptPath,
  mend: MendOptions | undefined,
): Promise<CheckReport> {
  const { path, type } = socket;
  const ask = async (): Promise<Found> => {
    // Both at once; but what something else says there, if it says anything, does not matter.
    const answered = agentProblem(operations, path, type);
    const inPlace = await socket.isInPlace();
    if (!inPlace) return { place: 'elsewhere' };
    asked++;
    return { place: 'here', problem: await answered };
  };
  let asked = 0;
  const mended: string[] = [];
  let found = await inTime(ask(), NOT_ANSWERED);
  if (found.place === 'elsewhere' && mend) {
    try {
      await socket.claimAgain(mend.takeover, (text, level) => {
        if (level === 'warn') mended.push(printable(text));
        mend.log(text, level);
      });
      mended.push(`the socket ${printable(path)} was gone or replaced, and is back`);
      mend.log(mended.at(-1)!, 'warn');
    } catch (error) {
      return {
        problems: [printable(toBridgeError(error, `can't take ${path} back`).message, 1_000)],
        broken: [type],
        mended,
        asked,
      };
    }
    found = await inTime(ask(), NOT_ANSWERED);
  }
  const problems: string[] = [];
  if (found.place === 'elsewhere') {
    problems.push(
      (await inTime(socket.whyElsewhere(), socket.problem)) ??
        `${printable(path)} does not lead to the bridge`,
    );
  } else if (found.problem) {
    problems.push(`${printable(path)}: ${found.problem}`);
  }
  return { problems, broken: problems.length > 0 ? [type] : [], mended, asked };
}

/** A target that does not carry operations out, because it is paused or the line is dead, is not waited for. */
export async function inTime<T>(found: Promise<T>, otherwise: T): Promise<T> {
  found.catch(() => {}); // it may fail when nobody waits for it any more
  let late: NodeJS.Timeout | undefined;
  const silence = new Promise<T>((resolve) => {
    late = setTimeout(resolve, SILENCE_MS, otherwise);
  });
  try {
    return await Promise.race([found, silence]);
  } finally {
    clearTimeout(late);
  }
}
