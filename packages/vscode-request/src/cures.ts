import { installHalf } from '@gpg-bridge/vscode-shared/install-half';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { ShownError } from './status.ts';

/** What helps against an error: a button's words and what it does. */
export interface Cure {
  label: string;
  run(): unknown;
}

/** What a cure may make use of. */
export interface CureOptions {
  vs: Pick<VsCode, 'commands'>;
  allow(): unknown;
  start(): unknown;
  takeOver(): unknown;
  showLog(): unknown;
}

/** The step that mends an error. */
export function cureFor({ code, side }: Pick<ShownError, 'code' | 'side'>, options: CureOptions): Cure {
  const { vs, allow, start, takeOver, showLog } = options;
  const run =
    (command: string, ...args: unknown[]) =>
    () =>
      vs.commands.executeCommand(command, ...args);
  switch (code) {
    case 'HOST_EXTENSION_MISSING':
      return {
        label: t('Install "Local GPG Bridge"'),
        run: () => installHalf(vs, 'agent'),
      };
    case 'VERSION_MISMATCH':
      return {
        label: t('Show Both Halves'),
        run: run('workbench.extensions.search', '@installed GPG Bridge'),
      };
    case 'GPGCONF_MISSING':
    case 'GPG_MISSING':
    case 'SETTING_REFUSED':
      return side === 'host'
        ? {
            label: t('Open the Setting of Your Computer'),
            run: run('workbench.action.openSettings', 'gpgBridgeAgent.gpgBinDir'),
          }
        : {
            label: t('Open the Setting of This Remote'),
            run: run('workbench.action.openRemoteSettings', {
              query: code === 'SETTING_REFUSED' ? 'gpgBridgeRequest' : 'gpgBridgeRequest.gpgBinDir',
            }),
          };
    case 'SETTING_UNCONFIRMED':
      return { label: t('Confirm…'), run: allow };
    case 'CONSENT_REQUIRED':
    case 'CONSENT_DENIED':
      return { label: t('Allow…'), run: allow };
    case 'HOST_TURNED_OFF':
      return { label: t('Start…'), run: start };
    case 'SOCKET_PATH_TOO_LONG':
    case 'SOCKET_DIR_UNUSABLE':
      return { label: t('Open a Terminal Here'), run: run('workbench.action.terminal.new') };
    case 'SOCKET_HELD_BY_FORWARD':
      return { label: t('Take Over'), run: takeOver };
    default:
      return { label: t('Show Log'), run: showLog };
  }
}
