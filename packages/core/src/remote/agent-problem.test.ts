import { createServer } from 'node:net';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';
import { noAgentLine } from '../assuan/unavailable-agent.ts';
import type { SocketType } from '../socket-type.ts';
import { agentProblem } from './agent-problem.ts';
import { DirectOperations } from './direct-operations.ts';

/** What is found wrong with a listener that says this at once and closes. */
async function problemOf(type: SocketType, words: string | Buffer): Promise<string | undefined> {
  const path = join(await tempDir(), 's');
  const server = createServer((socket) => {
    socket.on('error', () => {}).resume();
    socket.end(words);
  }).listen(path);
  onTestFinished(() => void server.close());
  return agentProblem(new DirectOperations({}), path, type);
}

it.each<[string, SocketType, string | Buffer, string | undefined]>([
  ['a restricted agent', 'gpg-agent', 'OK hello\n# a comment\nOK\nOK closing connection\n', undefined],
  [
    'an agent that is away',
    'gpg-agent',
    `OK GPG Bridge\n${noAgentLine('the socket is missing')}OK closing connection\n`,
    'the socket is missing',
  ],
  [
    'its own agent',
    'gpg-agent',
    'OK hello\nERR 67109120 False <GPG Agent>\n',
    "the target's own gpg-agent answers there",
  ],
  ['something else', 'gpg-agent', 'HTTP/1.1 400\n\n', 'what answers there does not speak as gpg-agent does'],
  ['nothing', 'gpg-agent', '', 'what answers there does not speak as gpg-agent does'],
  ['a list of keys', 'ssh-agent', Buffer.from([0, 0, 0, 5, 12, 0, 0, 0, 0]), undefined],
  ['a failure', 'ssh-agent', Buffer.from([0, 0, 0, 1, 5]), "the host's ssh-agent does not list its keys"],
  ['nothing', 'ssh-agent', '', "the host's ssh-agent is unavailable"],
])('%s behind a socket for a %s', async (_, type, words, problem) => {
  expect(await problemOf(type, words)).toBe(problem);
});

it('a socket that is not there', async () => {
  const operations = new DirectOperations({});
  expect(await agentProblem(operations, '/nowhere/s', 'gpg-agent')).toBe('nobody answers there (ENOENT)');
});
