import { mkdirSync, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { PrivateFile } from '@gpg-bridge/vscode-shared/private-file';

/** What the person decided about one remote. */
export interface KeptDecision {
  label: string;
  answer?: 'allow' | 'never' | undefined;
  /** SHA-256 of the tokens that were given for it. */
  tokens?: string[] | undefined;
  /** When a permission for a time ends. */
  until?: number | undefined;
  /** Stopped by the person, whatever else was answered. */
  off?: boolean | undefined;
}

/** Settings that act only once a dialog on this computer confirmed their value. */
export interface ConfirmableSettings {
  gpgBinDir?: string | undefined;
  consent?: string | undefined;
}

/** Everything that the person decided on this computer. */
export interface Grants {
  remotes: Record<string, KeptDecision>;
  confirmed: ConfirmableSettings;
  declined: ConfirmableSettings;
  /** No remote is served, until then or until started again. */
  stopped: { until?: number | undefined } | undefined;
}

const FILE = 'grants.json';

/** Where the decisions are kept: a file of the host's own, the same for all windows. */
export class GrantStore {
  readonly #file: PrivateFile<Grants>;

  constructor(directory: string) {
    this.#file = new PrivateFile(join(directory, FILE));
  }

  /** What is decided now, in whichever window. */
  read(): Grants {
    const { remotes, confirmed, declined, stopped } = this.#file.read();
    return {
      remotes: remotes ?? {},
      confirmed: confirmed ?? {},
      declined: declined ?? {},
      stopped: stopped ?? undefined,
    };
  }

  /** Keeps a change. */
  update(change: (grants: Grants) => Partial<Grants>): void {
    this.#file.update(() => {
      const grants = this.read();
      return { ...grants, ...change(grants) };
    });
  }

  /** Calls back when this or another window has changed something. */
  onChanged(listener: () => void): { dispose(): void } {
    const { path } = this.#file;
    const directory = dirname(path);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const watcher = watch(directory, { persistent: false }, (_event, name) => {
      if (name === null || name === basename(path)) listener();
    });
    watcher.on('error', () => {});
    return { dispose: () => watcher.close() };
  }
}
