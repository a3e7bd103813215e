import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { BashSession } from '@gpg-bridge/test-support/guides/bash-session';
import type { GuidePlace } from '@gpg-bridge/test-support/guides/follow';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { onTestFinished } from 'vitest';

/** What somebody who follows a page has before the first command. */
export interface PlaceOptions {
  /** Containers that run already, by name, with further arguments of `docker run`; $PWD in them is the directory. */
  containers?: Readonly<Record<string, readonly string[]>>;
  /** Containers that the page itself starts. */
  leaves?: readonly string[];
  /** The name of a machine that ssh reaches. */
  sshHost?: string;
}

/** The image of every container, as the pages call it: Debian with GnuPG and git. */
const IMAGE = 'my-image';

/** A person's shell with GPG and SSH keys, `gpg-bridge`, and what else a page needs; it ends with the test. */
export async function makePlace({ containers, leaves = [], sshHost }: PlaceOptions): Promise<GuidePlace> {
  const names = [...Object.keys(containers ?? {}), ...leaves];
  const engine = names.length > 0 ? await sharedEngine('docker') : undefined;
  const person = await Person.create({ key: false, ...(engine ? { env: engine.env } : {}) });
  const fingerprint = await person.home.createKey('Ada Lovelace <ada@example.org>');
  await person.home.addEncryptionKey(fingerprint);
  const agent = await startSshAgent();
  await agent.addKey('ada@laptop');
  const programs = await tempDir();
  await writeScript(programs, 'gpg-bridge', `exec ${process.execPath} ${PROGRAM} "$@"`);
  const root = join(person.home.dir, '..');
  const shownAs: [real: string, shown: string][] = [
    [person.home.dir, '/home/ada/.gnupg'],
    [root, '/home/ada'],
    [person.stateDir, '/run/user/1000/gpg-bridge'],
    [agent.socketPath, '/run/user/1000/ssh-agent.socket'],
  ];
  if (sshHost) {
    const server = await startServer(sshHost, programs);
    shownAs.push([server.home, '/home/ada']);
  }
  const directory = join(root, 'project');
  await mkdir(directory);
  if (engine) await startContainers(engine, containers ?? {}, { names, directory });
  const env = {
    ...person.env,
    SSH_AUTH_SOCK: agent.socketPath,
    PATH: `${programs}${delimiter}${person.env.PATH}`,
    LC_ALL: 'C.UTF-8',
  };
  const shell = new BashSession(env, directory);
  onTestFinished(() => shell.close());
  return {
    shell,
    env,
    directory,
    shown: (output) => shownAs.reduce((text, [real, shown]) => text.replaceAll(real, shown), output),
  };
}

async function startContainers(
  engine: ContainerEngine,
  containers: Readonly<Record<string, readonly string[]>>,
  { names, directory }: { names: readonly string[]; directory: string },
): Promise<void> {
  await engine.runOk(['tag', await engine.ensureImage('git'), IMAGE]);
  onTestFinished(async () => void (await engine.run(['rm', '--force', '--volumes', ...names])));
  for (const [name, args] of Object.entries(containers)) {
    const own = args.map((word) => word.replace('$PWD', directory));
    await engine.runOk(['run', '--detach', '--init', '--name', name, ...own, IMAGE, 'sleep', 'infinity']);
  }
}

/** A machine that the person's ssh knows by a name. */
async function startServer(name: string, programs: string): Promise<SshServer> {
  const server = await SshServer.start();
  onTestFinished(() => server.stop());
  const config = join(programs, 'ssh_config');
  const known = await readFile(server.configPath, 'utf8');
  await writeFile(config, known.replace(`Host ${SSH_HOST}\n`, `Host ${name}\n`));
  await writeScript(programs, 'ssh', `exec /usr/bin/ssh -F '${config}' "$@"`);
  return server;
}
