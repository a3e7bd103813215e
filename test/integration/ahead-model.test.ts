import { tableFields, tableOf } from '@gpg-bridge/core/assuan/answer-table';
import { CommandGate } from '@gpg-bridge/core/assuan/command-gate';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { AheadSession } from '@gpg-bridge/core/host/ahead-session';
import { AnswersAhead } from '@gpg-bridge/core/host/answers-ahead';
import type { Outlets } from '@gpg-bridge/core/mux/pipe';
import { AheadClient } from '@gpg-bridge/core/remote/answer-ahead';
import { AheadTable } from '@gpg-bridge/core/remote/told-lines';
import fc from 'fast-check';
import { expect, it } from 'vitest';

// Both halves of answering ahead, joined in memory, with an agent that is a function: what generated clients get and
// what the agent gets has to be the same as without them, whatever the client sends and however all bytes are cut.

const GRIP = 'A'.repeat(40);
const OTHER = 'B'.repeat(40);
const SHA256 = '0'.repeat(64);
const FORBIDDEN = 'ERR 67109115 Forbidden <GPG Agent>\n';
const GREETING = 'OK Pleased to meet you\n';
const VERSION = 'D 2.2.40\nOK\n';

/** gpg-agent, as far as it matters here. */
class ModelAgent {
  readonly lines: string[] = [];
  /** How many of them have their answers. */
  answered = 0;
  #hash = '';
  #inquires: string | undefined;

  constructor(private readonly refuses: ReadonlySet<string> = new Set()) {}

  answer(line: string): string {
    this.lines.push(line);
    if (line === '' || line.startsWith('#')) return '';
    if (this.#inquires !== undefined) return this.#inquiry(line);
    const [word = '', first = '', second = ''] = line.split(' ');
    if (this.refuses.has(word.toUpperCase())) return 'ERR 67108889 Not today <GPG Agent>\n';
    switch (word.toUpperCase()) {
      case 'RESET':
        this.#hash = '';
        return 'OK\n';
      case 'GETINFO':
        if (first === 'restricted') return 'OK\n';
        return first === 'version' ? VERSION : FORBIDDEN;
      case 'OPTION':
        return first.startsWith('agent-awareness=') ? 'OK\n' : FORBIDDEN;
      case 'SIGKEY':
      case 'SETKEY':
        return /^[0-9a-fA-F]{40}$/.test(first) ? 'OK\n' : 'ERR 67109144 IPC parameter error <GPG Agent>\n';
      case 'SETKEYDESC':
        return first === '' ? 'ERR 67109144 IPC parameter error <GPG Agent>\n' : 'OK\n';
      case 'SETHASH':
        this.#hash = second;
        return second.length === 64 ? 'OK\n' : 'ERR 67109144 IPC parameter error <GPG Agent>\n';
      case 'HAVEKEY':
        return first === GRIP ? 'OK\n' : 'ERR 67108881 No secret key <GPG Agent>\n';
      case 'PKSIGN':
        return this.#hash === ''
          ? 'ERR 67108922 No data <GPG Agent>\n'
          : `D signature of ${this.#hash}\nOK\n`;
      case 'PKDECRYPT':
        this.#inquires = '';
        return 'S INQUIRE_MAXLEN 4096\nINQUIRE CIPHERTEXT\n';
      case 'KEYINFO':
      case 'SCD':
        return FORBIDDEN;
      case 'NOP':
        return 'OK\n';
      default:
        return 'ERR 67109139 Unknown IPC command <GPG Agent>\n';
    }
  }

  #inquiry(line: string): string {
    if (line.startsWith('D ')) {
      this.#inquires += line.slice(2);
      return '';
    }
    const data = this.#inquires;
    this.#inquires = undefined;
    return line === 'END'
      ? `D plain ${data}\nOK\n`
      : 'ERR 67109141 IPC call has been cancelled <GPG Agent>\n';
  }
}

const line = fc.oneof(
  fc.constantFrom(
    'RESET',
    'GETINFO restricted',
    'GETINFO version',
    'GETINFO pid',
    'OPTION ttyname=/dev/pts/1',
    'OPTION ttyname=',
    'OPTION agent-awareness=2.1.0',
    'OPTION allow-pinentry-notify',
    `SIGKEY ${GRIP}`,
    `SETKEY ${OTHER}`,
    'SIGKEY short',
    'SETKEYDESC Please+sign',
    'SETKEYDESC \xe4\xf6\xfc',
    'SETKEYDESC',
    `SETHASH 8 ${SHA256}`,
    'SETHASH 8 00',
    'SETHASH --inquire',
    `HAVEKEY ${GRIP}`,
    `HAVEKEY ${OTHER} ${GRIP}`,
    `KEYINFO ${GRIP}`,
    'SCD SERIALNO',
    'PKSIGN',
    'pksign',
    'PKDECRYPT',
    'D data',
    'END',
    'CAN',
    'NOP',
    '# a comment',
    '',
    'RESET\r',
    'reset',
    'UNKNOWN words',
  ),
);

/** A client that writes pieces, each when it has got so many responses or at once. */
const script = fc.array(
  fc.record({
    lines: fc.array(line, { minLength: 1, maxLength: 6 }),
    early: fc.boolean(),
    cut: fc.integer({ min: 1, max: 40 }),
  }),
  { minLength: 1, maxLength: 6 },
);
type Script = readonly { lines: readonly string[]; early: boolean; cut: number }[];

/** A path to an agent. */
interface Path {
  send(bytes: Buffer): void;
  end(): void;
  received: () => string;
  agent: ModelAgent;
  operations: Operation[];
}

/** The agent behind the gate alone. */
function plain(agent: ModelAgent): Path {
  let client = '';
  let isBroken = false;
  const operations: Operation[] = [];
  const feed = agentFeed(agent, (bytes) => gate.fromAgent(bytes));
  const gate: CommandGate = new CommandGate(
    { finished: (operation) => void operations.push(operation) },
    {
      toAgent: feed,
      toClient: (bytes) => void (client += bytes.toString('latin1')),
      endAgent: () => {},
      resume: () => {},
      broken: () => void (isBroken = true),
    },
    { now: () => 0 },
  );
  gate.fromAgent(Buffer.from(GREETING));
  return {
    agent,
    operations,
    send: (bytes) => void (isBroken || gate.fromClient(Buffer.from(bytes))),
    end: () => gate.clientEnded(),
    received: () => client,
  };
}

/** Answers lines of the client's as they are complete, each in a turn of its own so that nothing is re-entered. */
function agentFeed(agent: ModelAgent, give: (bytes: Buffer) => void): (bytes: Buffer) => void {
  let partial = '';
  const answers: string[] = [];
  let isGiving = false;
  return (bytes) => {
    partial += bytes.toString('latin1');
    for (let lf: number; (lf = partial.indexOf('\n')) >= 0; ) {
      answers.push(agent.answer(partial.slice(0, lf).replace(/\r$/, '')));
      partial = partial.slice(lf + 1);
    }
    if (isGiving) return;
    isGiving = true;
    for (let answer: string | undefined; (answer = answers.shift()) !== undefined; ) {
      agent.answered++;
      if (answer !== '') give(Buffer.from(answer, 'latin1'));
    }
    isGiving = false;
  };
}

/** The agent behind both halves, with answers learned by every client before. */
function ahead(agent: ModelAgent, answers: AnswersAhead): Path {
  let client = '';
  let isBroken = false;
  const operations: Operation[] = [];
  const table = new AheadTable();
  table.set(tableOf(tableFields(answers.table)));
  const [told, turns]: [Buffer[], Buffer[]] = [[], []];
  const feed = agentFeed(agent, (bytes) => session.fromAgent(bytes));
  const toClient = (bytes: Buffer) => void (client += bytes.toString('latin1'));
  const session: AheadSession = new AheadSession({
    answers,
    rules: { finished: (operation) => void operations.push(operation) },
    out: {
      toAgent: feed,
      toClient,
      toClientInTurn(bytes, turn) {
        toClient(bytes);
        turns.push(Buffer.from(turn));
      },
      endAgent: () => {},
      resume: () => {},
      broken: () => void (isBroken = true),
    },
    takeTold: () => told.splice(0),
    now: () => 0,
  });
  session.fromAgent(Buffer.from(GREETING));
  const target = new AheadClient({ takeNotes: () => turns.splice(0) }, table);
  const outlets: Outlets = {
    toSocket: toClient,
    toStream: (bytes) => void session.fromClient(Buffer.from(bytes)),
    toStreamNoted(note, bytes) {
      told.push(note);
      session.fromClient(Buffer.from(bytes));
    },
    toStreamThenNote: () => {},
    resumeStream: () => {},
    endSocket: () => {},
    socketBusy: false,
    lastByte: undefined,
  };
  target.onStart(outlets);
  return {
    agent,
    operations,
    send: (bytes) => void (isBroken || target.fromSocket(Buffer.from(bytes), outlets)),
    end() {
      target.onLastByte(outlets);
      session.gate.clientEnded();
    },
    received: () => client,
  };
}

async function play(path: Path, pieces: Script): Promise<string> {
  for (const { lines, early, cut } of pieces) {
    const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''), 'latin1');
    for (let at = 0; at < bytes.length; at += cut) {
      path.send(bytes.subarray(at, at + cut));
      // Answers that are asked along come through a promise.
      if (!early) await new Promise((resolve) => setImmediate(resolve));
    }
  }
  path.end();
  await new Promise((resolve) => setImmediate(resolve));
  return path.received();
}

function learnedAnswers(log: (text: string) => void = () => {}): AnswersAhead {
  const answers = new AnswersAhead({ log, onChange: () => {} });
  answers.connected({ version: VERSION, socket: 's' }, GREETING);
  const agent = new ModelAgent();
  const asked = ['OPTION ttyname=x', 'OPTION agent-awareness=2', `KEYINFO ${OTHER}`, 'SCD SERIALNO'];
  answers.learnAll(asked.map((line) => [line, Buffer.from(agent.answer(line))]));
  return answers;
}

it('gives clients what the agent gives them, and the agent every line in order', async () => {
  const answers = learnedAnswers();
  await fc.assert(
    fc.asyncProperty(script, async (pieces) => {
      const [with_, without] = [ahead(new ModelAgent(), answers), plain(new ModelAgent())];
      expect(await play(with_, pieces)).toBe(await play(without, pieces));
      // What is asked along is the host's own.
      const ofClient = ({ lines }: ModelAgent) => lines.filter((each) => !each.startsWith('HAVEKEY'));
      expect(ofClient(with_.agent)).toEqual(ofClient(without.agent));
      expect(with_.operations).toEqual(without.operations);
    }),
    { numRuns: 400 },
  );
});

it('lets no key be used behind a setting that was told and failed, until a RESET was answered OK', async () => {
  const failing = fc.constantFrom('RESET', 'SIGKEY', 'SETKEY', 'SETKEYDESC', 'SETHASH', 'OPTION', 'GETINFO');
  let differences = 0;
  const refusals = fc.uniqueArray(failing, { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(script, refusals, async (pieces, refused) => {
      const agent = new ModelAgent(new Set<string>(refused));
      /** How many lines the agent had answered each time when an answer was not as told. */
      const noticed: number[] = [];
      const answers = learnedAnswers((text) => {
        if (text.includes('had been told')) noticed.push(agent.answered);
      });
      const path = ahead(agent, answers);
      await play(path, pieces);
      for (const at of noticed) {
        differences++;
        const rest = agent.lines.slice(at);
        const reset = refused.includes('RESET') ? -1 : rest.findIndex((each) => /^reset\r?$/i.test(each));
        const before = reset < 0 ? rest : rest.slice(0, reset);
        expect(before.filter((each) => /^pk(?:sign|decrypt)/i.test(each))).toEqual([]);
      }
    }),
    { numRuns: 400 },
  );
  expect(differences).toBeGreaterThan(50);
});
