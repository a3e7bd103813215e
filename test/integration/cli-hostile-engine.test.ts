import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { delimiter, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { EVIL, expectHarmless } from '@gpg-bridge/test-support/harmless';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

const ID = 'a'.repeat(64);
const BOX = { Id: ID, Name: '/box', State: { Running: true }, Config: { User: '' } };
/** Every command that looks a container up. */
const COMMANDS = ['up', 'down', 'status', 'log', 'env'] as const;
const WAYS = [[], ['--verbose'], ['--json'], ['--verbose', '--json']] as const;

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

describe.each(Object.entries(ANSWERS))(
  'an engine that says %s that a terminal would obey',
  (_what, answer) => {
    it.each(COMMANDS)('has it escaped or refused by %s', async (command) => {
      const person = await Person.create({ key: false, env: await hostileEngine(answer) });
      for (const way of WAYS) {
        if (way.some((word) => word === '--json') && (command === 'down' || command === 'env')) continue;
        const { stdout, stderr, status } = await person.run([command, 'box', ...way]);
        expectHarmless(stdout.toString(), stderr);
        if (command === 'up') expect(status).not.toBe(0);
        // Nothing that is printed for a person to paste has the words outside of quotes.
        const pasted = `${stdout}\n${stderr}`.split('\n').flatMap((line) => line.match(/`[^`]*`/g) ?? []);
        expect(pasted.filter((hint) => /^[^']*rm -rf/.test(hint))).toEqual([]);
        expect(stderr.length).toBeLessThan(20_000);
      }
    });
  },
);

describe.each(['docker', 'podman', 'kubectl', 'ssh'] as const)(
  'a %s that fails with such words',
  (program) => {
    const targets = { docker: 'docker:box', podman: 'podman:box', kubectl: 'k8s:pod', ssh: 'ssh:host' };

    it.each(COMMANDS)('has them escaped by %s', async (command) => {
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
      for (const way of [[], ['--verbose']]) {
        const { stdout, stderr, status } = await person.run([command, targets[program], ...way]);
        expectHarmless(stdout.toString(), stderr);
        if (command === 'up') {
          expect(status).not.toBe(0);
          expect(stderr).toContain('\\x1b]0;evil\\x07');
        }
      }
    });
  },
);

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
