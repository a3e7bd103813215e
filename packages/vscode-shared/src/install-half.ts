import type { VsCode } from './vscode-api.ts';

/** The two extensions, by the last word of their names: `agent` is the person's computer's, `request` the remote's. */
export type Half = 'agent' | 'request';

/** Installs one of the two extensions where it belongs; shows it in the Extensions view where that does not work. */
export async function installHalf(vs: Pick<VsCode, 'commands'>, half: Half): Promise<void> {
  const id = `gpg-bridge.gpg-bridge-${half}`;
  try {
    await vs.commands.executeCommand('workbench.extensions.installExtension', id);
  } catch {
    // No marketplace has it, or none is reached: the view says so, and can install a file.
    await vs.commands.executeCommand('workbench.extensions.search', `@id:${id}`);
  }
}
