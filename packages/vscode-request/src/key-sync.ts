import { BridgeError } from '@gpg-bridge/core/errors';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import type { LogCallback } from '@gpg-bridge/core/log';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { importPublicKeys } from '@gpg-bridge/core/remote/keyring';
import type { KeyRequest } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { pickFrom } from '@gpg-bridge/vscode-shared/pick-from';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Host } from './host.ts';

/** What key sync needs. */
export interface KeySyncOptions {
  vs: Pick<VsCode, 'window' | 'workspace' | 'ProgressLocation' | 'ConfigurationTarget' | 'ThemeIcon'>;
  host: Host;
  gnupg(): GnupgOptions;
  log: LogCallback;
}

/** What became of the keys. */
export interface SyncResult {
  added: number;
  updated: number;
  unchanged: number;
  /** What the person picked from the list, if they were asked. */
  chosen?: string[] | undefined;
}

const SETTING = 'autoSyncPublicKeys';

/** Runs the copying inside a progress notification, or without one. */
type Around = <T>(work: () => Promise<T>) => Thenable<T>;

/** Copies public keys of the host into the remote's keyring. */
export class KeySync {
  constructor(private readonly options: KeySyncOptions) {}

  /** As the setting says, when the bridge comes up; only new keys are worth a message. */
  async auto(): Promise<void> {
    const { vs } = this.options;
    const wanted = this.#setting();
    if (wanted === 'none') return;
    const result = await this.#sync(wanted, (work) => work());
    if (result && result.added > 0)
      void vs.window.showInformationMessage(`GPG Bridge: ${describeSync(result)}.`);
  }

  /** Asks which keys, copies them and says what became of them. */
  async ask(): Promise<void> {
    const { vs } = this.options;
    const items: { label: string; description: string; wanted: KeyRequest }[] = [
      {
        label: `$(key) ${t('Your own keys')}`,
        description: t('those you can sign and decrypt with'),
        wanted: 'pairs',
      },
      {
        label: `$(organization) ${t('All public keys')}`,
        description: t('your whole keyring'),
        wanted: 'all',
      },
      { label: `$(list-selection) ${t('Choose keys…')}`, description: t('from a list'), wanted: 'choose' },
    ];
    const title = t('Copy public keys from your computer to this remote');
    const picked = await pickFrom(vs, items, { title, placeHolder: t('Which public keys?') });
    if (!picked) return;
    const options = {
      location: vs.ProgressLocation.Notification,
      title: t('GPG Bridge: copying public keys…'),
    };
    const result = await this.#sync(picked.wanted, (work) => vs.window.withProgress(options, work));
    if (!result) return;
    const always = t('Always Copy These');
    const again = result.chosen?.length ? [always] : [];
    const text = `GPG Bridge: ${describeSync(result)}.`;
    // Not awaited: the message may stay for as long as the person likes.
    void vs.window.showInformationMessage(text, ...again).then((pressed) => {
      if (pressed !== always) return;
      const settings = vs.workspace.getConfiguration('gpgBridgeRequest');
      return settings.update(SETTING, result.chosen, vs.ConfigurationTarget.Global);
    });
  }

  /** Undefined when the person closed the list of keys. */
  async #sync(wanted: KeyRequest, around: Around): Promise<SyncResult | undefined> {
    // While a person picks from a list nothing is being copied.
    const picked = wanted === 'choose' ? await this.options.host.exportPublicKeys(wanted) : undefined;
    if (picked && !picked.chosen) return undefined;
    return around(async () => {
      const { host, gnupg, log } = this.options;
      const { keys, trust, count } = picked ?? (await host.exportPublicKeys(wanted));
      if (count === 0) return { added: 0, updated: 0, unchanged: 0 };
      const result = await importPublicKeys(
        { keys: Buffer.from(keys, 'base64'), trust },
        new DirectOperations(gnupg()),
      );
      log(`copied public keys: ${describeSync(result)}`, 'info');
      return { ...result, chosen: picked?.chosen };
    });
  }

  #setting(): KeyFilter {
    const value = this.options.vs.workspace.getConfiguration('gpgBridgeRequest').get<unknown>(SETTING);
    if (value === 'all' || value === 'none') return value;
    if (Array.isArray(value)) return value.map(String);
    if (value === 'pairs' || value === undefined) return 'pairs';
    throw new BridgeError('SETTING_REFUSED', {
      what: t('no public keys are copied'),
      why: t(
        'the setting gpgBridgeRequest.autoSyncPublicKeys is {0}, and not "pairs", "all", "none" or a list',
        JSON.stringify(value),
      ),
      fix: t('Correct it in the settings of this remote.'),
    });
  }
}

/** The result in words: `3 keys added, 1 unchanged`. */
export function describeSync({ added, updated, unchanged }: SyncResult): string {
  const parts: [count: number, words: string][] = [
    [added, added === 1 ? t('1 key added') : t('{0} keys added', added)],
    [updated, updated === 1 ? t('1 key updated') : t('{0} keys updated', updated)],
    [unchanged, unchanged === 1 ? t('1 key unchanged') : t('{0} keys unchanged', unchanged)],
  ];
  const told = parts.filter(([count]) => count > 0).map(([, words]) => words);
  return told.length > 0 ? told.join(', ') : t('no public keys to copy');
}
