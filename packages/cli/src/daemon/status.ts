import type { BridgeError } from '@gpg-bridge/core/errors';
import type { Journal } from '../bridge/journal.ts';
import type { BridgeOptions } from '../bridge-options.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import type { Attachment } from './attachment.ts';
import type { DaemonStatus } from './control.ts';
import type { DaemonState } from './daemon-state.ts';
import type { Lifetime } from './lifetime.ts';
import type { LogFile } from './log-file.ts';
import { currentPause, pausedUntil } from './pause.ts';

/** What a daemon's status is made from. */
export interface StatusSources {
  target: Target;
  options: BridgeOptions;
  state: DaemonState;
  attachment: Attachment;
  lifetime: Lifetime;
  journal: Journal;
  log: LogFile;
  /** Why no key may be used as far as what is stored for the target says. */
  ungranted: BridgeError | undefined;
}

/** What a daemon tells of itself. */
export function daemonStatus(sources: StatusSources): DaemonStatus {
  const { target, options, state, attachment, lifetime, journal, log, ungranted } = sources;
  const info = attachment.bridge?.info;
  // What the sockets' keepers know now, and what the last check found beside that.
  const known = [...(attachment.bridge?.problems ?? []), ...state.problems];
  const problems = [...new Set([...known, ...(ungranted ? [`no key is used: ${ungranted.message}`] : [])])];
  const sockets = info?.sockets ?? [];
  const broken = new Set<string>([...(attachment.bridge?.broken ?? []), ...state.broken]);
  const pause = currentPause();
  return {
    key: bridgeKey(target),
    target: target.name,
    user: target.user,
    id: target.id,
    pid: process.pid,
    started: state.started.toISOString(),
    uptimeSeconds: state.uptimeSeconds,
    ...state.shown(problems),
    ...(target.place === undefined ? {} : { place: target.place }),
    ...(target.where === undefined ? {} : { where: target.where }),
    followsName: target.byName ?? false,
    problems,
    working: sockets.map(({ type }) => type).filter((type) => !broken.has(type)),
    failures: [...(attachment.bridge?.failures ?? [])],
    ...(state.wasStopped ? { stopped: true } : {}),
    ...(state.isSucceeded ? { succeeded: true } : {}),
    mended: [],
    nextAttempt: state.nextAttempt?.toISOString() ?? null,
    endsAt: lifetime.endsAt?.toISOString() ?? null,
    paused: pause ? { until: pause.until ?? null } : null,
    runtime: info?.runtime ?? '',
    sockets: [...sockets],
    warnings: [
      ...(pause ? [`bridges are paused ${pausedUntil(pause)}: go on with \`gpg-bridge resume\``] : []),
      ...attachment.agentWarnings,
      ...(info?.warnings ?? []),
    ],
    notes: [...(info?.notes ?? [])],
    ...(target.shell ? { shell: target.shell } : {}),
    options,
    offers: attachment.keys.offers,
    leftOut: [...attachment.leftOut],
    missing: [...attachment.missing],
    ...attachment.totals,
    waiting: journal.waiting() ?? null,
    lastOperation: journal.lastOperation ?? null,
    lastError: state.lastError ?? log.problem ?? null,
  };
}
