import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { describe } from 'vitest';
import { aheadCases } from './ahead.ts';
import { aheadSshCases } from './ahead-ssh.ts';
import { endCases } from './end.ts';
import { flowCases } from './flow.ts';
import { heartbeatCases } from './heartbeat.ts';
import { placeCases } from './place.ts';
import { startCases } from './start.ts';
import { streamCases } from './streams.ts';

/** The one behaviour that the socket server has on every runtime. */
export function conformance(runtime: TestedRuntime): void {
  requireRuntime(runtime)(`socket server on ${runtime}`, () => {
    describe('start and end', () => startCases(runtime));
    describe('streams', () => streamCases(runtime));
    describe('flow', () => flowCases(runtime));
    describe('heartbeat', () => heartbeatCases(runtime));
    describe('the end of a session', () => endCases(runtime));
    describe('place', () => placeCases(runtime));
    describe('answering ahead', () => aheadCases(runtime));
    describe('answering ssh clients ahead', () => aheadSshCases(runtime));
  });
}
