import { tableFields } from '@gpg-bridge/core/assuan/answer-table';
import { AnswersAhead } from '@gpg-bridge/core/host/answers-ahead';
import { BindAnswers } from '@gpg-bridge/core/host/bind-answers';
import { ConnectionLimit } from '@gpg-bridge/core/host/connection-limit';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { type TargetUse, unrecordedUse } from '@gpg-bridge/core/host/key-use-attempt';
import { learnUsual } from '@gpg-bridge/core/host/learn-usual';
import { RecentQuestions } from '@gpg-bridge/core/host/questions-ahead';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import { bindFields } from '@gpg-bridge/core/ssh/told-binds';
import type { BridgeParts } from './bridge-parts.ts';
import { serveGpgStream } from './gpg-session.ts';
import type { HostAgents } from './host-agents.ts';
import { serveSshStream } from './ssh-session.ts';

/** The host's agents, to which a target's clients are joined. */
export interface ServedAgents {
  /** Finds out what the target can answer ahead, and tells it. */
  learn(): Promise<void>;
}

/** Joins every client of a target's sockets with the host's agent for it. */
export function serveAgents(
  muxer: HostMuxer,
  { gpg, ssh, sshOffers }: HostAgents,
  parts: Pick<BridgeParts, 'use' | 'journal' | 'log' | 'traceLog' | 'ahead'>,
): ServedAgents {
  const { use, journal, log, traceLog } = parts;
  const shared = { use: use ?? unrecordedUse(), journal, log, traceLog };
  const ahead = gpg && parts.ahead !== false ? answersAhead(muxer, gpg, shared.use, log) : undefined;
  const gpgService = gpg && {
    ...shared,
    agent: gpg,
    ahead,
    connections: new ConnectionLimit(),
  };
  const binds =
    parts.ahead === false
      ? undefined
      : new BindAnswers((answerType) => muxer.sendTable('ssh-agent', bindFields(answerType)));
  const sshService = ssh && {
    ...shared,
    agent: ssh,
    binds,
    connections: new ConnectionLimit(),
    offers: sshOffers,
  };
  muxer.on('stream', (stream, socketType) => {
    if (socketType === 'gpg-agent' && gpgService) serveGpgStream(stream, gpgService);
    else if (socketType === 'ssh-agent' && sshService) serveSshStream(stream, sshService);
    else stream.discard();
  });
  return {
    async learn() {
      await ahead?.learn();
      binds?.learn(ssh?.bindAnswer);
    },
  };
}

/** What the target's end answers ahead: sent to it whenever it changes, learned anew from every other agent. */
function answersAhead(muxer: HostMuxer, gpg: HostGpgAgent, use: TargetUse, log: LogCallback) {
  const answers: AnswersAhead = new AnswersAhead({
    log,
    narrowed: use.grant?.keygrips !== undefined,
    onChange: () => muxer.sendTable('gpg-agent', tableFields(answers.table)),
  });
  const recent = new RecentQuestions(answers, use);
  return { answers, recent, learn: () => learnUsual(gpg, answers, log) };
}
