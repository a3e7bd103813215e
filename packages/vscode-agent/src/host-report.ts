import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { toBridgeError } from '@gpg-bridge/core/errors';
import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import type { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { HOST_MENU, type HostFacts, type Permission } from '@gpg-bridge/vscode-shared/contract';
import { describeGnupg } from '@gpg-bridge/vscode-shared/gnupg-facts';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { flawsOf, inGroups, listHostKeys } from '@gpg-bridge/vscode-shared/list-keys';
import { describeOperation } from '@gpg-bridge/vscode-shared/recent-operations';
import type { PageButton } from '@gpg-bridge/vscode-shared/status-html';
import type {
  RemoteReport,
  ReportHalf,
  ReportLine,
  ReportTable,
  StatusReport,
} from '@gpg-bridge/vscode-shared/status-report';
import type { Remote } from './remote-authority.ts';
import type { RemoteHalf } from './remote-half.ts';

/** What the report of the host's half is made from. */
export interface HostReportOptions {
  version: string;
  vscodeVersion: string;
  remote(): Remote | undefined;
  /** Stopped or paused by the person, and until when. */
  stopped(): { until?: number | undefined } | undefined;
  /** What a remote may do. */
  standing(remote: Remote): Pick<HostFacts, 'permission' | 'until'>;
  gnupg(): GnupgOptions;
  names: KeyNames;
  /** The keys that remotes can't sign or decrypt with, and why; undefined if there are none. */
  leftOut(gnupg: GnupgOptions): Promise<string | undefined>;
  remoteHalf: Pick<RemoteHalf, 'isThere' | 'report'>;
}

/** Behind the button of a page that misses the other half. */
export const INSTALL_REMOTE_HALF = '_gpg-bridge-agent.installRemoteHalf';

/** What takes a program's run to find out; kept for a while, since the page is drawn again and again. */
interface Looked {
  at: number;
  lines: ReportLine[];
  keys: ListedKey[];
}

const GOOD_FOR_MS = 30_000;

/** Puts together what the status page of this window says: the host's half, the remote's, keys and operations. */
export class HostReport {
  #looked: Looked | undefined;

  constructor(private readonly options: HostReportOptions) {}

  /** The report now; `fresh` looks at GnuPG and its keys again. */
  async describe({ fresh }: { fresh: boolean }): Promise<StatusReport> {
    const here = this.options.remote();
    const report = here && (await this.options.remoteHalf.report());
    const looked = this.#mayLook() ? await this.#look(fresh) : undefined;
    const halves: ReportHalf[] = [this.#ownHalf(looked, report ? here : undefined)];
    if (here) halves.push(await this.#remoteHalf(here, report));
    const tables = [
      ...(looked ? [keysTable(looked.keys)] : []),
      ...(report ? [await this.#operationsTable(report.operations)] : []),
    ];
    return { ...(await this.#summary(report)), halves, tables };
  }

  /** What the person can do from the page. */
  async buttons(): Promise<PageButton[]> {
    if (!this.options.remote()) return [{ label: t('Open Menu'), command: HOST_MENU }];
    if (!(await this.options.remoteHalf.isThere()))
      return [{ label: t('Install "Remote GPG Bridge"'), command: INSTALL_REMOTE_HALF }];
    return [
      { label: t('Test Signing'), command: 'gpg-bridge-request.testSigning' },
      { label: t('Open Menu'), command: 'gpg-bridge-request.openMenu' },
    ];
  }

  async #summary(report: RemoteReport | undefined): Promise<Pick<StatusReport, 'title' | 'detail' | 'tone'>> {
    if (report) return { title: report.title, detail: report.detail, tone: report.tone };
    if (this.options.remote())
      return (await this.options.remoteHalf.isThere())
        ? {
            title: t('GPG Bridge: this remote does not answer'),
            detail: t('Check the connection to it, or reload the window.'),
            tone: 'bad',
          }
        : {
            title: t('GPG Bridge: the other half is missing here'),
            detail: t('Install "Remote GPG Bridge" in this remote to use the keys of your computer there.'),
            tone: 'attention',
          };
    const isStopped = this.options.stopped() !== undefined;
    return {
      title: isStopped ? t('GPG Bridge on this computer: stopped') : t('GPG Bridge on this computer: ready'),
      detail: t('Open a folder in a container, over SSH or in WSL to use your keys there.'),
      tone: isStopped ? 'calm' : 'good',
    };
  }

  /** What a remote may do depends on the token that its half shows: without that half nothing is said of it. */
  #ownHalf(looked: Looked | undefined, answering: Remote | undefined): ReportHalf {
    const { version, vscodeVersion } = this.options;
    const lines: ReportLine[] = [
      { label: t('Version'), value: `${version} (VS Code ${vscodeVersion}, ${process.platform})` },
      this.#stateLine(),
    ];
    if (answering) lines.push({ label: t('Permission'), value: this.#permission(answering) });
    if (looked) lines.push(...looked.lines);
    else lines.push({ label: t('GnuPG'), value: t('is looked at once you have allowed this remote') });
    return { title: t('Local GPG Bridge'), lines };
  }

  #stateLine(): ReportLine {
    const stopped = this.options.stopped();
    const label = t('State');
    if (!stopped) return { label, value: t('ready') };
    const { until } = stopped;
    return {
      label,
      value: until === undefined ? t('stopped') : t('paused until {0}', timeOf(until)),
      tone: 'attention',
    };
  }

  #permission(remote: Remote): string {
    const { permission, until } = this.options.standing(remote);
    const words: Record<Permission, string> = {
      allowed: until === undefined ? t('allowed') : t('allowed until {0}', timeOf(until)),
      refused: t('never allowed'),
      undecided: t('not decided yet'),
      stopped: t('stopped'),
      paused: t('paused'),
      off: t('stopped'),
    };
    return t('"{0}": {1}', remote.label, words[permission]);
  }

  async #remoteHalf({ label }: Remote, report: RemoteReport | undefined): Promise<ReportHalf> {
    const title = t('Remote GPG Bridge');
    const name = { label: t('Remote'), value: label };
    if (report) return { title, lines: [name, ...report.lines] };
    const isThere = await this.options.remoteHalf.isThere();
    const value = isThere ? t('does not answer') : t('not installed in this remote, or not enabled');
    return { title, lines: [name, { label: t('State'), value, tone: 'bad' }] };
  }

  /** Nothing is run on this computer for a remote that is not allowed; in a local window the person asks. */
  #mayLook(): boolean {
    const remote = this.options.remote();
    return remote === undefined || this.options.standing(remote).permission === 'allowed';
  }

  async #look(fresh: boolean): Promise<Looked> {
    const known = this.#looked;
    if (known && !fresh && Date.now() - known.at < GOOD_FOR_MS) return known;
    const looked: Looked = { at: Date.now(), lines: [], keys: [] };
    try {
      const gnupg = this.options.gnupg();
      looked.lines.push(await describeGnupg(gnupg));
      looked.lines.push({ label: t('Agent socket'), value: await new HostGpgAgent(gnupg).socketPath() });
      looked.keys = await listHostKeys(gnupg);
      const leftOut = await this.options.leftOut(gnupg);
      if (leftOut) looked.lines.push({ label: t('Left out'), value: leftOut, tone: 'attention' });
    } catch (error) {
      looked.lines.push({ label: t('Problem'), value: toBridgeError(error, '').message, tone: 'bad' });
    }
    this.#looked = looked;
    return looked;
  }

  async #operationsTable(operations: readonly Operation[]): Promise<ReportTable> {
    const rows = operations.map(async (operation) => [
      new Date(operation.startedAt).toLocaleTimeString(),
      describeOperation(operation),
      operation.key ? ((await this.options.names.nameOf(operation.key)) ?? t('key {0}', operation.key)) : '',
    ]);
    return {
      title: t('Last operations'),
      columns: [t('Time'), t('Operation'), t('Key')],
      rows: await Promise.all(rows),
      empty: t('Your keys have not been used in this remote since its window was opened.'),
    };
  }
}

/** The keys whose secret half is here: those that a remote can use. */
function keysTable(keys: readonly ListedKey[]): ReportTable {
  return {
    title: t('Keys offered'),
    columns: [t('Key'), t('Fingerprint'), t('State')],
    rows: keys
      .filter(({ secret }) => secret)
      .map((key) => [
        key.userId || t('no name'),
        inGroups(key.fingerprint),
        flawsOf(key).join(', ') || t('good'),
      ]),
    empty: t('The GPG keyring of your computer has no private key.'),
  };
}

function timeOf(time: number): string {
  return new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
