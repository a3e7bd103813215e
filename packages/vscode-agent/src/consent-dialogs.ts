import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { ConsentAnswer, ConsentDialogs } from './consent.ts';
import type { Remote } from './remote-authority.ts';

const ANSWERS: Readonly<Record<string, ConsentAnswer>> = {
  Allow: 'allow',
  'Only now': 'only-now',
  Never: 'never',
};

const EVERY_REMOTE = 'Allow every remote';

/**
 * The questions as modal dialogs. A notification or a list would not do: VS Code has commands that
 * accept those, and any extension of the window can run them.
 */
export function consentDialogs(vs: Pick<VsCode, 'window'>): ConsentDialogs {
  return {
    async ask({ label }: Remote) {
      const pressed = await vs.window.showWarningMessage(
        `Allow "${label}" to use your GPG keys?`,
        {
          modal: true,
          detail: [
            'Programs there could ask the gpg-agent on this computer to sign and decrypt, and could read your public keys.',
            'Your private keys stay here, and gpg-agent asks for your PIN, passphrase or touch as it always does.',
            '"Only now" lasts until this window is closed. The permission is shared by all extensions of this window, and you can take it back at any time from the GPG Bridge menu.',
          ].join('\n\n'),
        },
        ...Object.keys(ANSWERS),
      );
      return pressed === undefined ? undefined : ANSWERS[pressed];
    },
    async confirmAlways() {
      const pressed = await vs.window.showWarningMessage(
        'Allow every remote to use your GPG keys?',
        {
          modal: true,
          detail:
            'The setting "gpgBridgeAgent.consent" is "always". If you did not set it yourself, choose Cancel: you will be asked about each remote instead.',
        },
        EVERY_REMOTE,
      );
      return pressed === EVERY_REMOTE;
    },
  };
}
