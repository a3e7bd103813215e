import { describe, expect, it } from 'vitest';
import { AGENT_TABLE } from './agent-table.ts';
import { REQUEST_TABLE } from './request-table.ts';
import { ImpossibleTransition, StateMachine, type TransitionTable } from './state-machine.ts';

// Written out from the specification, not from the code: one line a transition, everything else impossible.
const AGENT = {
  states:
    'DISCONNECTED CONNECTING_TO_AGENT SOCKET_CONNECTED SENDING_TO_AGENT WAITING_FOR_AGENT READY ERROR CLOSING FATAL',
  events:
    'CLIENT_CONNECT_REQUESTED CLIENT_DATA_RECEIVED AGENT_SOCKET_CONNECTED AGENT_WRITE_OK AGENT_DATA_CHUNK AGENT_DATA_RECEIVED ERROR_OCCURRED CLEANUP_REQUESTED CLEANUP_COMPLETE CLEANUP_ERROR',
  transitions: `
    DISCONNECTED         CLIENT_CONNECT_REQUESTED  CONNECTING_TO_AGENT
    CONNECTING_TO_AGENT  AGENT_SOCKET_CONNECTED    SOCKET_CONNECTED
    CONNECTING_TO_AGENT  ERROR_OCCURRED            ERROR
    CONNECTING_TO_AGENT  CLEANUP_REQUESTED         CLOSING
    SOCKET_CONNECTED     CLIENT_DATA_RECEIVED      SENDING_TO_AGENT
    SOCKET_CONNECTED     ERROR_OCCURRED            ERROR
    SOCKET_CONNECTED     CLEANUP_REQUESTED         CLOSING
    SENDING_TO_AGENT     AGENT_WRITE_OK            WAITING_FOR_AGENT
    SENDING_TO_AGENT     ERROR_OCCURRED            ERROR
    SENDING_TO_AGENT     CLEANUP_REQUESTED         CLOSING
    WAITING_FOR_AGENT    AGENT_DATA_CHUNK          WAITING_FOR_AGENT
    WAITING_FOR_AGENT    AGENT_DATA_RECEIVED       READY
    WAITING_FOR_AGENT    ERROR_OCCURRED            ERROR
    WAITING_FOR_AGENT    CLEANUP_REQUESTED         CLOSING
    READY                CLIENT_DATA_RECEIVED      SENDING_TO_AGENT
    READY                ERROR_OCCURRED            ERROR
    READY                CLEANUP_REQUESTED         CLOSING
    ERROR                CLEANUP_REQUESTED         CLOSING
    CLOSING              CLEANUP_COMPLETE          DISCONNECTED
    CLOSING              CLEANUP_ERROR             FATAL`,
};

const REQUEST = {
  states:
    'DISCONNECTED CONNECTING_TO_AGENT READY BUFFERING_COMMAND BUFFERING_INQUIRE SENDING_TO_AGENT WAITING_FOR_AGENT SENDING_TO_CLIENT ERROR CLOSING FATAL',
  events:
    'CLIENT_SOCKET_CONNECTED CLIENT_DATA_START CLIENT_DATA_PARTIAL CLIENT_DATA_COMPLETE AGENT_RESPONSE_COMPLETE RESPONSE_OK_OR_ERR RESPONSE_INQUIRE AGENT_WRITE_COMPLETE ERROR_OCCURRED CLEANUP_REQUESTED CLEANUP_COMPLETE CLEANUP_ERROR',
  transitions: `
    DISCONNECTED         CLIENT_SOCKET_CONNECTED   CONNECTING_TO_AGENT
    CONNECTING_TO_AGENT  AGENT_RESPONSE_COMPLETE   SENDING_TO_CLIENT
    CONNECTING_TO_AGENT  ERROR_OCCURRED            ERROR
    CONNECTING_TO_AGENT  CLEANUP_REQUESTED         CLOSING
    SENDING_TO_CLIENT    RESPONSE_OK_OR_ERR        READY
    SENDING_TO_CLIENT    RESPONSE_INQUIRE          BUFFERING_INQUIRE
    SENDING_TO_CLIENT    ERROR_OCCURRED            ERROR
    SENDING_TO_CLIENT    CLEANUP_REQUESTED         CLOSING
    READY                CLIENT_DATA_START         BUFFERING_COMMAND
    READY                ERROR_OCCURRED            ERROR
    READY                CLEANUP_REQUESTED         CLOSING
    BUFFERING_COMMAND    CLIENT_DATA_PARTIAL       BUFFERING_COMMAND
    BUFFERING_COMMAND    CLIENT_DATA_COMPLETE      SENDING_TO_AGENT
    BUFFERING_COMMAND    ERROR_OCCURRED            ERROR
    BUFFERING_COMMAND    CLEANUP_REQUESTED         CLOSING
    BUFFERING_INQUIRE    CLIENT_DATA_PARTIAL       BUFFERING_INQUIRE
    BUFFERING_INQUIRE    CLIENT_DATA_COMPLETE      SENDING_TO_AGENT
    BUFFERING_INQUIRE    ERROR_OCCURRED            ERROR
    BUFFERING_INQUIRE    CLEANUP_REQUESTED         CLOSING
    SENDING_TO_AGENT     AGENT_WRITE_COMPLETE      WAITING_FOR_AGENT
    SENDING_TO_AGENT     ERROR_OCCURRED            ERROR
    SENDING_TO_AGENT     CLEANUP_REQUESTED         CLOSING
    WAITING_FOR_AGENT    AGENT_RESPONSE_COMPLETE   SENDING_TO_CLIENT
    WAITING_FOR_AGENT    ERROR_OCCURRED            ERROR
    WAITING_FOR_AGENT    CLEANUP_REQUESTED         CLOSING
    ERROR                CLEANUP_REQUESTED         CLOSING
    CLOSING              CLEANUP_COMPLETE          DISCONNECTED
    CLOSING              CLEANUP_ERROR             FATAL`,
};

describe.each([
  { name: 'agent', table: AGENT_TABLE as TransitionTable<string, string>, list: AGENT },
  { name: 'request', table: REQUEST_TABLE as TransitionTable<string, string>, list: REQUEST },
])('the $name table', ({ table, list }) => {
  const states = list.states.split(' ');
  const events = list.events.split(' ');
  const expected = new Map(
    list.transitions
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/ +/))
      .map(([from, event, to]) => [`${from} ${event}`, to] as const),
  );

  it('has the states of the list and no event outside it', () => {
    expect(Object.keys(table).sort()).toEqual([...states].sort());
    const used = new Set(Object.values(table).flatMap((row) => Object.keys(row)));
    expect([...used].sort()).toEqual([...events].sort());
  });

  const pairs = states.flatMap((state) => events.map((event) => ({ state, event })));
  it.each(pairs)('$state × $event', ({ state, event }) => {
    const machine = new StateMachine(table, state);
    const heard: unknown[] = [];
    machine.handle(event, (payload) => heard.push(payload, machine.state));
    const to = expected.get(`${state} ${event}`);
    expect(machine.accepts(event)).toBe(to !== undefined);
    if (to) {
      machine.dispatch(event, 'payload');
      expect(machine.state).toBe(to);
      expect(heard).toEqual(['payload', to]); // the handler sees the new state
    } else {
      expect(() => machine.dispatch(event, 'payload')).toThrow(ImpossibleTransition);
      expect(() => machine.dispatch(event, 'payload')).toThrow(`${event} in state ${state}`);
      expect(machine.state).toBe(state);
      expect(heard).toEqual([]);
    }
  });
});
