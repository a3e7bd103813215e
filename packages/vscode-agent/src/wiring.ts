import { describeError } from '@gpg-bridge/core/assuan/error-codes';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { purposeOf } from '@gpg-bridge/core/assuan/private-key-commands';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { launchAgent } from '@gpg-bridge/core/gnupg/gpgconf';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import type { LogCallback } from '@gpg-bridge/core/log';
import { HOST_COMMANDS, HOST_MENU, type KeyRequest, reply } from '@gpg-bridge/vscode-shared/contract';
import { logTo } from '@gpg-bridge/vscode-shared/log-channel';
import type { Context, VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { AgentService } from './agent-service.ts';
import { chooseKeys } from './choose-keys.ts';
import { Consent } from './consent.ts';
import { consentDialogs } from './consent-dialogs.ts';
import { listHostKeys } from './host-keys.ts';
import { HostMenu } from './menu.ts';
import { RecentOperations } from './recent-operations.ts';
import { remoteOf } from './remote-authority.ts';
import { showWaitingNotice } from './waiting-notice.ts';

const SETTINGS = 'gpgBridgeAgent';

/** Joins the parts of the host's extension and registers its commands. */
export function wireAgent(vs: VsCode, context: Context): void {
  const channel = vs.window.createOutputChannel('GPG Bridge (this computer)', { log: true });
  const log = logTo(channel);
  const gnupg = (): GnupgOptions => ({
    gpgBinDir: vs.workspace.getConfiguration(SETTINGS).get('gpgBinDir', '') || undefined,
  });
  const remote = () => remoteOf(vs);
  const operations = new RecentOperations();
  const dialogs = consentDialogs(vs);
  const consent = new Consent({
    store: context.globalState,
    dialogs,
    always: () => vs.workspace.getConfiguration(SETTINGS).get<string>('consent') === 'always',
    onChanged: () => void service.enforceConsent(),
  });
  const service: AgentService = new AgentService({
    version: context.extension.packageJSON.version,
    consent,
    remote,
    createProxy: () =>
      new AgentProxy({
        ...gnupg(),
        logCallback: log,
        onOperation: (_sessionId, operation) => {
          operations.add(operation);
          logOperation(operation, log);
        },
      }),
    hostSockets: () => hostSockets(gnupg(), log),
    chooseKeys: (here) => chooseKeys(vs, listHostKeys(gnupg()), here),
    onWaiting: (purpose, here) => showWaitingNotice(vs, purpose, here),
  });
  const start = () => {
    service.turnOn();
    log('started', 'info');
  };
  const stop = async () => {
    await service.turnOff();
    log('stopped: no remote of this window can use your keys', 'info');
  };
  const menu = new HostMenu({
    vs,
    consent,
    dialogs,
    operations,
    remote,
    isOn: () => service.isOn,
    start,
    stop,
    showLog: () => channel.show(),
    listKeys: () => listHostKeys(gnupg()),
  });

  const { registerCommand } = vs.commands;
  context.subscriptions.push(
    channel,
    registerCommand('gpg-bridge-agent.start', start),
    registerCommand('gpg-bridge-agent.stop', stop),
    registerCommand(HOST_MENU, (page?: unknown) => menu.open(page)),
    registerCommand(HOST_COMMANDS.connectAgent, () => reply(() => service.connectAgent())),
    registerCommand(HOST_COMMANDS.sendCommands, (sessionId: string, block: string) =>
      reply(() => service.sendCommands(sessionId, block)),
    ),
    registerCommand(HOST_COMMANDS.disconnectAgent, (sessionId: string) =>
      reply(() => service.disconnectAgent(sessionId)),
    ),
    registerCommand(HOST_COMMANDS.exportPublicKeys, (wanted: KeyRequest) =>
      reply(() => service.exportPublicKeys(wanted)),
    ),
    registerCommand(HOST_COMMANDS.checkVersion, (remoteVersion?: string) =>
      reply(() => service.checkVersion(remoteVersion)),
    ),
    vs.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SETTINGS}.gpgBinDir`)) void service.renew();
      if (event.affectsConfiguration(`${SETTINGS}.consent`)) void service.enforceConsent();
    }),
    { dispose: () => service.turnOff() },
  );
}

/** The sockets of the host's agent, which is started if need be: one that is not there has no identity. */
async function hostSockets(gnupg: GnupgOptions, log: LogCallback): Promise<SocketIdentity[]> {
  const agent = new HostGpgAgent({ ...gnupg, log });
  try {
    await launchAgent(gnupg);
    return await agent.identities();
  } catch (error) {
    // A remote that asks for a session gets this error; until then there is nothing to protect.
    log(error instanceof Error ? error.message : String(error), 'warn');
    return [];
  }
}

function logOperation({ command, key, outcome, errorCode, durationMs }: Operation, log: LogCallback): void {
  const words = [
    command,
    key && `key ${key}`,
    outcome,
    errorCode && describeError(errorCode),
    `${durationMs} ms`,
  ];
  log(words.filter(Boolean).join(', '), purposeOf(command) ? 'info' : 'debug');
}
