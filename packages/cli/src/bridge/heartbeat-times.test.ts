import { HEARTBEAT } from '@gpg-bridge/core/mux/heartbeat';
import { expect, it } from 'vitest';
import { heartbeatTimes } from './heartbeat-times.ts';

it.each([
  ['4000', { ...HEARTBEAT, tickMs: 4_000 }],
  ['200,9', { ...HEARTBEAT, tickMs: 200, maxUnanswered: 9 }],
  ['200,9,3', { tickMs: 200, maxUnanswered: 9, idleTicks: 3 }],
  [',,3', { ...HEARTBEAT, idleTicks: 3 }],
])('reads "%s"', (value, times) => {
  expect(heartbeatTimes({ GPG_BRIDGE_HEARTBEAT: value })).toEqual(times);
});

it.each([undefined, '', '0', '-5', '1.5', 'soon', '999999999', ',0', ',,x'])(
  'has the usual times with "%s"',
  (value) => {
    expect(heartbeatTimes({ GPG_BRIDGE_HEARTBEAT: value })).toEqual(HEARTBEAT);
  },
);
