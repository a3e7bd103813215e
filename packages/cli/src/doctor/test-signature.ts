import { describeFailure } from '@gpg-bridge/core/process/run-program';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import { printable } from '@gpg-bridge/core/text/escape';
import type { Facts, Words } from './facts.ts';
import { type Finding, failure, fine, type Judgement } from './finding.ts';
import { SHOW_PINENTRY } from './host-checks.ts';

/** A person may have to find their PIN first. */
const PATIENCE_SECONDS = 120;
const TEXT = Buffer.from('A test signature of gpg-bridge doctor.\n');

/** What gpg says when nothing was signed, and what to type then. */
const REASONS: readonly { said: RegExp; fix(words: Words): string }[] = [
  { said: /cancell?ed|timeout|timed out|bad passphrase/i, fix: (words) => words.bridge('doctor', '--sign') },
  { said: /no pinentry|inappropriate ioctl|invalid ipc response/i, fix: () => SHOW_PINENTRY },
  {
    said: /no secret key|unusable secret key|no default secret key/i,
    fix: (words) => words.bridge('up', '--gpg-key', 'all'),
  },
];

/** Signs something in the target as a program there would, through the bridge, and has it verified there. */
export async function testSignature(operations: TargetOperations, facts: Facts): Promise<Finding> {
  const { status, detail, fix } = await sign(operations, facts);
  return { id: 'sign', side: 'target', status, detail, fix: fix ?? null };
}

async function sign(operations: TargetOperations, { bridge, target, words }: Facts): Promise<Judgement> {
  const up = words!.bridge('up');
  if (!bridge?.found?.sockets.some(({ type }) => type === 'gpg-agent')) {
    return failure('nothing was signed: no bridge to gpg-agent is up', up);
  }
  const { settings } = target?.git ?? { settings: new Map<string, { value: string }>() };
  const isGpg = (settings.get('gpg.format')?.value ?? 'openpgp') === 'openpgp';
  const key = isGpg ? settings.get('user.signingkey')?.value : undefined;
  // Without an agent of its own: a signature of another key than the host's would prove nothing. But keyboxd may start.
  const start = target?.keyboxd ? [] : ['--no-autostart'];
  const gpg = (args: readonly string[], input: Buffer) =>
    operations.run({
      program: 'gpg',
      args: ['--batch', '--no-tty', ...start, '--status-fd', '2', ...args],
      input,
      timeoutSeconds: PATIENCE_SECONDS,
    });
  const signed = await gpg([...(key === undefined ? [] : ['--local-user', key]), '--clear-sign'], TEXT);
  if (signed.status !== 0) {
    const why = printable(describeFailure(signed));
    const reason = REASONS.find(({ said }) => said.test(signed.stderr));
    return failure(
      `nothing was signed: ${why}`,
      bridge.found.paused ? 'gpg-bridge resume' : (reason?.fix(words!) ?? up),
    );
  }
  const verified = await gpg(['--verify'], signed.stdout);
  const fingerprint = /^\[GNUPG:\] VALIDSIG ([0-9A-F]+)/m.exec(verified.stderr)?.[1];
  if (verified.status !== 0 || !fingerprint) {
    return failure(`the signature is not good there: ${printable(describeFailure(verified))}`, up);
  }
  return fine(`a test signature of key ${fingerprint.slice(-16)} was made there, and is good`);
}
