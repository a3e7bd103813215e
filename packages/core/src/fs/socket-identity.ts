import { lstatSync, promises, readFileSync, statSync } from 'node:fs';

/** Tells whether two paths lead to the same socket; device and inode as decimal strings, since they are bigints. */
export interface SocketIdentity {
  dev: string;
  ino: string;
  /** The boot ID of the kernel that gave the numbers: on another machine they mean another file. */
  boot?: string;
}

/** The identity of what is at a path, links followed; undefined when nothing there can be seen. */
export async function identityOf(path: string): Promise<SocketIdentity | undefined> {
  try {
    const { dev, ino } = await promises.stat(path, { bigint: true });
    return { dev: String(dev), ino: String(ino) };
  } catch {
    return undefined;
  }
}

/** The identity of a file itself, links not followed; undefined when nothing there can be seen. */
export function lstatIdentitySync(path: string): SocketIdentity | undefined {
  try {
    const { dev, ino } = lstatSync(path, { bigint: true });
    return { dev: String(dev), ino: String(ino) };
  } catch {
    return undefined; // its directory may have been removed, replaced by a file, or closed to us
  }
}

/**
 * Tells one file at a path, links followed, from the next: inode numbers are used again soon, change times are not.
 * Undefined when nothing there can be seen, as with a pipe of Windows.
 */
export function changeStamp(path: string): string | undefined {
  try {
    const { dev, ino, ctimeNs } = statSync(path, { bigint: true });
    return `${dev} ${ino} ${ctimeNs}`;
  } catch {
    return undefined;
  }
}

/** An identity for use on another machine, or in a container of this one: with the boot ID. */
export async function tellableIdentity(path: string): Promise<SocketIdentity | undefined> {
  const [identity, boot] = [await identityOf(path), bootId()];
  return identity && { ...identity, ...(boot === undefined ? {} : { boot }) };
}

/** Of identities that were told, those that files of the kernel with this boot id can have. */
export function ofKernel(here: string | undefined, told: readonly SocketIdentity[]): SocketIdentity[] {
  return told.filter(({ boot }) => boot === undefined || here === undefined || boot === here);
}

/** Whether two identities are of one file. */
export function sameIdentity(a: SocketIdentity, b: SocketIdentity): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

/** Made anew at every start of a Linux kernel, and the same in all its containers; elsewhere there is none. */
export function bootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    return undefined;
  }
}
