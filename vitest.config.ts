import { defineConfig } from 'vitest/config';

/** Whole matrices of what can go wrong: they need no more than `unit`, but time. */
const FAULTS = [
  'test/integration/faults/**/*.test.ts',
  'test/integration/dead-line.test.ts',
  'test/integration/cli-hostile-engine.test.ts',
  'packages/socket-server/test/conformance.emulated.test.ts',
];

/**
 * Long stories of the command line, and the conformance of all runtimes but the first: `npm test` is to take the minute or
 * two that a person has for it.
 */
const STORIES = [
  'test/integration/cli-{again,changes,daemons,hostile,hostile-load,kubernetes}.test.ts',
  'test/integration/cli-{lifetime,lost-keys,narrowing,stored-grants}.test.ts',
  'test/integration/ssh-from-gpg-agent.test.ts',
  'test/integration/doctor-{bridge,host,target}.test.ts',
  'test/integration/ahead-crossings.test.ts',
  'packages/socket-server/test/conformance.{native,node}.test.ts',
];

// `unit`, `stories` and `faults` need Node, git, gpg and openssh-client alone; `system` adds engines and sshd, `vscode`
// VS Code, `windows` Wine.
export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['packages/*/{src,test}/**/*.test.ts', 'test/integration/**/*.test.ts'],
          exclude: [...FAULTS, ...STORIES],
        },
      },
      {
        extends: true,
        test: { name: 'stories', include: STORIES },
      },
      {
        extends: true,
        test: { name: 'faults', include: FAULTS },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: ['test/system/**/*.test.ts'],
          exclude: ['test/system/vscode/**', 'test/system/windows.test.ts'],
          globalSetup: ['packages/test-support/src/engine/global-setup.ts'],
          // Engines and editors are slow on a busy machine. Hooks that build images have a limit of their own.
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'vscode',
          include: ['test/system/vscode/**/*.test.ts'],
          // A browser and an editor's server need the processors for themselves: after the others, two at a time.
          sequence: { groupOrder: 1 },
          maxWorkers: 2,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'windows',
          include: ['test/system/windows.test.ts'],
          globalSetup: ['packages/test-support/src/engine/global-setup.ts'],
          // It measures, and Wine needs the processors: after all others.
          sequence: { groupOrder: 2 },
          testTimeout: 240_000,
          hookTimeout: 180_000,
        },
      },
    ],
    reporters: [
      'default',
      './packages/test-support/src/requirements-reporter.ts',
      './packages/test-support/src/running-reporter.ts',
    ],
    // Most of a test is waiting for other programs, so there may be more workers than cores.
    maxWorkers: 4,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // What ends after all tests: the engines.
    teardownTimeout: 120_000,
    // A second, which is what a poll has otherwise, is nothing on a busy machine.
    expect: { poll: { interval: 20, timeout: 30_000 } },
    coverage: {
      provider: 'v8',
      include: ['packages/core/src/**/*.ts'],
      exclude: ['**/*.test.ts'],
      reporter: ['text-summary'],
      thresholds: { statements: 90 },
    },
  },
});
