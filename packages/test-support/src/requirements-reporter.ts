import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** Ends a run with the suites that could not run on this machine, and why; says nothing if all did. */
export default class RequirementsReporter implements Reporter {
  private readonly notRun = new Set<string>();

  onTestCaseResult(test: TestCase): void {
    const reason = test.meta().notRun;
    if (reason) this.notRun.add(`${test.module.relativeModuleId}: ${reason}`);
  }

  onTestRunEnd(_modules: readonly TestModule[]): void {
    if (this.notRun.size === 0) return;
    console.log(`\n Did not run on this machine (with CI=true this is a failure):`);
    for (const reason of this.notRun) console.log(`   ${reason}`);
    console.log();
  }
}
