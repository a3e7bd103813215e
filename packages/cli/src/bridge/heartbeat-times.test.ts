import { HEARTBEAT } from '@gpg-bridge/core/mux/heartbeat';
import { expect, it } from 'vitest';
import { heartbeatTimes } from './heartbeat-times.ts';

it('has the usual times unless the environment has others', () => {
  expect(heartbeatTimes({})).toEqual(HEARTBEAT);
  expect(heartbeatTimes({ GPG_BRIDGE_TICK_MS: '4000' })).toEqual({ ...HEARTBEAT, tickMs: 4_000 });
});

it.each(['', '0', '-5', '1.5', 'soon', '999999999'])('takes no notice of "%s"', (value) => {
  expect(heartbeatTimes({ GPG_BRIDGE_TICK_MS: value })).toEqual(HEARTBEAT);
});
