import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { runOk } from './process.ts';
import { tempDir } from './temp.ts';
import { testedWith, versionOf } from './tested-with.ts';

/** An ssh-agent of a test's own, and the directory its key files are in. */
export interface TestSshAgent {
  dir: string;
  socketPath: string;
  env: NodeJS.ProcessEnv;
  /** Makes a key, adds it to the agent, and returns its file (the public one has `.pub` behind it). */
  addKey(comment: string, type?: string): Promise<string>;
  /** Its fingerprint, as ssh-keygen prints it. */
  fingerprint(keyFile: string): Promise<string>;
}

/** Starts an ssh-agent, with variables for the programs that it runs; it ends with the test. */
export async function startSshAgent({
  name = 'agent',
  env: variables = {},
}: {
  name?: string;
  env?: NodeJS.ProcessEnv;
} = {}): Promise<TestSshAgent> {
  await testedWith('ssh-agent', () => versionOf('ssh', '-V'));
  const dir = await tempDir();
  const socketPath = join(dir, name);
  const { SSH_AUTH_SOCK: _, ...inherited } = process.env;
  const env = { ...inherited, HOME: dir, LC_ALL: 'C' };
  const agent = spawn('ssh-agent', ['-D', '-a', socketPath], {
    env: { ...env, ...variables },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(async () => {
    const ended = once(agent, 'exit');
    if (agent.exitCode === null && agent.signalCode === null && agent.kill()) await ended;
  });
  await once(agent.stdout, 'data'); // it prints where it listens, once it does
  let count = 0;
  return {
    dir,
    socketPath,
    env: { ...env, SSH_AUTH_SOCK: socketPath },
    async addKey(comment, type = 'ed25519') {
      const file = join(dir, `key${++count}`);
      await runOk('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', comment, '-f', file], { env });
      await runOk('ssh-add', ['-q', file], { env: { ...env, SSH_AUTH_SOCK: socketPath } });
      return file;
    },
    async fingerprint(keyFile) {
      const [, print] = (await runOk('ssh-keygen', ['-lf', `${keyFile}.pub`], { env })).split(' ');
      return print!;
    },
  };
}
