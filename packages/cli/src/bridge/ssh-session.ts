import type { Socket } from 'node:net';
import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { AskSshOptions } from '@gpg-bridge/core/host/ask-ssh-agent';
import { awaitKeyUse } from '@gpg-bridge/core/host/await-key-use';
import type { BindAnswers } from '@gpg-bridge/core/host/bind-answers';
import type { ConnectionLimit } from '@gpg-bridge/core/host/connection-limit';
import { KeyUseAttempt, type TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import type { PaceOutcome } from '@gpg-bridge/core/host/prompt-pace';
import type { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import type { LogCallback } from '@gpg-bridge/core/log';
import { SessionTrace } from '@gpg-bridge/core/machine/session-trace';
import { type Outlets, pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import {
  type Passed,
  type PendingSshOperation,
  type SignAttempt,
  SshAgentFilter,
  type SshOperation,
} from '@gpg-bridge/core/ssh/filter';
import { allOf, chosenKeys, type KeyChoice } from '@gpg-bridge/core/ssh/identities';
import type { Journal } from './journal.ts';
import type { SshOffers } from './ssh-offers.ts';

const SOONEST_CANCEL_MS = 250;

/** What all sessions of a bridge with the host's ssh-agent share. */
export interface SshService {
  agent: HostSshAgent;
  connections: ConnectionLimit;
  /** What the target answers ahead; absent: nothing. */
  binds?: BindAnswers | undefined;
  /** Which of its keys are offered; all if not given. */
  offers: SshOffers | undefined;
  use: TargetUse;
  journal: Journal;
  log: LogCallback;
  /** Where every step of every session is told; absent: nowhere. */
  traceLog?: LogCallback | undefined;
}

/** Joins one client's stream with the host's ssh-agent, through the allowlist, when there is room for it. */
export function serveSshStream(stream: MuxStream, service: SshService): void {
  const opening = new AbortController();
  const stopWaiting = service.connections.enter(
    (leave) => void connect(stream, service, leave, opening.signal),
  );
  stream.onAbandoned(() => {
    stopWaiting();
    opening.abort();
    stream.discard();
  });
}

async function connect(
  stream: MuxStream,
  service: SshService,
  leave: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { agent, journal, log } = service;
  try {
    const patience = { timeoutMs: Number.POSITIVE_INFINITY, signal };
    const { socket, isOffered } = await openOffered(service, patience);
    service.binds?.learn(agent.bindAnswer);
    if (!stream.open) {
      socket.destroy();
      leave();
      stream.discard(); // the client left meanwhile, and what it sent goes nowhere
      return;
    }
    const trace =
      service.traceLog &&
      new SessionTrace(`session ${stream.id}`, 'opened by a client of ssh-agent', service.traceLog);
    let outlets: Outlets | undefined;
    const { sshKeys } = service.use;
    const offers = sshKeys ? allOf(isOffered, chosenKeys(sshKeys)) : isOffered;
    const filter = new SshAgentFilter({
      offers,
      onOperation(operation) {
        trace?.answered(operation);
        journal.operation(stream.id, operation);
      },
      attemptSign: (operation) => signAttempt(operation, stream.id, service),
      later: (passed) => outlets && pass(passed, outlets, trace),
      broken: (error) => void socket.destroy(error),
      onDiffering(told) {
        service.binds?.differed(told);
        log("the ssh-agent's answer to a session-bind changed: its client gets no signature", 'warn');
      },
    });
    journal.begin(filter);
    pipeSocket(stream, socket, {
      onStart(out) {
        outlets = out;
        trace?.reached('joined with the agent');
      },
      fromStream(bytes, out) {
        trace?.count('toHost', bytes.length);
        for (const note of stream.takeNotes() ?? []) filter.told(note);
        pass(filter.fromClient(bytes), out, trace);
        return true;
      },
      onStreamEof(out) {
        trace?.reached('the client has sent its last byte');
        filter.clientEnded();
        journal.clientEnded();
        out.endSocket();
      },
      dropsAtClose: true, // for a client that has gone nothing more is carried out
      onStreamEnd() {
        trace?.reached("closed by the target's end");
        if (!filter.clientLeft()) return false;
        awaitKeyUse(socket, filter);
        return true;
      },
      fromSocket(bytes, out) {
        pass(filter.fromAgent(bytes), out, trace);
      },
      onEnd(error) {
        if (error) log(`an ssh session ended: ${error.message}`, 'warn');
        filter.end();
        journal.end(filter);
        trace?.ended();
        leave();
      },
    });
  } catch (error) {
    leave();
    if (signal.aborted) return;
    // ssh says by itself that its agent failed, and starts none of its own.
    log(
      `an ssh client was turned away: ${toBridgeError(error, "can't reach the ssh-agent").message}`,
      'warn',
    );
    stream.discard();
  }
}

async function openOffered(
  { agent, offers }: SshService,
  options: AskSshOptions,
): Promise<{ socket: Socket; isOffered: KeyChoice | undefined }> {
  if (offers) return offers.open(options);
  return { socket: (await agent.open(options)).socket, isOffered: undefined };
}

/** A signature that is recorded, paced and confirmed; ssh is told no reason, so the log is. */
function signAttempt(
  { command, purpose, key, name, startedAt: time }: PendingSshOperation,
  session: number,
  { use, log }: SshService,
): SignAttempt {
  const attempt = new KeyUseAttempt(use, { time, session, command, purpose, key, name });
  const passes = (refusal: BridgeError | undefined): boolean => {
    if (refusal) log(refusal.message, 'warn');
    return refusal === undefined;
  };
  return {
    begin() {
      const refusal = attempt.begin();
      return refusal instanceof Promise ? refusal.then(passes) : passes(refusal);
    },
    isAllowedStill: () => passes(attempt.refusalByNow()),
    finish(outcome, durationMs, goesOn) {
      return passes(attempt.finish(outcome, durationMs, goesOn ? 'left' : paceOf(outcome, durationMs)));
    },
    finishLate: (outcome) => attempt.finishLate(outcome),
  };
}

/** ssh-agent does not tell a cancel from another failure; but nobody reads a question and cancels it in an instant. */
function paceOf(outcome: SshOperation['outcome'], durationMs: number): PaceOutcome {
  if (outcome === 'error' && durationMs >= SOONEST_CANCEL_MS) return 'cancelled';
  return outcome === 'ok' ? 'ok' : 'other';
}

function pass({ toAgent, toClient }: Passed, out: Outlets, trace: SessionTrace | undefined): void {
  for (const message of toAgent) out.toSocket(message);
  for (const message of toClient) {
    trace?.count('toTarget', message.length);
    out.toStream(message);
  }
}
