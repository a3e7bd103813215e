import { expect, it } from 'vitest';
import { run } from '../support/process.ts';

it('shows the code’s own state tables in docs/architecture.md', async () => {
  const checked = await run(process.execPath, ['scripts/state-tables.mjs', '--check']);
  expect(checked.stderr).toBe('');
  expect(checked.status).toBe(0);
});
