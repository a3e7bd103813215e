import { gnupgHomeIn } from '../targets/home.ts';
import type { DaemonStatus } from './control.ts';

/** What the programs in a target need in their environment to use a bridge, in the order in which it is printed. */
export function targetVariables({
  key,
  id,
  options: { home },
  sockets,
}: Pick<DaemonStatus, 'key' | 'id' | 'options' | 'sockets'>): Record<string, string> {
  // A local target is a GNUPGHOME; elsewhere gpg looks in the right place by itself, unless that is --home's.
  const gnupgHome = key.startsWith('local\n') ? id : home && gnupgHomeIn(home);
  const ssh = sockets.find(({ type }) => type === 'ssh-agent');
  return {
    ...(home === undefined ? {} : { HOME: home }),
    ...(gnupgHome === undefined ? {} : { GNUPGHOME: gnupgHome }),
    ...(ssh ? { SSH_AUTH_SOCK: ssh.path } : {}),
  };
}
