import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Person } from '@gpg-bridge/test-support/cli';
import { runOk } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Another program that uses the package. */
const PROGRAM = `
import { Manager, MockManager } from 'gpg-bridge';
const target = process.argv[2];
const manager = new Manager({ verbose: true });
const first = await manager.ensureBridge(target, { keys: 'pairs' });
const second = await manager.ensureBridge(target);
const up = await manager.isRunning(target);
const mock = new MockManager();
await mock.ensureBridge('box');
process.stdout.write(JSON.stringify({
  first, second, up, called: mock.calledWith('ensureBridge', 'box'),
  stopped: process.argv[3] === 'stop' ? [await manager.stopBridge(target), await manager.stopAll()] : [],
}));
`;

describe('the packed library', () => {
  it('makes, finds and ends a bridge for another program', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const app = await tempDir();
    // Packed as it is built: building it again would take the program away from other tests.
    const pack = [
      'pack',
      '--silent',
      '--ignore-scripts',
      '--workspace=gpg-bridge',
      `--pack-destination=${app}`,
    ];
    const tarball = (await runOk('npm', pack, { cwd: root })).trim().split('\n').at(-1)!;
    const place = join(app, 'node_modules/gpg-bridge');
    await mkdir(place, { recursive: true });
    await runOk('tar', ['-xzf', join(app, tarball), '-C', place, '--strip-components=1']);
    await writeFile(join(app, 'app.mjs'), PROGRAM);
    const use = async (...words: string[]) =>
      JSON.parse(await runOk(process.execPath, ['app.mjs', name, ...words], { cwd: app, env: person.env }));

    const used = await use();
    expect(used.first).toMatchObject({ target: name, result: 'new', variables: { GNUPGHOME: target.dir } });
    expect(used.second).toMatchObject({ pid: used.first.pid, result: 'running' });
    expect(used).toMatchObject({ up: true, called: true });
    await target.gpgOk(['--clear-sign'], { input: 'hello' });
    expect(await use('stop')).toMatchObject({ stopped: [true, 0] });

    // It asked for a log that tells every session, and never what was said.
    const log = await person.ok('log', name);
    expect(log).toMatch(
      /session (\d+): opened by a client of gpg-agent[\s\S]*session \1: joined with the agent/,
    );
    // What the client did at the other end of the wire is told by the frames that came of it.
    expect(log).toMatch(
      /session \d+: (the client has sent its last byte|closed by the target's end) after \d+\.\d ms/,
    );
    expect(log).toMatch(/session \d+: PKSIGN ok, \d+\.\d ms/);
    expect(log).toMatch(/session \d+: ended after \d+\.\d ms, [1-9]\d* bytes to the host, [1-9]\d* back/);
    expect(log).not.toMatch(/SETHASH \d|sig-val|SETKEYDESC \S+\+/);
  });
});
