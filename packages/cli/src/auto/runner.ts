import { once } from 'node:events';
import { type FSWatcher, watch } from 'node:fs';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import { DesktopNotice } from '@gpg-bridge/core/host/desktop-notice';
import type { LogCallback } from '@gpg-bridge/core/log';
import { claim } from '../daemon/claim.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import { checkStateDirectory, recordDirectory } from '../daemon/state-dir.ts';
import { discoverEndpoint } from '../engine/endpoint.ts';
import type { Engine, EngineKind } from '../engine/engine.ts';
import { Manager } from '../manager/manager.ts';
import { BringUp } from './bring-up.ts';
import { watchEngine } from './engine-watch.ts';
import { type Rule, readRules } from './rules.ts';

/** Held by the process that brings bridges up; it answers with its PID. */
const LOCK = 'auto.lock';
/** Of the files in the directory, the one with the rules. */
const RULES_FILE = 'auto-rules.json';
/** A person's command and an editor may each write the file more than once. */
const SETTLED_MS = 50;

/** Where the process that brings bridges up writes what it does. */
export function autoLogPath(): string {
  return join(recordDirectory(), 'auto.log');
}

/** The PID of the process that brings bridges up; undefined if there is none. */
export async function runningPid(): Promise<number | undefined> {
  const directory = recordDirectory();
  checkStateDirectory(directory);
  try {
    const { pid } = (await json(connectLocal(join(directory, LOCK)))) as { pid?: unknown };
    return typeof pid === 'number' ? pid : undefined;
  } catch {
    return undefined; // nobody listens there
  }
}

/** How bridges are brought up. */
export interface RunnerOptions {
  signal: AbortSignal;
  log: LogCallback;
  /** Whether the logs of the bridges tell every session. */
  verbose: boolean;
}

/** Brings bridges up as the rules say, until it is told to end; bridges outlive it. */
export async function runRules({ signal, log, verbose }: RunnerOptions): Promise<void> {
  const directory = recordDirectory();
  ensureStateDirectory(directory);
  const lock = await claim(join(directory, LOCK), (socket) =>
    socket.end(`${JSON.stringify({ pid: process.pid })}\n`),
  );
  if (!lock) throw alreadyRunning(await runningPid());
  const manager = new Manager({ signal, verbose });
  const desktop = new DesktopNotice({ log });
  let rules: readonly Rule[] = [];
  const engines = new Map<EngineKind, Engine>();
  const bringUp = new BringUp({
    rules: () => rules,
    ensureBridge: (target, options) => manager.ensureBridge(target, options),
    log,
    notice: (text) => desktop.show(text),
    signal,
  });
  const lookAtAll = async (kind: EngineKind, engine: Engine) =>
    bringUp.lookAtAll(kind, engine, await engine.containerIds());
  const reload = () => {
    try {
      rules = readRules();
      log(ruleCount(rules), 'info');
    } catch (error) {
      // Neither the broken rules nor the ones from before: a person may just have made those stricter.
      rules = [];
      const { message } = toBridgeError(error, "can't read the rules");
      log(`no new bridge is started until the rules can be read: ${message}`, 'error');
      desktop.show('The rules of gpg-bridge auto are not valid: see gpg-bridge auto list');
    }
  };
  let watcher: FSWatcher | undefined;
  try {
    // Watched before they are read, so that no change is missed between the two.
    watcher = watchRules(directory, log, () => {
      reload();
      for (const [kind, engine] of engines) {
        // An engine that is gone is looked for again by its own watch.
        void lookAtAll(kind, engine).catch(() => {});
      }
    });
    rules = readRules();
    log(ruleCount(rules), 'info');
    const watching = (await enginesToWatch()).map((kind) =>
      watchEngine({
        kind,
        signal,
        log,
        found: (engine) => {
          engines.set(kind, engine);
          return lookAtAll(kind, engine);
        },
        happened: ({ action, id }, engine) =>
          action === 'die' ? bringUp.forget(kind, id) : bringUp.look(kind, engine, id),
      }),
    );
    await Promise.all([...watching, signal.aborted ? undefined : once(signal, 'abort')]);
    await bringUp.close();
  } finally {
    watcher?.close();
    lock.release();
  }
}

function ruleCount({ length }: readonly Rule[]): string {
  return `${length} ${length === 1 ? 'rule' : 'rules'}`;
}

/** Both engines; one alone where both names lead to the same. */
async function enginesToWatch(): Promise<EngineKind[]> {
  const address = (kind: EngineKind) =>
    discoverEndpoint(kind).then(
      (endpoint) => (endpoint.way === 'api' ? endpoint.address : kind),
      () => kind,
    );
  const [docker, podman] = await Promise.all([address('docker'), address('podman')]);
  return docker === podman ? ['podman'] : ['docker', 'podman'];
}

function watchRules(directory: string, log: LogCallback, changed: () => void): FSWatcher | undefined {
  let settled: NodeJS.Timeout | undefined;
  try {
    const watcher = watch(directory, (_event, name) => {
      if (name !== RULES_FILE) return;
      clearTimeout(settled);
      settled = setTimeout(changed, SETTLED_MS).unref();
    });
    return watcher.on('error', () => {});
  } catch (error) {
    log(`rules that change are not noticed: ${(error as Error).message}`, 'warn');
    return undefined;
  }
}

/** The error for a second process that would bring bridges up. */
export function alreadyRunning(pid: number | undefined): BridgeError {
  return new BridgeError('AUTO_RUNNING', {
    what: "can't bring bridges up",
    why: `another process does so already${pid === undefined ? '' : ` (PID ${pid})`}`,
    fix: 'End that one first; `gpg-bridge auto uninstall` ends the service.',
  });
}
