import { expect, it } from 'vitest';
import { StatusPage, type StatusPageOptions } from './status-page.ts';

/** A panel that, like VS Code's, is not to be touched once it is closed. */
function panelOf() {
  let isClosed = false;
  let closed = () => {};
  const drawn: string[] = [];
  const webview = {
    options: {},
    set html(text: string) {
      drawn.push(text);
    },
  };
  const panel = {
    visible: false,
    get webview() {
      if (isClosed) throw new Error('Webview is disposed');
      return webview;
    },
    onDidDispose(listener: () => void) {
      closed = listener;
    },
    onDidChangeViewState() {},
    dispose() {
      isClosed = true;
      closed();
    },
  };
  return { panel, drawn };
}

it('draws nothing on a page that was closed while it was being described', async () => {
  const { panel, drawn } = panelOf();
  const vs = {
    window: { createWebviewPanel: () => panel },
    ViewColumn: { Active: -1 },
    env: { language: 'en' },
  } as unknown as StatusPageOptions['vs'];
  const page = new StatusPage({
    vs,
    describe: async () => ({ title: 'ready', detail: '', tone: 'good', halves: [], tables: [] }),
    buttons: async () => {
      panel.dispose();
      return [];
    },
    copyCommand: 'copy',
  });
  await page.open();
  expect(drawn).toEqual([]);
  expect(page.isOpen).toBe(false);
});
