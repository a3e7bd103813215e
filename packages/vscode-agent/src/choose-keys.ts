import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Remote } from './remote-authority.ts';

/** Lets the person pick which public keys a remote gets; undefined when they closed the list. */
export async function chooseKeys(
  vs: Pick<VsCode, 'window'>,
  keys: Promise<ListedKey[]>,
  { label }: Remote,
): Promise<string[] | undefined> {
  const items = keys.then((list) =>
    list.map(({ userId, fingerprint, secret }) => ({
      label: `${secret ? '$(key) ' : ''}${userId || 'no name'}`,
      description: secret ? 'your own' : '',
      detail: inGroups(fingerprint),
      picked: secret,
      fingerprint,
    })),
  );
  const picked = await vs.window.showQuickPick(items, {
    title: `Public keys for "${label}"`,
    placeHolder: 'Public keys to copy; secret keys stay here',
    canPickMany: true,
    matchOnDetail: true,
    ignoreFocusOut: true,
  });
  return picked?.map((item) => item.fingerprint);
}

/** A fingerprint as gpg prints it, four characters at a time. */
function inGroups(fingerprint: string): string {
  return fingerprint.replace(/(.{4})(?=.)/g, '$1 ');
}
