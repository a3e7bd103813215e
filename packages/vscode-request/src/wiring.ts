import type { BridgeError, ErrorCode } from '@gpg-bridge/core/errors';
import { logTo } from '@gpg-bridge/vscode-shared/log-channel';
import type { Context, VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { Host } from './host.ts';
import { KeySync } from './key-sync.ts';
import { openRemoteMenu } from './menu.ts';
import { RemoteBridge } from './remote-bridge.ts';
import { createStatusItem, showSituation } from './status-item.ts';

const SETTINGS = 'gpgBridgeRequest';
const COMMANDS = ['start', 'stop', 'showStatus', 'syncPublicKeys'] as const;
const OWN_KEYS_HIDDEN = 'ownKeysMayBeHidden';

/** Joins the parts of the remote's extension and starts it; returns what stops it. */
export function wireRequest(vs: VsCode, context: Context): () => Promise<void> {
  // In a local window the socket here is the host's own.
  if (vs.env.remoteName === undefined) {
    explainLocalWindow(vs, context);
    return async () => {};
  }
  const channel = vs.window.createOutputChannel('GPG Bridge (remote)', { log: true });
  const log = logTo(channel);
  const item = createStatusItem(vs);
  const gnupg = () => ({
    gpgBinDir: vs.workspace.getConfiguration(SETTINGS).get('gpgBinDir', '') || undefined,
  });
  const host = new Host(
    (command, ...args) => vs.commands.executeCommand(command, ...args),
    () => bridge.startWaiting(),
  );
  const keys = new KeySync({ vs, host, gnupg, log });
  const showLog = () => channel.show();
  const bridge: RemoteBridge = new RemoteBridge({
    host,
    version: context.extension.packageJSON.version,
    windowName: () => vs.workspace.name ?? 'empty window',
    gnupg,
    log,
    mayHideOwnKeys: () => askToHideOwnKeys(vs, context),
    onSituation: (situation) => showSituation(vs, item, situation),
    onError: (error, automatic) => {
      // A failed automatic start shows in the status bar alone, unless an extension has to be installed or updated.
      if (!automatic || EXTENSION_ERRORS.has(error.code)) void explainError(vs, error, showLog);
    },
    onOwner: () => {
      keys.auto().then(
        () => bridge.checkPermission(),
        (error: unknown) => bridge.fail(error, true),
      );
    },
  });
  const stop = () => bridge.stop();
  const syncKeys = async () => {
    try {
      await keys.ask();
      bridge.recover();
    } catch (error) {
      bridge.fail(error);
    }
  };
  const commands: Record<(typeof COMMANDS)[number], () => unknown> = {
    start: () => bridge.start(),
    stop,
    showStatus: () =>
      openRemoteMenu({
        vs,
        situation: () => bridge.situation,
        start: (options) => bridge.start(options),
        stop,
        syncKeys,
        showLog,
        checkPermission: () => bridge.checkPermission(),
      }),
    syncPublicKeys: syncKeys,
  };
  context.subscriptions.push(
    channel,
    item,
    ...COMMANDS.map((name) => vs.commands.registerCommand(`gpg-bridge-request.${name}`, commands[name])),
    vs.workspace.onDidChangeConfiguration((event) => {
      if (!event.affectsConfiguration(`${SETTINGS}.gpgBinDir`) || !bridge.situation.wanted) return;
      void bridge.stop().then(() => bridge.start());
    }),
  );
  void bridge.start({ automatic: true });
  return stop;
}

function explainLocalWindow(vs: VsCode, context: Context): void {
  const explain = () =>
    vs.window.showInformationMessage(
      'GPG Bridge has nothing to do in a local window: gpg uses your keys here anyway. Open a remote (a container, SSH, WSL) to use them there.',
    );
  for (const name of COMMANDS) {
    context.subscriptions.push(vs.commands.registerCommand(`gpg-bridge-request.${name}`, explain));
  }
}

async function askToHideOwnKeys(vs: VsCode, { globalState }: Context): Promise<boolean> {
  if (globalState.get(OWN_KEYS_HIDDEN, false)) return true;
  const use = "Use My Computer's Keys";
  const pressed = await vs.window.showWarningMessage(
    "Use your computer's GPG keys in this remote?",
    {
      modal: true,
      detail:
        'This remote has private GPG keys of its own. They stay as they are, but can not be used while GPG Bridge is on. You can turn it off at any time from its menu in the status bar.',
    },
    use,
  );
  if (pressed !== use) return false;
  await globalState.update(OWN_KEYS_HIDDEN, true);
  return true;
}

/** Errors that one of the two extensions' pages in the Extensions view helps with. */
const EXTENSION_ERRORS: ReadonlySet<ErrorCode> = new Set(['HOST_EXTENSION_MISSING', 'VERSION_MISMATCH']);
/** Errors that the person can resolve in the list of what is allowed. */
const CONSENT_ERRORS: ReadonlySet<ErrorCode> = new Set(['CONSENT_DENIED']);

async function explainError(vs: VsCode, error: BridgeError, showLog: () => void): Promise<void> {
  const { executeCommand } = vs.commands;
  const help: [button: string, run: () => unknown] = EXTENSION_ERRORS.has(error.code)
    ? [
        'Show Extensions',
        () => executeCommand('workbench.extensions.search', '@id:gpg-bridge.gpg-bridge-agent'),
      ]
    : CONSENT_ERRORS.has(error.code)
      ? ['What Is Allowed', () => executeCommand('gpg-bridge-agent.showStatus', 'allowed')]
      : ['Show Log', showLog];
  const pressed = await vs.window.showWarningMessage(`GPG Bridge: ${error.message}`, help[0]);
  if (pressed) await help[1]();
}
