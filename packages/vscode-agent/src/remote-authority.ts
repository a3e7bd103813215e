import { plainLine } from '@gpg-bridge/core/text/escape';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';

/** The remote that a window is connected to: what consent is kept by, and what a person calls it. */
export interface Remote {
  authority: string;
  label: string;
  /** Whether the window's folders leave no doubt which remote it is; only then a lasting answer counts. */
  certain: boolean;
}

/** A kind of remote, as `env.remoteName` gives it. A server without kinds gives its whole address. */
const KIND = /^[A-Za-z0-9_-]+$/;
/** Where VS Code runs an extension that was told to run in the remote. */
const IN_REMOTE = 2;

/**
 * Which remote a window has. Any extension of the window can change its folders, so an authority is only
 * believed when all folders have it, its kind is the window's own, and it was the same from the beginning.
 */
export class WindowRemote {
  readonly #vs: Pick<VsCode, 'env' | 'workspace'>;
  readonly #inRemote: boolean;
  readonly #first: string;
  readonly #watch: { dispose(): unknown };
  #changed = false;

  constructor(vs: Pick<VsCode, 'env' | 'workspace'>, extensionKind?: number) {
    this.#vs = vs;
    this.#inRemote = extensionKind === IN_REMOTE;
    this.#first = this.#authorities().join(' ');
    this.#watch = vs.workspace.onDidChangeWorkspaceFolders(() => this.#look());
  }

  /** The window's remote; undefined in a local window. */
  current(): Remote | undefined {
    const { remoteName } = this.#vs.env;
    if (remoteName === undefined) return undefined;
    this.#look();
    const authorities = this.#authorities();
    const [authority = ''] = authorities;
    const [kind] = authority.split('+');
    const certain =
      !this.#changed &&
      authorities.length === 1 &&
      kind === remoteName &&
      (authority.includes('+') || !KIND.test(authority));
    const known = certain ? authority : remoteName;
    return { authority: known, label: labelOf(known), certain };
  }

  /** Stops watching the folders. */
  dispose(): void {
    this.#watch.dispose();
  }

  #look(): void {
    if (this.#authorities().join(' ') !== this.#first) this.#changed = true;
  }

  /** The authorities of all folders, each once; a folder of another machine counts as one without a name. */
  #authorities(): string[] {
    const { env, workspace } = this.#vs;
    const authorities = (workspace.workspaceFolders ?? []).map(({ uri }) => {
      if (uri.scheme === 'vscode-remote') return uri.authority;
      // In the remote itself its folders are ordinary files.
      return this.#inRemote && uri.scheme === 'file' ? (env.remoteName ?? '') : '';
    });
    return [...new Set(authorities)].sort();
  }
}

/** What VS Code calls the kinds of remote, by the part of an authority before its `+`. */
const KINDS: Readonly<Record<string, string>> = {
  'ssh-remote': 'SSH',
  wsl: 'WSL',
  'dev-container': 'Dev Container',
  'attached-container': 'Container',
  'k8s-container': 'Pod',
  codespaces: 'Codespace',
  tunnel: 'Tunnel',
};

/** Fields that name a remote in the JSON that some authorities carry in hexadecimal. */
const NAMES = ['hostName', 'containerName', 'hostPath', 'podname', 'name'] as const;
const LONGEST_LABEL = 80;

/** An authority in a person's words: `ssh-remote+build1` is `SSH: build1`. */
export function labelOf(authority: string): string {
  const plus = authority.indexOf('+');
  const kind = plus < 0 ? authority : authority.slice(0, plus);
  const name = plus < 0 ? '' : nameIn(authority.slice(plus + 1));
  const words = KINDS[kind] ?? kind;
  return shorten(plainLine(name ? `${words}: ${name}` : words));
}

function nameIn(rest: string): string {
  // `dev-container+HEX@ssh-remote+host`: the part behind the @ says through what it is reached.
  const [own = ''] = rest.split('@');
  if (!/^(7b([0-9a-f]{2})+|2f([0-9a-f]{2})+)$/i.test(own)) return rest;
  const text = Buffer.from(own, 'hex').toString();
  if (!text.startsWith('{')) return text;
  try {
    const facts = JSON.parse(text) as Partial<Record<string, unknown>>;
    const name = NAMES.map((field) => facts[field]).find((value) => typeof value === 'string');
    return typeof name === 'string' ? name.replace(/^\//, name.indexOf('/', 1) < 0 ? '' : '/') : rest;
  } catch {
    return rest;
  }
}

function shorten(line: string): string {
  return line.length > LONGEST_LABEL ? `${line.slice(0, LONGEST_LABEL - 1)}…` : line;
}
