import { BridgeError } from '@gpg-bridge/core/errors';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { isFromHost } from './host.ts';
import type { ShownError } from './status.ts';

/** Where an error comes from: it goes away when that works again. */
export type ErrorOrigin = 'start' | 'host' | 'keys';

const ORIGINS: readonly ErrorOrigin[] = ['start', 'host', 'keys'];

/** What is wrong at the moment, and what the person has been told of it. */
export class ErrorBoard {
  readonly #errors = new Map<ErrorOrigin, BridgeError>();
  /** What the person was told last, after something they did and otherwise. */
  #told: { asked?: string | undefined; automatic?: string | undefined } = {};

  /** `onShown` is told what to show, whenever that changes. */
  constructor(private readonly onShown: (error: ShownError | undefined) => void) {}

  /** The error of one origin. */
  at(origin: ErrorOrigin): BridgeError | undefined {
    return this.#errors.get(origin);
  }

  /** Shows an error until its origin works again. */
  put(origin: ErrorOrigin, error: BridgeError): void {
    this.#errors.set(origin, error);
    this.#show();
  }

  /** The origin works again. */
  clear(origin: ErrorOrigin): void {
    if (!this.#errors.delete(origin)) return;
    this.forgetTold();
    this.#show();
  }

  clearAll(): void {
    this.#errors.clear();
    this.#show();
  }

  /** Whether this is news to the person; what was told once is not. */
  isNews({ message }: BridgeError, automatic: boolean): boolean {
    const occasion = automatic ? 'automatic' : 'asked';
    if (this.#told[occasion] === message) return false;
    this.#told[occasion] = message;
    return true;
  }

  /** Something worked: the same error would be news again. */
  forgetTold(): void {
    this.#told = {};
  }

  #show(): void {
    const error = ORIGINS.map((origin) => this.#errors.get(origin)).find(Boolean);
    this.onShown(
      error && {
        code: error.code,
        message: error.message,
        fix: error.fix,
        side: isFromHost(error) ? 'host' : 'remote',
      },
    );
  }
}

/** Says which of the two computers has no gpg and which of the two settings helps; no words of the command line. */
export function onThisSide(error: unknown): unknown {
  if (!(error instanceof BridgeError) || isFromHost(error)) return error;
  const { code, what, why } = error;
  switch (code) {
    case 'GPGCONF_MISSING':
    case 'GPG_MISSING':
      return new BridgeError(code, {
        what: t('this remote has no GnuPG'),
        why,
        fix: t('Install GnuPG in this remote, or correct its setting gpgBridgeRequest.gpgBinDir.'),
        cause: error,
      });
    case 'SOCKET_HELD_BY_FORWARD':
      return new BridgeError(code, {
        what: t("can't listen where this remote's gpg looks for its agent"),
        why,
        fix: t('End that program, or choose "Take over" in the GPG Bridge menu.'),
        cause: error,
      });
    case 'SOCKET_PATH_TOO_LONG':
      return new BridgeError(code, {
        what: t("can't listen where this remote's gpg looks for its agent"),
        why,
        fix: t(
          'Run "gpgconf --create-socketdir" in a terminal of this remote, or use a home or GNUPGHOME there whose path is shorter.',
        ),
        cause: error,
      });
    case 'SOCKET_DIR_UNUSABLE':
      return new BridgeError(code, {
        what: t("can't listen where this remote's gpg looks for its agent"),
        why: `${what}: ${why}`,
        fix: t('Make it a directory of your own in this remote that can be written, with mode 0700.'),
        cause: error,
      });
    default:
      return error;
  }
}
