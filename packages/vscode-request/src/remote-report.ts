import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { describeGnupg } from '@gpg-bridge/vscode-shared/gnupg-facts';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { RemoteReport, ReportLine, StatusReport, Tone } from '@gpg-bridge/vscode-shared/status-report';
import { type Situation, type StatusKind, truthOf, viewOf } from './status.ts';

/** What the report of the remote's half is made from. */
export interface RemoteReportOptions {
  version: string;
  vscodeVersion: string;
  situation(): Situation;
  /** Where this remote's gpg looks for its agent. */
  socketPath(): string | undefined;
  gnupg(): GnupgOptions;
}

const TONES: Record<StatusKind, Tone> = {
  idle: 'good',
  shared: 'good',
  busy: 'good',
  forward: 'calm',
  off: 'calm',
  paused: 'calm',
  waiting: 'attention',
  allow: 'attention',
  error: 'bad',
};
const OPERATIONS = 20;
const GOOD_FOR_MS = 30_000;

/** What the remote's half says of itself on the status page. */
export class OwnReport {
  #gnupg: { of: Promise<ReportLine>; at: number; gpgBinDir: string | undefined } | undefined;

  constructor(private readonly options: RemoteReportOptions) {}

  /** The report now. */
  async describe(): Promise<RemoteReport> {
    const { version, vscodeVersion, situation, socketPath } = this.options;
    const now = situation();
    const { kind, title, detail } = viewOf(now);
    const { error, operations } = truthOf(now);
    const lines: ReportLine[] = [
      { label: t('Version'), value: `${version} (VS Code ${vscodeVersion}, ${process.platform})` },
      { label: t('State'), value: title.replace(/^GPG Bridge: /, ''), tone: error && 'bad' },
      await this.#gnupgLine(),
      { label: t('Socket'), value: socketPath() ?? t('not known yet') },
      { label: t('Held by'), value: holderOf(now) },
    ];
    return { title, detail, tone: TONES[kind], lines, operations: operations.slice(0, OPERATIONS) };
  }

  /** A page of this half's own, for when the other one is missing. */
  async alone(): Promise<StatusReport> {
    const { title, detail, tone, lines } = await this.describe();
    const missing = { label: t('State'), value: t('not installed, or not enabled'), tone: 'bad' as const };
    const halves = [
      { title: t('Local GPG Bridge'), lines: [missing] },
      { title: t('Remote GPG Bridge'), lines },
    ];
    return { title, detail, tone, halves, tables: [] };
  }

  /** A program has to be run for it, and the page is drawn again and again. */
  #gnupgLine(): Promise<ReportLine> {
    const gnupg = this.options.gnupg();
    const known = this.#gnupg;
    if (known && known.gpgBinDir === gnupg.gpgBinDir && Date.now() - known.at < GOOD_FOR_MS) return known.of;
    this.#gnupg = { of: describeGnupg(gnupg), at: Date.now(), gpgBinDir: gnupg.gpgBinDir };
    return this.#gnupg.of;
  }
}

function holderOf({ role, forward, heldBack }: Situation): string {
  if (forward)
    return forward.program === undefined
      ? t('another forward')
      : t('another forward ({0}, process {1})', forward.program, forward.pid ?? '?');
  if (heldBack) return t('the gpg-agent of this remote');
  switch (role.is) {
    case 'owner':
      return t('this window');
    case 'sharing':
      return t('the window "{0}" (process {1})', role.owner.window, role.owner.pid);
    default:
      return t('no window of GPG Bridge');
  }
}
