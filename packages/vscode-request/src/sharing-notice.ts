import type { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { type Situation, truthOf } from './status.ts';

/** In a window that shares another's socket: shows that an operation waits for the person, until it does no more. */
export class SharingNotice {
  #over: (() => void) | undefined;

  constructor(
    private readonly vs: Pick<VsCode, 'window' | 'ProgressLocation'>,
    private readonly names: KeyNames,
    private readonly cancel: (sessionId: string) => void,
  ) {}

  /** Shows or takes away the notice as the situation wants it; the owner's window has one of the host's side. */
  update(situation: Situation): void {
    const [use] = situation.role.is === 'sharing' ? truthOf(situation).waiting : [];
    if (!use) {
      this.#over?.();
      this.#over = undefined;
      return;
    }
    if (this.#over) return;
    const waiting = new Promise<void>((resolve) => {
      this.#over = resolve;
    });
    const title = t('Waiting for your PIN or touch');
    const options = { location: this.vs.ProgressLocation.Notification, title, cancellable: true };
    void this.vs.window.withProgress(options, async (progress, cancelled) => {
      cancelled.onCancellationRequested(() => this.cancel(use.sessionId));
      progress.report({ message: t('{0} in this remote', t(use.purpose)) });
      const name = use.key && (await this.names.nameOf(use.key));
      if (name)
        progress.report({ message: t('{0} with the key of {1} in this remote', t(use.purpose), name) });
      await waiting;
    });
  }
}
