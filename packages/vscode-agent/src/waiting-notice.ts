import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Remote } from './remote-authority.ts';

/** What the notice needs beside the window. */
export interface WaitingNoticeOptions {
  vs: Pick<VsCode, 'window' | 'ProgressLocation'>;
  /** Whose key that is, by its keygrip. */
  nameOf(keygrip: string): Promise<string | undefined>;
  cancel(sessionId: string): void;
}

/** Shows that a private-key operation waits for the person; the returned function takes the notice away. */
export function showWaitingNotice(
  { vs, nameOf, cancel }: WaitingNoticeOptions,
  { sessionId, purpose, key }: WaitingUse,
  { label }: Remote,
): () => void {
  let over = () => {};
  const waiting = new Promise<void>((resolve) => {
    over = resolve;
  });
  // VS Code cuts a notice to one line unless it has a button.
  const options = {
    location: vs.ProgressLocation.Notification,
    title: t('Waiting for your PIN or touch'),
    cancellable: true,
  };
  void vs.window.withProgress(options, async (progress, cancelled) => {
    cancelled.onCancellationRequested(() => cancel(sessionId));
    progress.report({ message: t('{0} for "{1}"', t(purpose), label) });
    const name = key === undefined ? undefined : await nameOf(key).catch(() => undefined);
    if (name) progress.report({ message: t('{0} with the key of {1} for "{2}"', t(purpose), name, label) });
    await waiting;
  });
  return over;
}
