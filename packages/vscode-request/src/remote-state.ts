import { createHash } from 'node:crypto';
import { mkdirSync, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { OwnKeysAnswer } from '@gpg-bridge/vscode-shared/contract';
import { PrivateFile } from '@gpg-bridge/vscode-shared/private-file';

interface Kept {
  /** By computer: one remote may be used from several. */
  tokens: Record<string, string>;
  ownKeys: OwnKeysAnswer;
  /** The person has been told once that this remote can be allowed. */
  invited: boolean;
}

const FILE = 'remote.json';

/**
 * What this remote keeps, in a file of its own: VS Code's own state and secrets lie on the person's computer and
 * are the same for all remotes.
 */
export class RemoteState {
  readonly #file: PrivateFile<Kept>;
  readonly #computer: string;

  constructor(directory: string, machineId: string) {
    this.#file = new PrivateFile(join(directory, FILE));
    this.#computer = createHash('sha256').update(machineId).digest('hex').slice(0, 16);
  }

  /** The token that the computer of this window gave this remote. */
  get token(): string | undefined {
    const tokens = this.#file.read().tokens ?? {};
    return Object.hasOwn(tokens, this.#computer) ? tokens[this.#computer] : undefined;
  }

  keepToken(token: string): void {
    this.#file.update((kept) => ({ ...kept, tokens: { ...kept.tokens, [this.#computer]: token } }));
  }

  /** What the person answered about private keys of the remote's own. */
  get ownKeys(): OwnKeysAnswer | undefined {
    return this.#file.read().ownKeys;
  }

  keepOwnKeys(answer: OwnKeysAnswer | undefined): void {
    this.#file.update(({ ownKeys: _former, ...kept }) => (answer ? { ...kept, ownKeys: answer } : kept));
  }

  get invited(): boolean {
    return this.#file.read().invited === true;
  }

  keepInvited(): void {
    this.#file.update((kept) => ({ ...kept, invited: true }));
  }

  /** Calls back when this or another window has changed something. */
  onChanged(listener: () => void): { dispose(): void } {
    const { path } = this.#file;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const watcher = watch(dirname(path), { persistent: false }, (_event, name) => {
      if (name === null || name === basename(path)) listener();
    });
    watcher.on('error', () => {});
    return { dispose: () => watcher.close() };
  }
}
