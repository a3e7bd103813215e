import type { LogCallback } from '@gpg-bridge/core/log';
import type { LogOutputChannel } from 'vscode';

/** The core's log, written to a channel of VS Code's, which has the same levels. */
export function logTo(channel: LogOutputChannel): LogCallback {
  return (message, level) => channel[level](message);
}
