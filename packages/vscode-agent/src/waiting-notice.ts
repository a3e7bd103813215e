import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Remote } from './remote-authority.ts';

/** Shows that a private-key operation waits for the person; the returned function takes the notice away. */
export function showWaitingNotice(
  vs: Pick<VsCode, 'window' | 'ProgressLocation'>,
  purpose: string,
  { label }: Remote,
): () => void {
  let over = () => {};
  const waiting = new Promise<void>((resolve) => {
    over = resolve;
  });
  const title = `Waiting for your PIN or touch: ${purpose} for "${label}"`;
  void vs.window.withProgress({ location: vs.ProgressLocation.Notification, title }, () => waiting);
  return over;
}
