import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { ConsentAnswer, ConsentDialogs } from './consent.ts';
import { DialogPace } from './dialog-pace.ts';
import type { ConfirmableSettings } from './grant-store.ts';
import type { Remote } from './remote-authority.ts';

/** All questions of the host's side. */
export interface HostDialogs extends ConsentDialogs {
  /** Undefined when the dialog was closed without an answer. */
  confirmSetting(name: keyof ConfirmableSettings, value: string): Promise<boolean | undefined>;
  /** Whether a remote may use the keys for a time. */
  confirmForTime(remote: Remote, words: string): Promise<boolean>;
}

/**
 * The questions as modal dialogs. A notification or a list would not do: VS Code has commands that
 * accept those, and any extension of the window can run them. VS Code puts the focus on the first button, so
 * the first one grants nothing: somebody who is typing answers with Enter or the space bar, unread.
 */
export function consentDialogs(vs: Pick<VsCode, 'window'>, pace: DialogPace = new DialogPace()): HostDialogs {
  let hasSaidSo = false;
  const askModal = async (question: string, detail: string[], ...buttons: string[]) => {
    if (!pace.mayOpen) {
      if (!hasSaidSo) void vs.window.showInformationMessage(keptQuiet());
      hasSaidSo = true;
      return undefined;
    }
    hasSaidSo = false;
    const options = { modal: true, detail: detail.join('\n\n') };
    const pressed = await vs.window.showWarningMessage(question, options, ...buttons);
    pace.answered(pressed !== undefined && pressed !== buttons[0] && pressed !== t('Never'));
    return pressed;
  };
  const choose = async (question: string, detail: string[], no: string, yes: string) => {
    const pressed = await askModal(question, detail, no, yes);
    return pressed === undefined ? undefined : pressed === yes;
  };
  const confirm = async (...question: Parameters<typeof choose>) => (await choose(...question)) === true;
  return {
    async ask(remote: Remote) {
      const answers: [button: string, answer: ConsentAnswer | undefined][] = [
        [t('Not Now'), undefined],
        [t('Only Now'), { is: 'only-now' }],
        ...(remote.certain ? [[t('Allow'), { is: 'allow' }] as [string, ConsentAnswer]] : []),
        [t('Never'), { is: 'never' }],
      ];
      const pressed = await askModal(
        t('Allow a remote that calls itself "{0}" to use your GPG keys?', remote.label),
        [
          t(
            'Programs there could ask the gpg-agent on this computer to sign and decrypt, and could read your public keys.',
          ),
          t(
            'Your private keys stay here, and gpg-agent asks for your PIN, passphrase or touch as it always does.',
          ),
          remote.certain
            ? t(
                '"Only Now" lasts until this window is closed or reloaded. All extensions of this window share the permission. You can take it back at any time from the GPG Bridge menu.',
              )
            : t(
                'Which remote this is can not be told for sure from the folders of this window, so it can be allowed for this window only, until that is closed or reloaded. All extensions of this window share the permission.',
              ),
        ],
        ...answers.map(([button]) => button),
      );
      return answers.find(([button]) => button === pressed)?.[1];
    },
    confirmForTime: ({ label }, words) =>
      confirm(
        t('Allow a remote that calls itself "{0}" to use your GPG keys for {1}?', label, words),
        [
          t(
            'After that it has to ask again. You can take the permission back at any time from the GPG Bridge menu.',
          ),
        ],
        t('Not Now'),
        t('Allow for {0}', words),
      ),
    confirmStart: (what) =>
      confirm(
        t('Start GPG Bridge again?'),
        [what, t('If you did not just choose Start yourself, an extension did: leave it stopped.')],
        t('Leave Stopped'),
        t('Start'),
      ),
    confirmSetting: (name, value) =>
      name === 'consent'
        ? choose(
            t('Allow every remote to use your GPG keys?'),
            [
              t(
                'The setting "gpgBridgeAgent.consent" is "always". If you did not set it yourself, choose "Ask About Each": you will be asked about each remote instead.',
              ),
            ],
            t('Ask About Each'),
            t('Allow Every Remote'),
          )
        : choose(
            t('Run the GnuPG programs in this directory?'),
            [
              value,
              t(
                'The setting "gpgBridgeAgent.gpgBinDir" names this directory of your computer. Extensions of a remote can write settings: if you did not set it yourself, choose "Do Not Use".',
              ),
            ],
            t('Do Not Use'),
            t('Use This Directory'),
          ),
  };
}

function keptQuiet(): string {
  return t(
    'GPG Bridge: a question came again each time that you closed it, so it is not asked for a while. If that was not you, an extension of this window asks.',
  );
}
