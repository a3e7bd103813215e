import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { flawsOf, inGroups } from '@gpg-bridge/vscode-shared/list-keys';
import { withIcons } from '@gpg-bridge/vscode-shared/pick-from';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Remote } from './remote-authority.ts';

/** Lets the person pick which public keys a remote gets; undefined when they closed the list. */
export async function chooseKeys(
  vs: Pick<VsCode, 'window' | 'env' | 'ThemeIcon'>,
  keys: Promise<ListedKey[]>,
  { label }: Remote,
): Promise<string[] | undefined> {
  const list = await keys;
  if (list.length === 0) {
    explainEmptyKeyring(vs);
    return undefined;
  }
  const items = list.map((key) => ({
    label: `${iconOf(key)}${key.userId || t('no name')}`,
    description: [...(key.secret ? [t('your own')] : []), ...flawsOf(key)].join(' · '),
    detail: inGroups(key.fingerprint),
    picked: key.secret && flawsOf(key).length === 0,
    fingerprint: key.fingerprint,
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

/** With a button, since VS Code cuts a notification without one to a line. */
function explainEmptyKeyring(vs: Pick<VsCode, 'window' | 'env'>): void {
  const copy = t('Copy the Command');
  const text = t(
    'The GPG keyring of your computer has no keys. Make one with "gpg --full-generate-key" in a terminal of your computer, or import one with "gpg --import".',
  );
  void vs.window.showInformationMessage(text, copy).then(async (pressed) => {
    if (pressed === copy) await vs.env.clipboard.writeText('gpg --full-generate-key');
  });
}

function iconOf(key: ListedKey): string {
  if (flawsOf(key).length > 0) return '$(warning) ';
  return key.secret ? '$(key) ' : '';
}
