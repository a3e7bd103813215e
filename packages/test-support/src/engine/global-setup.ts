import type { TestProject } from 'vitest/node';
import { EngineService } from './service.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    engineService: string;
  }
}

/** Runs around all system tests: engines are started when a test asks for one, and ended here. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const service = await EngineService.start();
  project.provide('engineService', service.socketPath);
  return () => service.stop();
}
