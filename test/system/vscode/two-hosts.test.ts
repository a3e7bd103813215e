import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { ask } from '@gpg-bridge/core/assuan/ask';
import { BridgeError } from '@gpg-bridge/core/errors';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { ScriptedAgent } from '@gpg-bridge/test-support/scripted-agent';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { eventually, STEP_TIMEOUT_MS, Story } from './story.ts';
import { AgentProcess } from './two-hosts/agent-process.ts';

const release = VSCODE_RELEASES.at(-1)!;

/** Every byte value; those that a data line has to escape are. */
const EVERY_BYTE = Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  return '%\r\n'.includes(character) ? `%${byte.toString(16).toUpperCase().padStart(2, '0')}` : character;
}).join('');
const CIPHERTEXT = `(7:enc-val(3:rsa(1:a256:${EVERY_BYTE})))`;

// One story, in the newest release, in two extension hosts: the browser's for the side of the computer, with a double
// in front of the real AgentProxy, and the server's for the remote, with the real extension.
requireSystem('chromium')(`Two extension hosts in VS Code ${release.vscode}`, () => {
  let agent!: AgentProcess;
  let reportPath = '';
  const story = new Story({
    release,
    name: 'two-hosts',
    install: async ({ request, own }) => [
      request,
      await own('two-hosts/local'),
      await own('two-hosts/remote'),
    ],
    prepare: async (host, dir) => {
      agent = await AgentProcess.start(host.env);
      reportPath = join(dir, 'caller.json');
      return { settings: { 'localDouble.url': agent.url }, env: { REMOTE_CALLER_REPORT: reportPath } };
    },
  });

  beforeAll(() => story.scene.createKeys());
  afterAll(() => agent?.stop());

  /** Says lines at the socket of the remote, and returns the responses. */
  async function say(lines: string[]): Promise<string[]> {
    const client = connect(await story.scene.remoteSocket());
    onTestFinished(() => void client.destroy());
    const { responses } = await ask(client, lines, { timeoutMs: STEP_TIMEOUT_MS });
    client.destroy();
    return responses.map(({ bytes }) => bytes.toString('latin1'));
  }

  it('runs one half in a worker of the browser and the other in the server, and a string of every byte crosses', async () => {
    const scripted = await ScriptedAgent.start(echoing());
    agent.use({ connect: scripted.connect });
    const window = await story.open();
    await window.waitForStatus('ready');
    await eventually(() => expect(existsSync(reportPath)).toBe(true));
    expect(JSON.parse(readFileSync(reportPath, 'utf8'))).toEqual({
      where: {
        local: { isWorker: true, hasNode: false, kind: 'UI' },
        remote: { kind: 'Workspace', node: expect.any(String) },
      },
      everyByte: true,
      measured: [],
    });
    const client = await TestClient.connect(await story.scene.remoteSocket());
    client.write('PKDECRYPT\n');
    await client.reads('INQUIRE DATA\n');
    client.write(`D ${CIPHERTEXT}\nEND\n`);
    expect(await client.reads('\nOK\n')).toContain(`INQUIRE DATA\nD ${CIPHERTEXT}\nOK\n`);
    client.socket.destroy();
    expect(scripted.received).toContain(`D ${CIPHERTEXT}\nEND\n`);
  });

  it('takes an error of the computer across, with its words', async () => {
    agent.refusal = new BridgeError('AGENT_CLOSED', {
      what: 'the agent went away',
      why: 'its process ended (“Gerät”)',
      fix: 'Try again.',
    });
    const [response] = await say(['GETINFO version']);
    expect(response).toMatch(
      /^ERR 67108941 No agent running <GPG Agent> - the agent went away: its process ended/,
    );
    await story.expectError('the agent went away: its process ended (“Gerät”)');
    await story.photograph('error');
    agent.refusal = undefined;
    agent.use();
    await say(['GETINFO version']);
    await story.window.waitForStatus('ready');
  });

  it('signs a commit', async () => {
    await story.window.dismissNotifications();
    await story.signAndVerify('Sign across two hosts');
    await story.signAndVerify('Sign once more across two hosts');
    expect(agent.calls).toContain('exportPublicKeys');
    await story.photograph('signed');
  });

  it('takes the end of a client across while its signature waits for the person', async () => {
    const { scene, window } = story;
    await story.commitInTerminal('Broken off', scene.keys.guarded);
    await window.waitForStatus('waiting for you');
    await story.photograph('waiting');
    const before = agent.calls.length;
    await window.page.keyboard.press('Control+C');
    await eventually(() => expect(agent.calls.slice(before)).toContain('disconnectAgent'));
    await window.waitForStatus('ready');
    await eventually(() => expect(agent.book.openSessions).toBe(0));
    // The prompt that nobody answers any more is closed by the agent.
    await scene.host.killAgent();
  });

  it('takes the end of a session across while its client waits', async () => {
    const { scene, window } = story;
    const committed = await story.commitInTerminal('Ended by the computer', scene.keys.guarded);
    await window.waitForStatus('waiting for you');
    await agent.proxy.stop();
    expect(await committed()).not.toBe(0);
    await window.terminalText('failed to sign');
    await scene.host.killAgent();
    await story.signAndVerify('Signed after all');
  });
});

/** An agent that gives back the data that it asked for: no gpg-agent does that. */
function echoing() {
  let kept = '';
  return {
    answer(line: string): string | undefined {
      if (line === 'PKDECRYPT') return 'INQUIRE DATA\n';
      if (line.startsWith('D ')) kept = line;
      else return line === 'END' ? `${kept}\nOK\n` : 'OK\n';
      return undefined;
    },
  };
}
