import { execFileSync } from 'node:child_process';
import { userInfo } from 'node:os';
import { win32 } from 'node:path';

/** Groups that a directory may have been opened to: everyone, everyone who has logged in, the machine's users. */
const GROUPS = ['*S-1-1-0', '*S-1-5-11', '*S-1-5-32-545'];

/** The words for `icacls` that leave a directory, and what will be in it, to one user alone. */
export function ownerOnlyWords(directory: string, user: string): string[] {
  const granted = ['/grant:r', `${user}:(OI)(CI)F`];
  return [directory, '/inheritance:r', ...granted, '/remove:g', ...GROUPS, '/q'];
}

/**
 * Leaves a directory to this user alone, as mode 0700 does elsewhere; Node has no call for that. Throws if the directory
 * is another's, whose list of rights only they may write.
 */
export function restrictToOwner(directory: string, env: NodeJS.ProcessEnv = process.env): void {
  const { username } = userInfo();
  const user = env.USERDOMAIN ? `${env.USERDOMAIN}\\${username}` : username;
  // Windows' own, whatever PATH says.
  const icacls = win32.join(env.SystemRoot || 'C:\\Windows', 'System32', 'icacls.exe');
  try {
    execFileSync(icacls, ownerOnlyWords(directory, user), { stdio: 'pipe', windowsHide: true });
  } catch (error) {
    const printed = String((error as { stderr?: Buffer }).stderr ?? '').trim();
    throw new Error(`icacls can't make it yours alone: ${printed || (error as Error).message}`);
  }
}
