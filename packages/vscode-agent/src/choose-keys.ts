import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { withIcons } from '@gpg-bridge/vscode-shared/pick-from';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Remote } from './remote-authority.ts';

/** Lets the person pick which public keys a remote gets; undefined when they closed the list. */
export async function chooseKeys(
  vs: Pick<VsCode, 'window' | 'ThemeIcon'>,
  keys: Promise<ListedKey[]>,
  { label }: Remote,
): Promise<string[] | undefined> {
  const list = await keys;
  if (list.length === 0) {
    void vs.window.showInformationMessage(
      t(
        'The GPG keyring of your computer has no keys. Make one with "gpg --full-generate-key" in a terminal of your computer, or import one with "gpg --import".',
      ),
    );
    return undefined;
  }
  const items = list.map(({ userId, fingerprint, secret }) => ({
    label: `${secret ? '$(key) ' : ''}${userId || t('no name')}`,
    description: secret ? t('your own') : '',
    detail: inGroups(fingerprint),
    picked: secret,
    fingerprint,
  }));
  const picked = await vs.window.showQuickPick(withIcons(vs, items), {
    title: t('Public keys for "{0}"', label),
    placeHolder: t('Public keys to copy; secret keys stay here'),
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
