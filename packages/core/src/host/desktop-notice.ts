import { setTimeout } from 'node:timers/promises';
import type { LogCallback } from '../log.ts';
import { describeFailure, runProgram } from '../process/run-program.ts';
import { printable } from '../text/escape.ts';

/** Where notices are shown. */
export interface DesktopNoticeOptions {
  log: LogCallback;
  env?: NodeJS.ProcessEnv | undefined;
  platform?: NodeJS.Platform | undefined;
  now?: () => number;
  wait?: (ms: number) => Promise<unknown>;
}

/** What shows a notice: the words reach it as data, never as a part of a script. */
interface NoticeProgram {
  program: string;
  args: readonly string[];
  env?: Record<string, string>;
}

const TITLE = 'GPG Bridge';
const TIMEOUT_MS = 10_000;
/** So many notices in so long: a desktop that gets more refuses all of them, or shows nothing else. */
const MAX_SHOWN = 3;
const SHOWN_MS = 10_000;

/**
 * Shows notices of the desktop's own. One at a time, and not too many: what comes meanwhile is counted in the next. A
 * desktop that can't show one is warned about once, and tried again: a target must not be able to end the notices.
 */
export class DesktopNotice {
  readonly #options: DesktopNoticeOptions;
  readonly #now: () => number;
  readonly #wait: (ms: number) => Promise<unknown>;
  #isShowing = false;
  #hasWarned = false;
  /** When the last ones were shown. */
  #shownAt: number[] = [];
  /** The last notice that has not been shown, and how many there are. */
  #waiting: { text: string; count: number } | undefined;

  constructor(options: DesktopNoticeOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#wait = options.wait ?? ((ms) => setTimeout(ms, undefined, { ref: false }));
  }

  /** Shows one line. */
  show(text: string): void {
    this.#waiting = { text, count: (this.#waiting?.count ?? 0) + 1 };
    if (!this.#isShowing) void this.#showAll();
  }

  async #showAll(): Promise<void> {
    this.#isShowing = true;
    while (this.#waiting) {
      const left = this.#shownAt.length < MAX_SHOWN ? 0 : this.#shownAt[0]! + SHOWN_MS - this.#now();
      if (left > 0) await this.#wait(left);
      this.#shownAt = [...this.#shownAt, this.#now()].slice(-MAX_SHOWN);
      const next = this.#waiting;
      this.#waiting = undefined;
      await this.#show(next.count > 1 ? `${next.text} (and ${next.count - 1} more)` : next.text);
    }
    this.#isShowing = false;
  }

  async #show(text: string): Promise<void> {
    const { log, env = process.env, platform = process.platform } = this.#options;
    const { program, args, env: words = {} } = noticeProgram(platform, text);
    try {
      const result = await runProgram(program, args, { env: { ...env, ...words }, timeoutMs: TIMEOUT_MS });
      if (result.status !== 0) throw new Error(describeFailure(result));
    } catch (error) {
      if (this.#hasWarned) return;
      this.#hasWarned = true;
      log(
        `a notice was not shown: ${program} does not work here (${printable((error as Error).message)})`,
        'warn',
      );
    }
  }
}

function noticeProgram(platform: NodeJS.Platform, text: string): NoticeProgram {
  switch (platform) {
    case 'darwin':
      return {
        program: 'osascript',
        args: [
          '-e',
          'on run argv',
          '-e',
          'display notification (item 2 of argv) with title (item 1 of argv)',
          '-e',
          'end run',
          TITLE,
          text,
        ],
      };
    case 'win32':
      return {
        program: 'powershell.exe',
        args: ['-NoProfile', '-NonInteractive', '-Command', TOAST],
        env: { GPG_BRIDGE_NOTICE_TITLE: TITLE, GPG_BRIDGE_NOTICE_TEXT: text },
      };
    default:
      // The body of a notice may have markup in it.
      return { program: 'notify-send', args: ['--app-name', TITLE, '--', TITLE, withoutMarkup(text)] };
  }
}

/** Shows a toast with the words that are in the environment. */
const TOAST = [
  '$manager = [Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]',
  '$xml = $manager::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02)',
  "$texts = $xml.GetElementsByTagName('text')",
  '[void]$texts.Item(0).AppendChild($xml.CreateTextNode($env:GPG_BRIDGE_NOTICE_TITLE))',
  '[void]$texts.Item(1).AppendChild($xml.CreateTextNode($env:GPG_BRIDGE_NOTICE_TEXT))',
  "$id = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\\WindowsPowerShell\\v1.0\\powershell.exe'",
  '$manager::CreateToastNotifier($id).Show([Windows.UI.Notifications.ToastNotification]::new($xml))',
].join('; ');

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

function withoutMarkup(text: string): string {
  return text.replace(/[&<>]/g, (character) => ENTITIES[character]!);
}
