import { CommandGate, type GateOutlets } from '@gpg-bridge/core/assuan/command-gate';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { noAgentLine, UnavailableAgent } from '@gpg-bridge/core/assuan/unavailable-agent';
import type { BridgeError } from '@gpg-bridge/core/errors';
import { AheadSession } from '@gpg-bridge/core/host/ahead-session';
import type { AnswersAhead } from '@gpg-bridge/core/host/answers-ahead';
import { awaitKeyUse } from '@gpg-bridge/core/host/await-key-use';
import type { ConnectionLimit } from '@gpg-bridge/core/host/connection-limit';
import { Attempt } from '@gpg-bridge/core/host/giving-up';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import { KeyUseRules } from '@gpg-bridge/core/host/key-use-rules';
import { answersInPieces, type OpenedAgent } from '@gpg-bridge/core/host/open-agent';
import type { QuestionsAhead, RecentQuestions } from '@gpg-bridge/core/host/questions-ahead';
import type { LogCallback } from '@gpg-bridge/core/log';
import { SessionTrace } from '@gpg-bridge/core/machine/session-trace';
import { type Outlets, pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import type { Journal } from './journal.ts';

const LF = Buffer.from('\n');

/** What all sessions of a bridge with the host's gpg-agent share. */
export interface GpgService {
  agent: HostGpgAgent;
  /** What the target answers ahead, and how it is learned from another agent; absent: nothing is. */
  ahead?: { answers: AnswersAhead; recent: RecentQuestions; learn(): Promise<void> } | undefined;
  connections: ConnectionLimit;
  use: TargetUse;
  journal: Journal;
  log: LogCallback;
  /** Where every step of every session is told; absent: nowhere. */
  traceLog?: LogCallback | undefined;
}

/** Joins one client's stream with a connection of its own to the host's gpg-agent, when there is room for it. */
export function serveGpgStream(stream: MuxStream, service: GpgService): void {
  const opening = new Attempt();
  const trace = traceOf(stream, service);
  const stopWaiting = service.connections.enter((leave) => {
    opening.addEventListener('abort', leave);
    const { ahead } = service;
    // What the target asked lately it will ask again: the agent is asked with the first bytes of the connection.
    const questions = stream.greeted ? ahead?.recent.questions : undefined;
    service.agent.open(
      {
        opened: (agent) => {
          const { identity, greeting } = agent;
          if (identity && ahead?.answers.connected(identity, greeting.toString('latin1'))) void ahead.learn();
          join(stream, agent, questions, service, trace, leave);
        },
        failed(error) {
          leave();
          trace?.reached('no agent to be had');
          answerUnavailable(stream, error, service.log);
        },
      },
      opening,
      questions,
    );
  });
  // A client that leaves before its turn, or before the agent greets, keeps no connection.
  stream.onAbandoned(() => {
    trace?.reached('the client left before it was its turn');
    stopWaiting();
    opening.abort();
    stream.discard();
  });
}

/** Tells of a session where that is asked for: the words are not made for nobody. */
function traceOf({ id }: MuxStream, { traceLog }: GpgService): SessionTrace | undefined {
  return traceLog && new SessionTrace(`session ${id}`, 'opened by a client of gpg-agent', traceLog);
}

/** Passes bytes both ways through a gate that gives the agent one command at a time. */
function join(
  stream: MuxStream,
  { socket, greeting, answers = [] }: OpenedAgent,
  questions: QuestionsAhead | undefined,
  { agent, use, journal, ahead }: GpgService,
  trace: SessionTrace | undefined,
  leave: () => void,
): void {
  let out: Outlets | undefined;
  const onOperation = (operation: Operation) => {
    trace?.answered(operation);
    journal.operation(stream.id, operation);
  };
  const rules = new KeyUseRules(use, onOperation, stream.id);
  const outlets: GateOutlets = {
    toAgent: (bytes) => {
      out?.toSocket(bytes);
      agent.prepare(); // now, while this one is busy, and the client waits for it or for nothing
    },
    toClient: (bytes) => {
      trace?.count('toTarget', bytes.length);
      out?.toStream(bytes);
      if (gate.awaitsClient) journal.clientAwaited();
    },
    // One that owes nothing would only close, too: that is not waited for.
    endAgent: (isAnswered) => void (isAnswered ? socket.destroy() : out?.endSocket()),
    resume: () => out?.resumeStream(),
    broken: (error) => void socket.destroy(error),
  };
  const session =
    stream.greeted && ahead
      ? new AheadSession({
          answers: ahead.answers,
          rules,
          out: {
            ...outlets,
            toClientInTurn: (bytes, turn) => {
              trace?.count('toTarget', bytes.length);
              return out?.toStreamThenNote(bytes, turn);
            },
          },
          takeTold: () => stream.takeNotes(),
          hurry: answersInPieces(socket),
        })
      : new CommandGate(rules, outlets);
  const gate = session instanceof CommandGate ? session : session.gate;
  journal.begin(gate);
  pipeSocket(stream, socket, {
    onStart(outlets) {
      out = outlets;
      trace?.reached('joined with the agent');
      if (session instanceof AheadSession && questions) session.begin(greeting, questions, answers);
      else session.fromAgent(greeting);
    },
    fromStream(bytes) {
      trace?.count('toHost', bytes.length);
      return session.fromClient(bytes);
    },
    onStreamEof() {
      trace?.reached('the client has sent its last byte');
      gate.clientEnded();
      journal.clientEnded();
    },
    dropsAtClose: true, // for a client that has gone nothing more is carried out
    onStreamEnd() {
      trace?.reached("closed by the target's end");
      if (!gate.clientLeft()) return false;
      socket.end(); // by which newer agents know that nobody waits, and take their prompt back
      awaitKeyUse(socket, gate);
      return true;
    },
    fromSocket(bytes) {
      session.fromAgent(bytes);
    },
    onSocketEnd(_error, outlets) {
      trace?.reached('closed by the agent');
      // Behind half a line it would become a part of that, and an OK whose end is missing would count as one.
      if (!session.owed || gate.pending?.command === 'BYE' || session.halfSaid === 'line') return;
      if (session.halfSaid === 'data') outlets.toStream(LF);
      // Without this line gpg reports only "End of file".
      outlets.toStream(noAgentLine("the host's gpg-agent closed the connection"));
    },
    onEnd() {
      gate.end();
      journal.end(gate);
      trace?.ended();
      leave();
    },
  });
}

/** Answers in place of an unavailable agent: closing at once would make gpg start its own. */
function answerUnavailable(stream: MuxStream, failure: BridgeError, log: LogCallback): void {
  log(`a client was told that the host's gpg-agent can't be had: ${failure.message}`, 'warn');
  if (!stream.open) {
    stream.discard();
    return;
  }
  const agent = new UnavailableAgent(failure.message);
  if (!stream.greeted) stream.send(agent.greeting);
  stream.attach({
    take(bytes) {
      for (const told of stream.takeNotes() ?? []) agent.passOver(told.length / 4);
      const answer = agent.answer(bytes);
      const taken = answer.length === 0 || stream.send(answer);
      if (agent.ended) stream.finish();
      return taken;
    },
    drained: () => stream.resumeDelivery(),
    eof: () => stream.finish(),
    ended: () => {},
  });
}
