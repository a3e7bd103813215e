import { run } from '@gpg-bridge/test-support/process';
import { expect, it } from 'vitest';

it('shows the code’s own state tables in docs/architecture.md', async () => {
  const checked = await run(process.execPath, ['scripts/state-tables.mjs', '--check']);
  expect(checked.stderr).toBe('');
  expect(checked.status).toBe(0);
});
