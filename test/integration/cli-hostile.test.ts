import { once } from 'node:events';
import { appendFile, lstat, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Person, untilGone } from '@gpg-bridge/test-support/cli';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

interface Up {
  pid: number;
}

/**
 * A target that says what it likes: `reply` runs as Node code once it was sent the server. It can say `ready`,
 * and then `agree` to everything that it is asked to do.
 */
async function hostileTarget(reply: string): Promise<string> {
  const dir = await tempDir();
  await writeFile(
    join(dir, 'target.js'),
    `const frame = (type, id, payload) => {
       const head = Buffer.alloc(9);
       head.writeUInt32BE(5 + payload.length);
       head[4] = type;
       head.writeUInt32BE(id, 5);
       return Buffer.concat([head, Buffer.from(payload)]);
     };
     const ready = frame(5, 0, '{"version":4,"runtime":"perl","system":"linux","uid":0,"home":"/h"}');
     const fields = (...texts) => Buffer.concat(texts.flatMap((text) => {
       const length = Buffer.alloc(4);
       length.writeUInt32BE(Buffer.byteLength(text));
       return [length, Buffer.from(text)];
     }));
     const results = {
       run: fields('ok', '0', 'homedir:/h/g\\nagent-socket:/h/g/S.gpg-agent\\n', ''),
       stat: fields('ok', '1', '2', String(0o40700), '0', '100'),
       lstat: fields('ENOENT', 'nothing'),
     };
     const agree = (done = () => {}) => {
       let held = Buffer.alloc(0);
       let isBound = false;
       process.stdin.on('data', (bytes) => {
         held = Buffer.concat([held, bytes]);
         while (held.length >= 4 && held.length >= 4 + held.readUInt32BE(0)) {
           const length = 4 + held.readUInt32BE(0);
           const [type, id, operation] = [held[4], held.readUInt32BE(5), held.toString('latin1', 13, length)];
           held = held.subarray(length);
           const name = /^[a-z]+/.exec(operation)?.[0] ?? '';
           if (type !== 11) continue;
           // The last thing that a bridge wants to know at its start is what its socket looks like.
           const isLast = isBound && name === 'lstat';
           isBound ||= name === 'bind';
           process.stdout.write(frame(12, id, results[name] ?? fields('ok')), () => isLast && done());
         }
       });
       process.stdout.write(ready);
     };
     process.stdout.write('GPG-BRIDGE 1 perl\\n');
     process.stdin.once('data', () => { ${reply} }).resume();`,
  );
  return writeScript(dir, 'enter', `exec ${process.execPath} ${dir}/target.js`);
}

describe('a target', () => {
  it('that ends before it was sent anything is said to have', async () => {
    const person = await Person.create();
    const enter = await writeScript(await tempDir(), 'enter', 'echo GPG-BRIDGE 1 perl\necho so long >&2');
    const { status, stderr } = await person.run(['up', '--exec', enter]);
    expect(stderr).toMatch(/^gpg-bridge: the bridge ended: so long\. [^\n]*\n$/);
    expect(status).toBe(1);
  });

  it('that breaks the bridge with the same breath that makes it ready has made none', async () => {
    const person = await Person.create();
    const enter = await hostileTarget(
      `process.stdout.write(Buffer.concat([ready, Buffer.from('garbage!!')]))`,
    );
    const { status, stderr } = await person.run(['up', '--exec', enter]);
    expect(stderr).toMatch(/^gpg-bridge: the bridge broke: [^\n]*\n$/);
    expect(status).toBe(1);
    expect(await person.json('status')).toEqual([]);
  });

  it('that will not end keeps no daemon, and no next bridge, waiting', async () => {
    const person = await Person.create();
    const enter = await hostileTarget(
      `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); agree()`,
    );
    const first = await person.json<Up>('up', '--exec', enter);
    const log = await person.file('.log');
    const down = person.ok('down', '--exec', enter);
    while (!(await readFile(log, 'utf8')).includes('the bridge is over')) await delay(20);
    // The first daemon still waits for its target; its bridge is nothing to be counted on.
    const second = await person.json<Up>('up', '--exec', enter);
    await down;
    expect(second.pid).not.toBe(first.pid);
    // That every process ends is looked at when the test does.
  });

  it('that comes and goes piles nothing up in its daemon', async () => {
    const person = await Person.create();
    const enter = await hostileTarget('agree(() => process.exit())');
    // Node warns of a sixth listener then: a target that flaps is attached to less and less often.
    const preload = join(await tempDir(), 'listeners.cjs');
    await writeFile(preload, "require('node:events').defaultMaxListeners = 5;");
    person.env.NODE_OPTIONS = `--require=${preload}`;
    await person.ok('up', '--exec', enter, '--restart', '--keys=none');
    delete person.env.NODE_OPTIONS;
    const log = await person.file('.log');
    const said = async (what: string) => (await readFile(log, 'utf8')).split(what).length - 1;
    while ((await said('bridged ')) < 6) await delay(20);
    expect(await said('MaxListenersExceededWarning')).toBe(0);
  });
});

describe('a daemon', () => {
  it('goes on when something else is in the place of its PID file', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const { pid } = await person.json<Up>('up', `local:${target.dir}`);
    const pidFile = await person.file('.pid');
    await rm(pidFile);
    await mkdir(pidFile);
    expect(await person.json('status')).toMatchObject([{ pid }]);
    expect(await person.json('status')).toMatchObject([{ pid }]);
  });

  it('has a log that is shown whole, also when it has grown into a second part', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await person.ok('up', `local:${target.dir}`);
    const log = await person.file('.log');
    const signed = {
      time: '2026-01-01T00:00:00Z',
      session: 1,
      command: 'PKSIGN',
      outcome: 'ok',
      durationMs: 3,
    };
    await writeFile(`${log}.1`, `${JSON.stringify(signed)}\n`);
    await appendFile(log, `${JSON.stringify({ ...signed, session: 2 })}\n`);
    expect(await person.json('log', `local:${target.dir}`)).toEqual([signed, { ...signed, session: 2 }]);
  });

  it('in the foreground goes on when nobody reads what it says', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    const serve = person.start(['serve', `--target=local:${target.dir}`, `--pid-file=${dir}/b.pid`]);
    serve.child.stderr.destroy();
    await once(serve.child.stderr, 'close');
    while (!(await readFile(`${dir}/b.log`, 'utf8').catch(() => '')).includes('bridged local:')) {
      await delay(20);
    }
    serve.child.kill('SIGTERM');
    expect(await serve.exited).toBe(0);
    await untilGone(`${target.dir}/S.gpg-agent`);
  });
});

describe("the host's ssh-agent", () => {
  describe.each(['node', 'perl', 'native'] as const)('over %s', (runtime) => {
    requireRuntime(runtime)('alone', () => {
      it('is never bridged to itself, even if told to take over', async () => {
        const person = await Person.create({ key: false });
        const agent = await startSshAgent({ name: 'agent.sock' });
        person.env = { ...person.env, SSH_AUTH_SOCK: agent.socketPath };
        const before = await lstat(agent.socketPath);
        const { status, stderr } = await person.run([
          'up',
          `local:${agent.dir}`,
          '--no-gpg',
          '--takeover',
          `--runtime=${runtime}`,
        ]);
        expect(stderr).toMatch(/^gpg-bridge: [^\n]*the agent of the host itself[^\n]*\n$/);
        expect(status).toBe(1);
        expect((await lstat(agent.socketPath)).ino).toBe(before.ino);
        await agent.addKey('still there');
        expect(await runOk('ssh-add', ['-l'], { env: agent.env })).toContain('still there');
      });
    });
  });
});
