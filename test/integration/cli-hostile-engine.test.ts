import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { delimiter, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { EVIL, expectHarmless } from '@gpg-bridge/test-support/harmless';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';

const ID = 'a'.repeat(64);
const BOX = { Id: ID, Name: '/box', State: { Running: true }, Config: { User: '' } };
/** Every command that looks a target up. */
const COMMANDS: readonly (readonly string[])[] = [
  ['down', 'TARGET'],
  ['status', 'TARGET'],
  ['log', 'TARGET'],
  ['env', 'TARGET'],
  ['doctor', 'TARGET'],
  ['keys', 'sync', 'TARGET'],
  ['exec', 'TARGET', '--', 'true'],
];

/** No real engine can be made to say such things; this one speaks its API on a socket. */
async function hostileEngine(answer: RequestListener): Promise<NodeJS.ProcessEnv> {
  const path = join(await tempDir(), 's');
  const server = createServer(answer).listen(path);
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { DOCKER_HOST: `unix://${path}` };
}

const saying =
  (status: number, body: unknown): RequestListener =>
  (_request, response) =>
    void response.writeHead(status).end(JSON.stringify(body));

/** What engines say in answer to the question for a container, or to the command that is to run there. */
const ANSWERS: Readonly<Record<string, RequestListener>> = {
  'a name': saying(200, { ...BOX, Name: `/${EVIL}` }),
  'a name that is an option': saying(200, { ...BOX, Name: '/--privileged' }),
  'an id': saying(200, { ...BOX, Id: EVIL }),
  'a user': saying(200, { ...BOX, Config: { User: EVIL } }),
  'texts of other types': saying(200, { Id: ID, Name: { evil: EVIL }, State: {}, Config: { User: [EVIL] } }),
  'an error': saying(404, { message: EVIL }),
  'a very long error': saying(500, { message: EVIL.repeat(20_000) }),
  'an error for the command': (request, response) => {
    const isInspect = request.method === 'GET';
    response.writeHead(isInspect ? 200 : 409).end(JSON.stringify(isInspect ? BOX : { message: EVIL }));
  },
  'an id for the command': (request, response) => {
    const isInspect = request.method === 'GET';
    response.writeHead(isInspect ? 200 : 201).end(JSON.stringify(isInspect ? BOX : { Id: `../${EVIL}` }));
  },
};

/** Runs every command, and looks at what it printed. With --verbose a command says what it says without, and more. */
async function expectWordsKept(person: Person, target: string): Promise<void> {
  const lines = [
    ['up', target],
    ['up', '--verbose', '--json', target],
    ['status', '--json', target],
    ...COMMANDS.map(([first, ...rest]) => [
      first!,
      '--verbose',
      ...rest.map((word) => (word === 'TARGET' ? target : word)),
    ]),
  ];
  for (const words of lines) {
    const { stdout, stderr, status } = await person.run(words);
    const printed = `${stdout}\n${stderr}`;
    expectHarmless(printed);
    if (words[0] === 'up') expect(status).not.toBe(0);
    // Nothing that is printed for a person to paste has the words outside of quotes.
    const pasted = printed.split('\n').flatMap((line) => line.match(/`[^`]*`/g) ?? []);
    expect(pasted.filter((hint) => /^[^']*rm -rf/.test(hint))).toEqual([]);
    expect(stderr.length).toBeLessThan(20_000);
  }
}

it.each(Object.entries(ANSWERS))(
  'an engine that says %s that a terminal would obey has it escaped or refused by every command',
  async (_what, answer) => {
    await expectWordsKept(await Person.create({ key: false, env: await hostileEngine(answer) }), 'box');
  },
);

it.each([
  ['docker', 'docker:box'],
  ['podman', 'podman:box'],
  ['kubectl', 'k8s:pod'],
  ['ssh', 'ssh:host'],
])('a %s that fails with such words has them escaped by every command', async (program, target) => {
  const dir = await tempDir();
  const words = EVIL.replace('\r\n', '');
  await writeScript(dir, program, `printf '%s' '${words}'\nprintf '%s' '${words}' >&2\nexit 1`);
  const person = await Person.create({
    key: false,
    env: {
      PATH: `${dir}${delimiter}${process.env.PATH}`,
      DOCKER_HOST: 'tcp://127.0.0.1:1',
      CONTAINER_HOST: 'tcp://127.0.0.1:1',
    },
  });
  await expectWordsKept(person, target);
  expect((await person.run(['up', target])).stderr).toContain('\\x1b]0;evil\\x07');
});

it('a cluster that names a pod so that kubectl would take it for an option is not believed', async () => {
  const dir = await tempDir();
  const pod = (name: string) => ({
    metadata: { name },
    spec: { containers: [{ name: 'main' }] },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  });
  const answers = {
    config: {
      'current-context': 'c',
      contexts: [{ name: 'c', context: {} }],
      clusters: [{ name: 'k', cluster: { server: 's' } }],
    },
    deployment: { spec: { selector: { matchLabels: { a: 'b' } } } },
    pods: { items: [pod('--kubeconfig=/tmp/evil')] },
    namespace: { metadata: { uid: 'u' } },
  };
  const cases = Object.entries(answers).map(
    ([word, body]) => `*' ${word}'*) echo '${JSON.stringify(body)}' ;;`,
  );
  await writeScript(dir, 'kubectl', `case " $*" in\n${cases.join('\n')}\n*) exit 1 ;; esac`);
  const person = await Person.create({
    key: false,
    env: { PATH: `${dir}${delimiter}${process.env.PATH}` },
  });
  const { stderr, status } = await person.run(['up', 'k8s:deploy:web']);
  expect(stderr).toMatch(/the cluster's answer names no pod/);
  expect(status).toBe(3);
});
