import { type BridgeError, type ErrorCode, toBridgeError } from '@gpg-bridge/core/errors';
import { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import {
  HOST_CHANGED,
  HOST_START,
  HOST_STATUS,
  HOST_STOP,
  type OwnKeysAnswer,
  REMOTE_REPORT,
} from '@gpg-bridge/vscode-shared/contract';
import { gnupgForLog } from '@gpg-bridge/vscode-shared/gnupg-facts';
import { installHalf } from '@gpg-bridge/vscode-shared/install-half';
import { t, useTranslator } from '@gpg-bridge/vscode-shared/l10n';
import { listPublicKeys } from '@gpg-bridge/vscode-shared/list-keys';
import { logTo } from '@gpg-bridge/vscode-shared/log-channel';
import { StatusPage } from '@gpg-bridge/vscode-shared/status-page';
import type { Context, VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { type CureOptions, cureFor } from './cures.ts';
import { Host, isFromHost } from './host.ts';
import { KeySync } from './key-sync.ts';
import { openRemoteMenu } from './menu.ts';
import { RemoteBridge } from './remote-bridge.ts';
import { OwnReport } from './remote-report.ts';
import { RemoteState } from './remote-state.ts';
import { SharingNotice } from './sharing-notice.ts';
import { kindOf, possibleSteps, type Situation, truthOf } from './status.ts';
import { createStatusItem, showSituation } from './status-item.ts';
import { testSigning } from './test-signing.ts';
import { Walkthrough } from './walkthrough.ts';

const SETTINGS = 'gpgBridgeRequest';
const COMMANDS = [
  'start',
  'stop',
  'showStatus',
  'openMenu',
  'syncPublicKeys',
  'testSigning',
  'allow',
] as const;
const INSTALL_HOST_HALF = '_gpg-bridge-request.installHostHalf';

/** Joins the parts of the remote's extension and starts it; returns what stops it. */
export function wireRequest(vs: VsCode, context: Context): () => Promise<void> {
  useTranslator(vs.l10n);
  // In a local window the socket here is the host's own.
  if (vs.env.remoteName === undefined) {
    explainLocalWindow(vs, context);
    return async () => {};
  }
  const { version } = context.extension.packageJSON;
  const channel = vs.window.createOutputChannel('GPG Bridge (remote)', { log: true });
  const log = logTo(channel);
  const item = createStatusItem(vs);
  const state = new RemoteState(context.globalStorageUri.fsPath, vs.env.machineId);
  const gnupg = () => ({
    // What is no text names no directory either, and is said as such.
    gpgBinDir: String(vs.workspace.getConfiguration(SETTINGS).get<unknown>('gpgBinDir') ?? '') || undefined,
  });
  log(`Remote GPG Bridge ${version}, VS Code ${vs.version}, ${process.platform}`, 'info');
  const logGnupg = async () => log(await gnupgForLog(gnupg()), 'info');
  void logGnupg();
  /** The answer that is acted on; another window may give another one. */
  let ownKeys = state.ownKeys;
  const names = new KeyNames(async () => listPublicKeys(gnupg()));
  const notice = new SharingNotice(vs, names, (sessionId) => bridge.cancel(sessionId));
  const walkthrough = new Walkthrough(vs);
  const contextKeys = new Map<string, boolean>();
  const setContext = (key: string, value: boolean) => {
    if (contextKeys.get(key) === value) return;
    contextKeys.set(key, value);
    void vs.commands.executeCommand('setContext', `gpgBridge.${key}`, value);
  };
  const host = new Host({
    execute: (command, ...args) => vs.commands.executeCommand(command, ...args),
    version,
    token: () => state.token,
    keepToken: (token) => state.keepToken(token),
    onWaiting: (use) => bridge.startWaiting(use),
    onOperation: (operation) => {
      if (bridge.addOperation(operation) && operation.outcome === 'ok') walkthrough.done('signed');
    },
  });
  const keys = new KeySync({ vs, host, gnupg, log });
  const showLog = () => channel.show();
  const bridge: RemoteBridge = new RemoteBridge({
    host,
    version,
    windowName: () => vs.workspace.name ?? t('empty window'),
    gnupg,
    log,
    isTracing: () => channel.logLevel === vs.LogLevel.Trace,
    ownKeys: () => state.ownKeys,
    askAboutOwnKeys: async () => {
      ownKeys = await askAboutOwnKeys(vs, state);
      return ownKeys;
    },
    onSituation: (situation) => {
      showSituation(vs, item, situation);
      // The other half is there by now: its page knows more.
      if (page.isOpen && truthOf(situation).error?.code !== 'HOST_EXTENSION_MISSING')
        host.run(HOST_STATUS).then(
          () => page.close(),
          () => {},
        );
      notice.update(situation);
      const isAllowed = truthOf(situation).permission === 'allowed';
      if (isAllowed) walkthrough.done('allowed');
      // Commands show in the palette where they do something.
      setContext('allowed', isAllowed);
      for (const [step, isPossible] of Object.entries(possibleSteps(situation)))
        setContext(`can.${step}`, isPossible);
      invite(situation);
    },
    onError: (error, automatic) => {
      // A failed automatic start shows in the status bar alone, unless an extension has to be installed or updated.
      if (!automatic || EXTENSION_ERRORS.has(error.code)) void explainError(vs, error, cures);
    },
    onServing: () => keys.auto(),
    onStop: () => void stopHere(),
  });

  /** One notification leads to the dialog; after that only the status bar does. */
  const invite = (situation: Situation) => {
    if (kindOf(situation) !== 'allow' || situation.role.is === 'sharing' || state.invited) return;
    state.keepInvited();
    const button = t('Allow…');
    const text = t(
      'GPG Bridge can sign in this remote with the GPG keys of your computer, once you allow it.',
    );
    void vs.window.showInformationMessage(text, button).then(async (pressed) => {
      if (pressed === button) await allow();
    });
  };
  /** A missing half is an error of ours, with a cure, and not VS Code's "command not found". */
  const runOnHost = async (command: string, ...args: unknown[]) => {
    try {
      return await host.run(command, ...args);
    } catch (error) {
      bridge.fail(error, 'host');
      return undefined;
    }
  };
  const allow = async () => {
    // Private keys of the remote's own come first: without that answer nothing is done here.
    if (bridge.situation.ownKeys) {
      await bridge.start();
      if (bridge.situation.ownKeys) return;
    }
    await bridge.allow();
  };
  const start = async () => {
    const { permission } = truthOf(bridge.situation);
    if (permission === 'off' || permission === 'stopped' || permission === 'paused') {
      if (!(await runOnHost(HOST_START))) return;
      await bridge.look();
    }
    await bridge.start();
  };
  const stop = async () => {
    bridge.passStopOn();
    await stopHere();
  };
  const stopHere = async () => {
    try {
      await host.run(HOST_STOP, 'remote');
      await bridge.look();
    } catch {
      await bridge.stop(); // without the other half there is nothing to stop but this window
    }
  };
  const syncKeys = async () => {
    try {
      await keys.ask();
      bridge.keysSynced();
    } catch (error) {
      bridge.fail(error, 'keys');
    }
  };
  /** A forward that works is not cut off before the person has allowed what takes its place. */
  const takeOver = async () => {
    const isAllowed = () => truthOf(bridge.situation).permission === 'allowed';
    if (!isAllowed()) await bridge.allow();
    if (isAllowed()) await bridge.restart({ takeover: true });
  };
  const cures: CureOptions = { vs, allow, start, takeOver, showLog };
  const runTest = () =>
    testSigning({
      ...cures,
      vs,
      host,
      gnupg,
      syncKeys,
      onSigned: () => walkthrough.done('signed'),
    });
  const report = new OwnReport({
    version,
    vscodeVersion: vs.version,
    situation: () => bridge.situation,
    socketPath: () => bridge.socketPath,
    gnupg,
  });
  const page = new StatusPage({
    vs,
    describe: () => report.alone(),
    buttons: async () => [
      { label: t('Install "Local GPG Bridge"'), command: INSTALL_HOST_HALF },
      { label: t('Open Menu'), command: 'gpg-bridge-request.openMenu' },
    ],
    copyCommand: '_gpg-bridge-request.copyStatus',
  });
  /** The page is the other half's, which knows about the keys; without it this one shows what it knows. */
  const showStatus = async () => {
    try {
      await host.run(HOST_STATUS);
      page.close();
    } catch {
      await page.open();
    }
  };
  const commands: Record<(typeof COMMANDS)[number], () => unknown> = {
    start,
    stop,
    allow,
    showStatus,
    openMenu: () => {
      walkthrough.done('menu');
      return openRemoteMenu({
        ...cures,
        vs,
        situation: () => bridge.situation,
        tryAgain: () => bridge.restart(),
        stop,
        syncKeys,
        testSigning: runTest,
        showStatus,
        names,
        ownKeys: () => state.ownKeys,
        forgetOwnKeys: () => {
          state.keepOwnKeys(undefined);
          ownKeys = undefined;
          void bridge.restart({ automatic: true });
        },
        look: () => bridge.look(),
        runOnHost,
      });
    },
    syncPublicKeys: syncKeys,
    testSigning: runTest,
  };
  context.subscriptions.push(
    channel,
    item,
    walkthrough.watch(),
    page.register(),
    vs.commands.registerCommand(REMOTE_REPORT, () => report.describe()),
    vs.commands.registerCommand(INSTALL_HOST_HALF, () => installHalf(vs, 'agent')),
    ...COMMANDS.map((name) => vs.commands.registerCommand(`gpg-bridge-request.${name}`, commands[name])),
    vs.commands.registerCommand(HOST_CHANGED, async (token?: unknown) => {
      if (typeof token === 'string') state.keepToken(token);
      await bridge.look();
    }),
    // Another window may have been given a token, or an answer.
    state.onChanged(() => {
      const changed = state.ownKeys !== ownKeys;
      ownKeys = state.ownKeys;
      if (changed) void bridge.restart({ automatic: true });
      else void bridge.look();
    }),
    vs.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SETTINGS}.gpgBinDir`)) {
        void logGnupg();
        if (bridge.situation.wanted) void bridge.restart({ automatic: true });
      } else if (event.affectsConfiguration(SETTINGS)) {
        if (truthOf(bridge.situation).permission !== 'allowed') return;
        keys.auto().then(
          () => bridge.keysSynced(),
          (error: unknown) => bridge.fail(error, 'keys'),
        );
      }
    }),
  );
  setContext('remoteHalf', true);
  void bridge.start({ automatic: true });
  return () => bridge.stop();
}

function explainLocalWindow(vs: VsCode, context: Context): void {
  const explain = () =>
    vs.window.showInformationMessage(
      t(
        'GPG Bridge has nothing to do in a local window: gpg uses your keys here anyway. Open a remote (a container, SSH, WSL) to use them there.',
      ),
    );
  for (const name of COMMANDS) {
    context.subscriptions.push(vs.commands.registerCommand(`gpg-bridge-request.${name}`, explain));
  }
}

/** The first button has the focus, and changes nothing in the remote. */
async function askAboutOwnKeys(vs: VsCode, state: RemoteState): Promise<OwnKeysAnswer | undefined> {
  const keep = t('Keep Using the Keys Here');
  const setAside = t("Use My Computer's Keys");
  const pressed = await vs.window.showWarningMessage(
    t("Use your computer's GPG keys in this remote?"),
    {
      modal: true,
      detail: t(
        'This remote has private GPG keys of its own. They stay as they are, but can not be used while GPG Bridge is on. Your answer is kept for this remote, and you are not asked again; the list "What is allowed" in the GPG Bridge menu takes it back.',
      ),
    },
    keep,
    setAside,
  );
  if (pressed !== keep && pressed !== setAside) return undefined;
  const answer = pressed === keep ? 'keep' : 'set-aside';
  state.keepOwnKeys(answer);
  return answer;
}

/** Errors that one of the two extensions' pages in the Extensions view helps with. */
const EXTENSION_ERRORS: ReadonlySet<ErrorCode> = new Set(['HOST_EXTENSION_MISSING', 'VERSION_MISMATCH']);

async function explainError(vs: VsCode, error: BridgeError, options: CureOptions): Promise<void> {
  const side = isFromHost(error) ? 'host' : 'remote';
  const cure = cureFor({ code: toBridgeError(error, '').code, side }, options);
  const pressed = await vs.window.showWarningMessage(`GPG Bridge: ${error.message}`, cure.label);
  if (pressed !== cure.label) return;
  try {
    await cure.run();
  } catch {
    options.showLog(); // an editor that has no such page: what happened is in the log
  }
}
