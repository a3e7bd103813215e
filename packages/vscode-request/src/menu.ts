import { HOST_MENU, type HostMenuPage } from '@gpg-bridge/vscode-shared/contract';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { type Situation, viewOf } from './status.ts';

/** What the menu of the status bar item offers. */
export interface RemoteMenuOptions {
  vs: Pick<VsCode, 'window' | 'commands'>;
  situation(): Situation;
  start(options?: { takeover: boolean }): Promise<void>;
  stop(): Promise<void>;
  syncKeys(): Promise<void>;
  showLog(): void;
  /** Called after the person may have changed what is allowed. */
  checkPermission(): Promise<void>;
}

interface Item {
  label: string;
  description?: string;
  detail?: string;
  run(): Promise<void> | void;
}

/** Opens the menu and does what the person picks. */
export async function openRemoteMenu(options: RemoteMenuOptions): Promise<void> {
  const { vs } = options;
  const view = viewOf(options.situation());
  const title = view.tooltip.split('\n')[0] ?? '';
  const placeHolder = view.tooltip.split('\n')[1] ?? '';
  const picked = await vs.window.showQuickPick(itemsFor(options), { title, placeHolder });
  await picked?.run();
}

function itemsFor(options: RemoteMenuOptions): Item[] {
  const { vs, situation, start, stop, syncKeys, showLog, checkPermission } = options;
  const { wanted, error, role } = situation();
  const hostPage = (page: HostMenuPage) => async () => {
    await vs.commands.executeCommand(HOST_MENU, page);
    await checkPermission();
  };
  const restart = async () => {
    await stop();
    await start();
  };
  const off: Item = {
    label: '$(play) Start',
    description: 'use the keys of your computer here',
    run: () => start(),
  };
  const on: Item = {
    label: '$(debug-stop) Stop',
    description: role.is === 'owner' ? 'another window on this remote takes over, if there is one' : '',
    run: stop,
  };
  const again: Item = { label: '$(refresh) Try again', description: 'start anew', run: restart };
  const takeover: Item = {
    label: '$(arrow-swap) Take the socket over',
    description: 'from the forward that holds it',
    run: async () => {
      await stop();
      await start({ takeover: true });
    },
  };
  return [
    ...(error ? [again] : []),
    ...(error?.code === 'SOCKET_HELD_BY_FORWARD' ? [takeover] : []),
    wanted ? on : off,
    { label: '$(sync) Copy public keys here…', description: 'from your computer', run: syncKeys },
    {
      label: '$(history) Recent operations',
      description: 'what your keys were used for',
      run: hostPage('operations'),
    },
    { label: '$(shield) What is allowed', description: 'see and change it', run: hostPage('allowed') },
    { label: '$(output) Show log', description: 'of this remote', run: showLog },
  ];
}
