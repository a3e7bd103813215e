import { describeError } from '@gpg-bridge/core/assuan/error-codes';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { purposeOf } from '@gpg-bridge/core/assuan/private-key-commands';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { launchAgent } from '@gpg-bridge/core/gnupg/gpgconf';
import { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import type { GpgGrant } from '@gpg-bridge/core/host/gpg-grant';
import { KeyUsages } from '@gpg-bridge/core/host/key-usages';
import { leftOutKeys } from '@gpg-bridge/core/host/left-out-keys';
import { PromptPace } from '@gpg-bridge/core/host/prompt-pace';
import type { RecordedLine } from '@gpg-bridge/core/host/use-record-file';
import type { LogCallback } from '@gpg-bridge/core/log';
import { printable } from '@gpg-bridge/core/text/escape';
import {
  type CheckPurpose,
  HOST_CHANGED,
  HOST_COMMANDS,
  HOST_MENU,
  HOST_START,
  HOST_STATUS,
  HOST_STOP,
  type KeyRequest,
  reply,
} from '@gpg-bridge/vscode-shared/contract';
import { gnupgForLog } from '@gpg-bridge/vscode-shared/gnupg-facts';
import { t, useTranslator } from '@gpg-bridge/vscode-shared/l10n';
import { listHostKeys } from '@gpg-bridge/vscode-shared/list-keys';
import { logTo } from '@gpg-bridge/vscode-shared/log-channel';
import { describeOperation, RecentOperations } from '@gpg-bridge/vscode-shared/recent-operations';
import { StatusPage } from '@gpg-bridge/vscode-shared/status-page';
import type { Context, VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { AgentService } from './agent-service.ts';
import { chooseKeys } from './choose-keys.ts';
import { ConfirmedSettings } from './confirmed-settings.ts';
import { Consent } from './consent.ts';
import { consentDialogs } from './consent-dialogs.ts';
import { GrantStore } from './grant-store.ts';
import { HostReport, INSTALL_REMOTE_HALF } from './host-report.ts';
import { HostMenu } from './menu.ts';
import { WindowRemote } from './remote-authority.ts';
import { RemoteHalf } from './remote-half.ts';
import { UseRecords } from './use-records.ts';
import { showWaitingNotice } from './waiting-notice.ts';
import { WrongSettings } from './wrong-settings.ts';

const SETTINGS = 'gpgBridgeAgent';
/** VS Code forwards no ssh-agent for the bridge: remotes sign and decrypt, and don't log in. */
const GRANT: GpgGrant = { login: false };
/** Uses that are shown of a record at once. */
const MOST_SHOWN = 1_000;
/** Node's timers take 32 bits of milliseconds. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Joins the parts of the host's extension and registers its commands. */
export function wireAgent(vs: VsCode, context: Context): void {
  useTranslator(vs.l10n);
  const { version } = context.extension.packageJSON;
  const channel = vs.window.createOutputChannel('GPG Bridge (this computer)', { log: true });
  const log = logTo(channel);
  log(`Local GPG Bridge ${version}, VS Code ${vs.version}, ${process.platform}`, 'info');
  const windowRemote = new WindowRemote(vs, context.extension.extensionKind);
  const remote = () => windowRemote.current();
  const setting = <T>(name: string, fallback: T) =>
    vs.workspace.getConfiguration(SETTINGS).get<T>(name, fallback);
  const store = new GrantStore(context.globalStorageUri.fsPath);
  const dialogs = consentDialogs(vs);
  const settings = new ConfirmedSettings({
    store,
    written: () => ({
      gpgBinDir: String(setting('gpgBinDir', '')),
      consent: String(setting('consent', 'ask')),
    }),
    confirm: (name, value) => dialogs.confirmSetting(name, value),
  });
  const operations = new RecentOperations();
  const records = new UseRecords(context.globalStorageUri.fsPath);
  const use = {
    pace: new PromptPace(),
    record: records.forRemote(() => remote()?.authority ?? ''),
    grant: GRANT,
  };
  const gnupg = (): GnupgOptions => ({ gpgBinDir: settings.gpgBinDir() });
  const names = new KeyNames(async () => listHostKeys(gnupg()));
  const consent = new Consent({ store, dialogs, settings, onChanged: () => changed() });
  let loggedBinDir: string | undefined;
  const service: AgentService = new AgentService({
    version,
    consent,
    settings,
    remote,
    createProxy: (options) =>
      new AgentProxy({
        ...options,
        logCallback: log,
        isTracing: () => channel.logLevel === vs.LogLevel.Trace,
        use: { ...use, usages: new KeyUsages({ ...options, log }) },
        ahead: () => setting<unknown>('answerAhead', true) !== false,
        onOperation: (_sessionId, operation) => {
          logOperation(operation, log);
          if (!operations.add(operation) || setting<unknown>('notifyOnUse', false) !== true) return;
          void announce(vs, operation, names, remote()?.label ?? '');
        },
      }),
    checkAgent: async (options) => {
      // Once for each directory that is used: the agent is looked at again and again.
      const isLogged = loggedBinDir === (options.gpgBinDir ?? '');
      loggedBinDir = options.gpgBinDir ?? '';
      if (!isLogged) log(await gnupgForLog(options), 'info');
      const sockets = await checkAgent(options, log);
      if (!isLogged)
        void leftOut(options).then(
          (line) => line && log(line, 'warn'),
          () => {},
        );
      return sockets;
    },
    chooseKeys: (here, options) => chooseKeys(vs, listHostKeys(options), here),
    onWaiting: (use, here) => {
      const cancel = (sessionId: string) => void service.cancel(sessionId);
      return showWaitingNotice({ vs, nameOf: (key) => names.nameOf(key), cancel }, use, here);
    },
  });

  /** Start and Stop show in the command palette where they do something. */
  const showStopped = () =>
    void vs.commands.executeCommand('setContext', 'gpgBridge.stopped', consent.isStopped());
  let nextEnd: NodeJS.Timeout | undefined;
  const waitForEnd = () => {
    clearTimeout(nextEnd);
    const end = consent.nextEnd();
    if (end === undefined) return;
    nextEnd = setTimeout(changed, Math.min(end - Date.now() + 1, LONGEST_TIMER_MS)).unref();
  };
  /** Whatever changed, in whichever window: sessions that are no longer allowed end, and the remote looks again. */
  const changed = (token?: string) => {
    waitForEnd();
    void service.enforce();
    showStopped();
    // The remote's half may not be there.
    if (remote()) vs.commands.executeCommand(HOST_CHANGED, token).then(undefined, () => {});
  };
  const start = () => consent.start(remote());
  const stop = (scope?: unknown) => {
    consent.stop(scope === 'remote' ? 'remote' : 'computer', remote());
    log(scope === 'remote' ? 'stopped for this remote' : 'stopped: no remote can use your keys', 'info');
  };
  const remoteHalf = new RemoteHalf({ vs, directory: context.globalStorageUri.fsPath, remote });
  /** What the remote's half showed last, for the page to say what it may do. */
  let shownToken: unknown;
  const report = new HostReport({
    version,
    vscodeVersion: vs.version,
    remote,
    remoteHalf,
    stopped: () => (consent.isStopped() ? store.read().stopped : undefined),
    standing: (here) => consent.standing(here, shownToken),
    gnupg,
    names,
    leftOut,
  });
  const page = new StatusPage({
    vs,
    describe: (options) => report.describe(options),
    buttons: () => report.buttons(),
    copyCommand: '_gpg-bridge-agent.copyStatus',
  });
  const menu = new HostMenu({
    vs,
    consent,
    settings,
    store,
    dialogs,
    operations,
    names,
    remote,
    giveToken: (token) => token !== undefined && changed(token),
    hasRemoteHalf: () => remoteHalf.isThere(),
    installRemoteHalf: () => remoteHalf.install(),
    showStatus: () => page.open(),
    start,
    showLog: () => channel.show(),
    showRecord: () => {
      for (const line of records.read().slice(-MOST_SHOWN)) log(describeRecorded(line), 'info');
      channel.show();
    },
  });

  const wrongSettings = new WrongSettings(vs);
  const { registerCommand } = vs.commands;
  context.subscriptions.push(
    channel,
    windowRemote,
    store.onChanged(() => changed()),
    registerCommand(HOST_START, start),
    registerCommand(HOST_STOP, stop),
    page.register(),
    remoteHalf.watch(),
    registerCommand(INSTALL_REMOTE_HALF, () => remoteHalf.install()),
    registerCommand(HOST_STATUS, () => page.open()),
    registerCommand(HOST_MENU, (page?: unknown, ownKeys?: unknown) => menu.open(page, ownKeys)),
    registerCommand(HOST_COMMANDS.connectAgent, (token?: unknown, first?: unknown) =>
      reply(() => service.connectAgent(token, first)),
    ),
    registerCommand(HOST_COMMANDS.sendCommands, (sessionId: string, block: string, told?: unknown) =>
      reply(() => service.sendCommands(sessionId, block, told)),
    ),
    registerCommand(HOST_COMMANDS.disconnectAgent, (sessionId: string) =>
      reply(() => service.disconnectAgent(sessionId)),
    ),
    registerCommand(HOST_COMMANDS.exportPublicKeys, (wanted: KeyRequest, token?: unknown) =>
      reply(() => service.exportPublicKeys(wanted, token)),
    ),
    registerCommand(
      HOST_COMMANDS.checkVersion,
      (remoteVersion?: unknown, token?: unknown, purpose?: CheckPurpose) =>
        reply(async () => {
          const facts = await service.checkVersion(remoteVersion, token, purpose);
          shownToken = facts.token ?? token;
          return facts;
        }),
    ),
    vs.workspace.onDidChangeConfiguration((event) => {
      if (!event.affectsConfiguration(SETTINGS)) return;
      wrongSettings.look();
      settings.forgetWithdrawn();
      changed();
    }),
    { dispose: () => clearTimeout(nextEnd) },
    { dispose: () => service.end() },
    records,
  );
  waitForEnd();
  showStopped();
  wrongSettings.look();
}

/** The keys that remotes can't sign or decrypt with, and why. */
async function leftOut(gnupg: GnupgOptions): Promise<string | undefined> {
  const [keys, usages] = await Promise.all([listHostKeys(gnupg), new KeyUsages(gnupg).refresh()]);
  const owners = keys
    .filter(({ secret }) => secret)
    .flatMap(({ keygrips, userId }) => keygrips.map((grip) => [grip, userId] as const));
  return leftOutKeys(owners, usages, GRANT);
}

/** Starts the host's agent if need be, since one that is not there has no sockets; throws what is wrong with it. */
async function checkAgent(gnupg: GnupgOptions, log: LogCallback): Promise<SocketIdentity[]> {
  try {
    const agent = new HostGpgAgent({ ...gnupg, log });
    await launchAgent(gnupg);
    const sockets = await agent.identities();
    const keys = await listHostKeys(gnupg);
    if (keys.some((key) => key.secret)) return sockets;
  } catch (error) {
    throw onThisSide(error, log);
  }
  throw new BridgeError('NO_PRIVATE_KEYS', {
    what: t('there is nothing to sign with'),
    why: t('the GPG keyring of your computer has no private key'),
    fix: t('Make one with "gpg --full-generate-key" in a terminal of your computer, or insert your card.'),
  });
}

/** Says which of the two computers has no gpg, and which of the two settings helps. */
function onThisSide(error: unknown, log: LogCallback): unknown {
  log(error instanceof Error ? error.message : String(error), 'warn');
  if (!(error instanceof BridgeError)) return error;
  if (error.code !== 'GPGCONF_MISSING' && error.code !== 'GPG_MISSING') return error;
  return new BridgeError(error.code, {
    what: t('your computer has no GnuPG'),
    why: error.why,
    fix: t('Install GnuPG on your computer, or correct its setting gpgBridgeAgent.gpgBinDir.'),
    cause: error,
  });
}

/** Tells of a use of a key at once, for those who want that. */
async function announce(vs: VsCode, operation: Operation, names: KeyNames, label: string): Promise<void> {
  const key = operation.key && ((await names.nameOf(operation.key)) ?? operation.key);
  const what = describeOperation(operation);
  const text = key ? t('"{0}": {1}, key of {2}', label, what, key) : t('"{0}": {1}', label, what);
  void vs.window.showInformationMessage(`GPG Bridge: ${text}`);
}

/** A use on record, in words for the log. */
function describeRecorded({ time, target, command, key, note, outcome, count }: RecordedLine): string {
  const what = `${command}${key ? `, key ${key}` : ''}${note ? `, ${note}` : ''}, ${count ? `${count} more in that minute` : outcome}`;
  return `on record: ${time} ${printable(target)}: ${what}`;
}

function logOperation(
  { command, key, outcome, errorCode, note, durationMs }: Operation,
  log: LogCallback,
): void {
  const words = [
    command,
    key && `key ${key}`,
    outcome,
    errorCode && describeError(errorCode),
    note,
    `${durationMs} ms`,
  ];
  log(words.filter(Boolean).join(', '), purposeOf(command) ? 'info' : 'debug');
}
