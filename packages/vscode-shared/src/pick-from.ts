import type { QuickPickItem, QuickPickOptions } from 'vscode';
import type { VsCode } from './vscode-api.ts';

/**
 * Shows a list in which a person picks one row. An icon that a label begins with becomes the row's own: in a
 * label a screen reader would hear its name.
 */
export function pickFrom<T extends QuickPickItem>(
  vs: Pick<VsCode, 'window' | 'ThemeIcon'>,
  items: readonly T[],
  options: QuickPickOptions,
): Thenable<T | undefined> {
  return vs.window.showQuickPick(withIcons(vs, items), options);
}

/** The same items with their icons beside the labels. */
export function withIcons<T extends QuickPickItem>(vs: Pick<VsCode, 'ThemeIcon'>, items: readonly T[]): T[] {
  return items.map((item) => {
    const [, icon, label] = /^\$\(([\w~-]+)\) (.*)$/s.exec(item.label) ?? [];
    return icon === undefined || label === undefined
      ? item
      : { ...item, label, iconPath: new vs.ThemeIcon(icon) };
  });
}
