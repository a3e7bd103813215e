import { describe, expect, it } from 'vitest';
import { BridgeError } from '../errors.ts';
import { AGENT_TABLE, type AgentEvent, type AgentState } from './agent-table.ts';
import { REQUEST_TABLE } from './request-table.ts';
import { type EndPayloads, SessionEnd } from './session-end.ts';
import { StateMachine, type TransitionTable } from './state-machine.ts';

type AnyMachine = StateMachine<string, AgentEvent, Record<AgentEvent, unknown> & EndPayloads>;

const broken = new BridgeError('AGENT_CLOSED', { what: 'it', why: 'broke', fix: 'Mend it.' });

function setUp(table: object, state: string, steps: (() => void)[] = []) {
  const machine: AnyMachine = new StateMachine(table as TransitionTable<string, AgentEvent>, state);
  const passed: string[] = [];
  for (const event of ['ERROR_OCCURRED', 'CLEANUP_REQUESTED', 'CLEANUP_COMPLETE', 'CLEANUP_ERROR'] as const) {
    machine.on(event, () => passed.push(event));
  }
  const failures: unknown[] = [];
  const end = new SessionEnd(machine, { steps, ended: (failure) => failures.push(failure) });
  return { machine, end, passed, failures };
}

const AGENT_SOCKET_STATES: AgentState[] = [
  'CONNECTING_TO_AGENT',
  'SOCKET_CONNECTED',
  'SENDING_TO_AGENT',
  'WAITING_FOR_AGENT',
  'READY',
];
const REQUEST_SOCKET_STATES = [
  'CONNECTING_TO_AGENT',
  'READY',
  'BUFFERING_COMMAND',
  'BUFFERING_INQUIRE',
  'SENDING_TO_AGENT',
  'WAITING_FOR_AGENT',
  'SENDING_TO_CLIENT',
];
const WITHOUT_SOCKET = ['DISCONNECTED', 'ERROR', 'CLOSING', 'FATAL'];

describe.each([
  { name: 'agent', table: AGENT_TABLE, withSocket: AGENT_SOCKET_STATES as string[] },
  { name: 'request', table: REQUEST_TABLE, withSocket: REQUEST_SOCKET_STATES },
])('a socket that closes under the $name table', ({ table, withSocket }) => {
  it.each(withSocket)('in %s, without an error: straight to cleanup', (state) => {
    const { machine, end, passed, failures } = setUp(table, state);
    end.socketClosed(false, () => broken);
    expect(passed.sort()).toEqual(['CLEANUP_COMPLETE', 'CLEANUP_REQUESTED']);
    expect(machine.state).toBe('DISCONNECTED');
    expect(failures).toEqual([undefined]);
  });

  it.each(withSocket)('in %s, with an error: through ERROR, and the reason is told', (state) => {
    const { machine, end, passed, failures } = setUp(table, state);
    end.socketClosed(true, () => broken);
    expect(passed.sort()).toEqual(['CLEANUP_COMPLETE', 'CLEANUP_REQUESTED', 'ERROR_OCCURRED']);
    expect(machine.state).toBe('DISCONNECTED');
    expect(failures).toEqual([broken]);
  });

  it.each(WITHOUT_SOCKET.flatMap((state) => [true, false].map((hadError) => ({ state, hadError }))))(
    'in $state (hadError $hadError): ignored, and so is a further error',
    ({ state, hadError }) => {
      const { machine, end, passed } = setUp(table, state);
      end.socketClosed(hadError, () => broken);
      end.fail(broken);
      end.finish();
      expect(passed).toEqual([]);
      expect(machine.state).toBe(state);
    },
  );
});

describe('cleanup', () => {
  it('runs every step once, keeps the first error and ends in FATAL', () => {
    const ran: number[] = [];
    const { machine, end, failures } = setUp(AGENT_TABLE, 'READY', [
      () => ran.push(1),
      () => {
        throw new Error('first');
      },
      () => {
        throw new Error('second');
      },
      () => ran.push(4),
    ]);
    const kept: unknown[] = [];
    machine.handle('CLEANUP_ERROR', (error) => kept.push(error));
    end.fail(broken);
    end.fail(broken);
    end.finish();
    expect(ran).toEqual([1, 4]);
    expect(String(kept)).toBe('Error: first');
    expect(failures).toEqual([broken]);
    expect(machine.state).toBe('FATAL');
  });
});
