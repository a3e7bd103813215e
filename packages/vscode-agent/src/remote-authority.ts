import { plainLine } from '@gpg-bridge/core/text/escape';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';

/** The remote that a window is connected to: what consent is kept by, and what a person calls it. */
export interface Remote {
  authority: string;
  label: string;
}

/** The window's remote; undefined in a local window. */
export function remoteOf(vs: Pick<VsCode, 'env' | 'workspace'>): Remote | undefined {
  const { remoteName } = vs.env;
  if (remoteName === undefined) return undefined;
  const folder = vs.workspace.workspaceFolders?.find(({ uri }) => uri.scheme === 'vscode-remote');
  // An empty window has no folder to read the authority from, only the kind of remote.
  const authority = folder?.uri.authority || remoteName;
  return { authority, label: labelOf(authority) };
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
