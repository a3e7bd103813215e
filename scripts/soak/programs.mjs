import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

/** The programs of people: each `once` resolves when its result is right, and rejects when there is none. */
export function programs(machine) {
  const { support } = machine;
  const gpg = (bridge, args, input) =>
    support.run('gpg', ['--batch', '--no-tty', '--no-autostart', ...args], { env: bridge.env, input });

  async function sign() {
    const bridge = machine.anyBridge();
    const text = randomUUID();
    const signed = await gpg(bridge, ['--clear-sign'], text);
    if (signed.status !== 0) throw new Error(`gpg: ${signed.stderr}`);
    const verified = await gpg(bridge, ['--status-fd', '2', '--decrypt'], signed.stdout);
    if (!/GOODSIG/.test(verified.stderr) || verified.stdout.toString().trim() !== text) {
      throw wrong(`a signature is not good: ${verified.stderr}`);
    }
  }

  async function decrypt() {
    const message = machine.messages[Math.floor(Math.random() * machine.messages.length)];
    const { status, stdout, stderr } = await gpg(machine.anyBridge(), ['--decrypt'], message.encrypted);
    if (status !== 0) throw new Error(`gpg: ${stderr}`);
    if (stdout.toString() !== message.text) throw wrong('a message was decrypted to something else');
  }

  async function ssh() {
    const { env } = machine.anyBridge();
    const token = randomUUID();
    if (!machine.sshConfig) return signWithSsh(env, token);
    const { status, stdout, stderr } = await support.run(
      'ssh',
      ['-F', machine.sshConfig, support.SSH_HOST, 'echo', token],
      { env },
    );
    if (status !== 0) throw new Error(`ssh: ${stderr}`);
    if (stdout.toString().trim() !== token) throw wrong(`ssh printed ${stdout}`);
  }

  async function signWithSsh(env, text) {
    const signing = ['-Y', 'sign', '-n', 'soak', '-f', `${machine.sshKey}.pub`];
    const signed = await support.run('ssh-keygen', signing, { env, input: text });
    if (signed.status !== 0) throw new Error(`ssh-keygen: ${signed.stderr}`);
    const file = join(machine.directory, `${text}.sig`);
    const checking = ['-Y', 'verify', '-n', 'soak', '-I', 'soak', '-f', join(machine.directory, 'signers')];
    await support.runOk('tee', [file], { input: signed.stdout });
    const checked = await support.run('ssh-keygen', [...checking, '-s', file], { input: text });
    await support.runOk('rm', [file]);
    if (checked.status !== 0) throw wrong('a signature of ssh is not good');
  }

  return [
    { name: 'sign', once: sign },
    { name: 'decrypt', once: decrypt },
    { name: 'ssh', once: ssh },
  ];
}

/** What is wrong is wrong at any time: it is not tried again. */
export function wrong(text) {
  return Object.assign(new Error(text), { isWrong: true });
}
