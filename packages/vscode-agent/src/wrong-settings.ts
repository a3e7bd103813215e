import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';

const SETTINGS = 'gpgBridgeAgent';

/** What a setting may be; in place of anything else its first value counts. */
const ALLOWED: Readonly<Record<string, readonly unknown[]>> = {
  consent: ['ask', 'always'],
  notifyOnUse: [false, true],
  answerAhead: [true, false],
};

/** Says that a setting of this computer has a value that means nothing, once for each value. */
export class WrongSettings {
  readonly #told = new Map<string, string>();

  constructor(private readonly vs: Pick<VsCode, 'window' | 'workspace' | 'commands'>) {}

  /** Looks at the settings as they are now. */
  look(): void {
    const settings = this.vs.workspace.getConfiguration(SETTINGS);
    for (const [name, allowed] of Object.entries(ALLOWED)) {
      const value = settings.get<unknown>(name) ?? allowed[0];
      const written = JSON.stringify(value);
      if (allowed.includes(value)) this.#told.delete(name);
      else if (this.#told.get(name) !== written) {
        this.#told.set(name, written);
        void this.#tell(
          name,
          written,
          allowed.map((each) => JSON.stringify(each)),
        );
      }
    }
  }

  async #tell(name: string, written: string, allowed: readonly string[]): Promise<void> {
    const open = t('Open the Setting');
    const text = t(
      'GPG Bridge: the setting {0} is {1}, and not {2}. It counts as {3}.',
      `${SETTINGS}.${name}`,
      written,
      allowed.join(t(' or ')),
      allowed[0]!,
    );
    const pressed = await this.vs.window.showWarningMessage(text, open);
    if (pressed === open)
      await this.vs.commands.executeCommand('workbench.action.openSettings', `${SETTINGS}.${name}`);
  }
}
