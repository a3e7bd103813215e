import { closeSync, constants, lstatSync, openSync, readlinkSync } from 'node:fs';

/** Linux's flag for a descriptor that names a file and does not open it; Node has no word for it. */
const O_PATH = 0o10000000;

/** A pipe that a process has open: by which number, and which one the kernel says it is. */
export interface PipeName {
  descriptor: number;
  inode: number;
}

/**
 * A process of this machine, as long as it lives: once it has ended nothing of it is found any more, also when another
 * process has got its number.
 */
export class HeldProcess {
  private constructor(private readonly directory: number) {}

  /** Undefined where there is no such process, or no Linux. */
  static hold(pid: number): HeldProcess | undefined {
    if (process.platform !== 'linux') return undefined;
    try {
      return new HeldProcess(openSync(`/proc/${pid}`, O_PATH | constants.O_DIRECTORY));
    } catch {
      return undefined;
    }
  }

  /**
   * Opens a pipe that the process has, for reading or for writing, as a descriptor of this process's own that does not
   * block. Rejects what is not that very pipe, and what this user may not open.
   */
  openPipe({ descriptor, inode }: PipeName, direction: 'read' | 'write'): number {
    // What the process has under the number may be something else a moment later, and to open a device can start
    // something: it is named first, looked at, and opened by what was looked at. Files with a name, pipes among them,
    // are not opened for a process that may not be allowed to do so itself.
    const link = `/proc/self/fd/${this.directory}/fd/${descriptor}`;
    const named = openSync(link, O_PATH);
    try {
      const path = `/proc/self/fd/${named}`;
      const found = readlinkSync(path);
      if (found !== `pipe:[${inode}]`) throw new Error(`descriptor ${descriptor} is ${found}`);
      // The modes of such a link say which end of the pipe the process has; one that it only writes to is not its to give.
      const end = direction === 'read' ? constants.S_IRUSR : constants.S_IWUSR;
      if (!(lstatSync(link).mode & end))
        throw new Error(`descriptor ${descriptor} is the other end of ${found}`);
      const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
      return openSync(path, O_NONBLOCK | (direction === 'read' ? O_RDONLY : O_WRONLY));
    } finally {
      closeSync(named);
    }
  }

  /** Lets go of it. */
  release(): void {
    closeSync(this.directory);
  }
}
