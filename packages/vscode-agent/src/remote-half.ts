import { join } from 'node:path';
import { REMOTE_REPORT, REMOTE_STATUS } from '@gpg-bridge/vscode-shared/contract';
import { installHalf } from '@gpg-bridge/vscode-shared/install-half';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { PrivateFile } from '@gpg-bridge/vscode-shared/private-file';
import { parseRemoteReport, type RemoteReport } from '@gpg-bridge/vscode-shared/status-report';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Remote } from './remote-authority.ts';

/** What the host's half needs to know the other one. */
export interface RemoteHalfOptions {
  vs: Pick<VsCode, 'commands' | 'window' | 'workspace'>;
  /** Where it is kept which remotes the person was told about. */
  directory: string;
  remote(): Remote | undefined;
}

interface Kept {
  /** The remotes of which the person knows that the other half is missing there. */
  told: string[];
}

/** The other half starts when its window has; a slow remote takes longer. */
const PATIENCE_MS = 20_000;
const REPORT_TIMEOUT_MS = 3_000;
const MOST_TOLD = 200;

/** The half that runs in the remote, as the host's half sees it. */
export class RemoteHalf {
  readonly #options: RemoteHalfOptions;
  readonly #file: PrivateFile<Kept>;

  constructor(options: RemoteHalfOptions) {
    this.#options = options;
    this.#file = new PrivateFile(join(options.directory, 'missing-half.json'));
  }

  /** Whether it runs in this window. */
  async isThere(): Promise<boolean> {
    return (await this.#options.vs.commands.getCommands()).includes(REMOTE_STATUS);
  }

  /** Installs it in this window's remote, or shows it in the Extensions view. */
  install(): Promise<void> {
    return installHalf(this.#options.vs, 'request');
  }

  /** What it says of itself; undefined if it is not there, or does not answer. */
  async report(): Promise<RemoteReport | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const silent = new Promise<undefined>((resolve) => {
      timer = setTimeout(resolve, REPORT_TIMEOUT_MS, undefined);
    });
    try {
      const answer = this.#options.vs.commands.executeCommand(REMOTE_REPORT);
      return parseRemoteReport(await Promise.race([answer, silent]));
    } catch {
      return undefined; // VS Code knows no such command
    } finally {
      clearTimeout(timer);
    }
  }

  /** Says once for each remote that the other half is missing there, and offers to install it. */
  watch(): { dispose(): unknown } {
    const timer = setTimeout(() => void this.#tellIfMissing(), PATIENCE_MS).unref();
    return { dispose: () => clearTimeout(timer) };
  }

  async #tellIfMissing(): Promise<void> {
    const { vs } = this.#options;
    const remote = this.#options.remote();
    // In a folder that is not trusted VS Code keeps the other half off.
    if (!remote || !vs.workspace.isTrusted || (await this.isThere())) return;
    const { told = [] } = this.#file.read();
    if (told.includes(remote.authority)) return;
    this.#file.update(() => ({ told: [...told, remote.authority].slice(-MOST_TOLD) }));
    const install = t('Install "Remote GPG Bridge"');
    const pressed = await vs.window.showInformationMessage(
      t(
        'GPG Bridge is on your computer, but its other half, "Remote GPG Bridge", is not in "{0}": your keys can not be used there.',
        remote.label,
      ),
      install,
    );
    if (pressed === install) await this.install();
  }
}
