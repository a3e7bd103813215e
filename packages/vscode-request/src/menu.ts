import type { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import {
  HOST_MENU,
  HOST_STOP,
  type HostMenuPage,
  type OwnKeysAnswer,
} from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { pickFrom } from '@gpg-bridge/vscode-shared/pick-from';
import { describeOperation } from '@gpg-bridge/vscode-shared/recent-operations';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { type CureOptions, cureFor } from './cures.ts';
import { isInUse, possibleSteps, type Situation, truthOf, viewOf } from './status.ts';

/** What the menu of the status bar item offers. */
export interface RemoteMenuOptions extends CureOptions {
  vs: Pick<VsCode, 'window' | 'commands' | 'ThemeIcon'>;
  situation(): Situation;
  tryAgain(): Promise<void>;
  stop(): Promise<void>;
  syncKeys(): Promise<void>;
  testSigning(): Promise<void>;
  showStatus(): Promise<void>;
  names: KeyNames;
  ownKeys(): OwnKeysAnswer | undefined;
  forgetOwnKeys(): void;
  /** Called after the person may have changed what is allowed. */
  look(): Promise<void>;
  /** Runs a command of the host's extension. */
  runOnHost(command: string, ...args: unknown[]): Promise<unknown>;
}

interface Item {
  label: string;
  description?: string;
  detail?: string;
  run(): unknown;
}

/** Opens the menu and does what the person picks. */
export async function openRemoteMenu(options: RemoteMenuOptions): Promise<void> {
  const { vs } = options;
  const { title, detail } = viewOf(options.situation());
  const picked = await pickFrom(vs, itemsFor(options), { title, placeHolder: detail });
  await picked?.run();
}

/** What the person most likely wants comes first, since Enter takes it; what stops something comes last. */
function itemsFor(options: RemoteMenuOptions): Item[] {
  const { situation, allow, start, syncKeys, testSigning, showLog } = options;
  const present = situation();
  const { error } = truthOf(present);
  const { kind } = viewOf(present);
  const can = possibleSteps(present);
  const hostPage = (page: HostMenuPage) => () => openHostPage(options, page);
  const first: Item[] = [];
  if (kind === 'error') {
    if (error) {
      const cure = cureFor(error, options);
      // The line above the list has room for what is wrong, and not for what helps.
      first.push({
        label: `$(lightbulb) ${cure.label}`,
        description: t('mends it'),
        detail: error.fix ?? error.message,
        run: cure.run,
      });
    }
    first.push({
      label: `$(refresh) ${t('Try again')}`,
      description: t('start anew'),
      run: options.tryAgain,
    });
  } else if (kind === 'forward') {
    first.push({
      label: `$(arrow-swap) ${t('Take over')}`,
      description: t('use GPG Bridge in place of the other forward'),
      run: options.takeOver,
    });
  } else if (can.allow) {
    first.push(
      {
        label: `$(shield) ${t('Allow…')}`,
        description: t('your computer asks you'),
        run: allow,
      },
      {
        label: `$(watch) ${t('Allow for a time…')}`,
        description: t('it ends by itself'),
        run: hostPage('allow-for'),
      },
    );
  } else if (can.start) {
    first.push({
      label: `$(play) ${t('Start…')}`,
      description: t('use the keys of your computer here'),
      run: start,
    });
  }
  const uses: Item[] = isInUse(kind)
    ? [
        {
          label: `$(beaker) ${t('Test signing')}`,
          description: t('each step, and what helps'),
          run: testSigning,
        },
        {
          label: `$(sync) ${t('Copy public keys here…')}`,
          description: t('from your computer'),
          run: syncKeys,
        },
      ]
    : [];
  const stops: Item[] = can.stop
    ? [
        {
          label: `$(debug-pause) ${t('Pause…')}`,
          description: t('nothing is signed for any remote for a while'),
          run: hostPage('pause'),
        },
        {
          label: `$(debug-stop) ${t('Stop in this remote')}`,
          description: t('in all its windows, until you start it again'),
          run: options.stop,
        },
        {
          label: `$(debug-stop) ${t('Stop on this computer')}`,
          description: t('for all remotes, until you start it again'),
          run: async () => {
            await options.runOnHost(HOST_STOP, 'computer');
            await options.look();
          },
        },
      ]
    : [];
  return [
    ...first,
    ...uses,
    {
      label: `$(info) ${t('Show status')}`,
      description: t('both halves, keys, last operations'),
      run: options.showStatus,
    },
    {
      label: `$(history) ${t('Recent operations')}`,
      description: t('what your keys were used for'),
      run: () => showOperations(options),
    },
    {
      label: `$(list-unordered) ${t('What is allowed')}`,
      description: t('see and change it'),
      run: hostPage('allowed'),
    },
    { label: `$(output) ${t('Show log')}`, description: t('of this remote'), run: showLog },
    ...stops,
  ];
}

async function openHostPage(options: RemoteMenuOptions, page: HostMenuPage): Promise<void> {
  const { runOnHost, ownKeys, forgetOwnKeys, look } = options;
  const outcome = await runOnHost(HOST_MENU, page, ownKeys());
  if (outcome === 'forget-own-keys') forgetOwnKeys();
  await look();
}

/** What the keys were used for in this remote, through whichever window. */
async function showOperations({ vs, situation, names, showLog }: RemoteMenuOptions): Promise<void> {
  const { operations } = truthOf(situation());
  if (operations.length === 0) {
    void vs.window.showInformationMessage(
      t('Your keys have not been used in this remote since its window was opened.'),
    );
    return;
  }
  const items = await Promise.all(
    operations.map(async (operation) => ({
      label: `${operation.outcome === 'ok' ? '$(check)' : '$(warning)'} ${describeOperation(operation)}`,
      description: new Date(operation.startedAt).toLocaleTimeString(),
      detail: operation.key ? ((await names.nameOf(operation.key)) ?? t('key {0}', operation.key)) : '',
    })),
  );
  const title = t('What your keys were used for in this remote');
  const placeHolder = t('Choose one to see the log');
  if (await pickFrom(vs, items, { title, placeHolder })) showLog();
}
