import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { StatusBarItem } from 'vscode';
import { type Situation, viewOf } from './status.ts';

/** Far to the right: in a narrow window VS Code leaves out the items of this side from its left on. */
const PRIORITY = -100;

/** Makes the status bar item, which opens the menu. */
export function createStatusItem(vs: Pick<VsCode, 'window' | 'StatusBarAlignment'>): StatusBarItem {
  const item = vs.window.createStatusBarItem('gpg-bridge.status', vs.StatusBarAlignment.Right, PRIORITY);
  item.name = 'GPG Bridge';
  item.command = 'gpg-bridge-request.openMenu';
  return item;
}

/** Shows a situation. */
export function showSituation(
  vs: Pick<VsCode, 'ThemeColor'>,
  item: StatusBarItem,
  situation: Situation,
): void {
  const { text, tooltip, accessibleName, background } = viewOf(situation);
  item.text = text;
  item.tooltip = tooltip;
  item.accessibilityInformation = { label: accessibleName, role: 'button' };
  item.backgroundColor = background && new vs.ThemeColor(background);
  item.show();
}
