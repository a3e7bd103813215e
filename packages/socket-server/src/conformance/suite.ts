import { describe } from 'vitest';
import { requireRuntime } from '../../../../test/support/requirements.ts';
import type { Runtime } from '../launch.ts';
import { flowCases } from './flow.ts';
import { placeCases } from './place.ts';
import { startCases } from './start.ts';
import { streamCases } from './streams.ts';

/** The one behaviour that the socket server has on every runtime. */
export function conformance(runtime: Runtime): void {
  requireRuntime(runtime)(`socket server on ${runtime}`, () => {
    describe('start and end', () => startCases(runtime));
    describe('streams', () => streamCases(runtime));
    describe('flow', () => flowCases(runtime));
    describe('place', () => placeCases(runtime));
  });
}
