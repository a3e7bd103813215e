import { toBridgeError } from '@gpg-bridge/core/errors';
import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import { findProgram, type GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { runProgram } from '@gpg-bridge/core/process/run-program';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { flawsOf, listPublicKeys } from '@gpg-bridge/vscode-shared/list-keys';
import { pickFrom } from '@gpg-bridge/vscode-shared/pick-from';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import { type Cure, type CureOptions, cureFor } from './cures.ts';
import { type Host, isFromHost, problemOf } from './host.ts';

/** What the test needs. */
export interface TestSigningOptions extends CureOptions {
  vs: Pick<VsCode, 'window' | 'workspace' | 'commands' | 'ProgressLocation' | 'ThemeIcon'>;
  host: Host;
  gnupg(): GnupgOptions;
  syncKeys(): Promise<void>;
  /** Something was signed and verified. */
  onSigned(): void;
}

/** One step: what was found, and what helps if that is not good. */
interface Step {
  ok: boolean;
  label: string;
  detail: string;
  cure?: Cure | undefined;
}

/** A person may be asked for a passphrase, a PIN or a touch. */
const SIGN_TIMEOUT_MS = 5 * 60_000;

/** Goes the whole way from consent to a verified signature, and shows each step with its cure. */
export async function testSigning(options: TestSigningOptions): Promise<void> {
  const { vs } = options;
  const progress = { location: vs.ProgressLocation.Notification, title: t('GPG Bridge: signing a test…') };
  const steps = await vs.window.withProgress(progress, () => runSteps(options));
  const works = steps.every(({ ok }) => ok);
  if (works) options.onSigned();
  const items = steps.map(({ ok, label, detail, cure }) => ({
    label: `${ok ? '$(pass)' : '$(error)'} ${label}`,
    detail: cure ? `${detail} → ${cure.label}` : detail,
    cure,
  }));
  const picked = await pickFrom(vs, items, {
    title: works ? t('Signing works in this remote') : t('Signing does not work in this remote yet'),
    placeHolder: works ? '' : t('Choose a step to mend it'),
  });
  await picked?.cure?.run();
}

/** The steps in order; the first that fails is the last. */
async function runSteps(options: TestSigningOptions): Promise<Step[]> {
  const steps: Step[] = [];
  try {
    for await (const step of signingSteps(options)) {
      steps.push(step);
      if (!step.ok) break;
    }
  } catch (error) {
    const failure = toBridgeError(error, t('the test failed'));
    const side = isFromHost(failure) ? ('host' as const) : ('remote' as const);
    const cure = cureFor({ code: failure.code, side }, options);
    steps.push({ ok: false, label: failure.what, detail: `${failure.why}. ${failure.fix}`, cure });
  }
  return steps;
}

async function* signingSteps(options: TestSigningOptions): AsyncGenerator<Step> {
  const { host, gnupg, syncKeys, showLog } = options;
  const facts = await host.check();
  const allowed = facts.permission === 'allowed';
  yield {
    ok: allowed,
    label: t('Permission'),
    detail: allowed
      ? t('You allow this remote to use your keys.')
      : t('You do not allow this remote to use your keys.'),
    cure: allowed ? undefined : { label: t('Allow…'), run: options.allow },
  };
  const problem = problemOf(facts);
  yield {
    ok: !problem,
    label: t('gpg-agent of your computer'),
    detail: problem?.message ?? t('It answers, and has private keys.'),
    cure: problem && cureFor({ code: problem.code, side: 'host' }, options),
  };
  const { trust } = await host.exportPublicKeys('pairs');
  const keys = (await listPublicKeys(gnupg())).filter((key) => trust.includes(key.fingerprint));
  yield {
    ok: keys.length > 0,
    label: t('Public keys'),
    detail:
      keys.length > 0
        ? keys.map((key) => [key.userId, ...flawsOf(key)].join(' · ')).join(', ')
        : t('None of your own public keys is in the keyring of this remote.'),
    cure: keys.length > 0 ? undefined : { label: t('Copy Public Keys'), run: syncKeys },
  };
  const chosen = await signingKey(options, keys);
  yield chosen.step;
  const user = chosen.key?.fingerprint;
  const gpg = await findProgram('gpg', gnupg());
  const sign = ['--batch', '--no-tty', '--clear-sign', ...(user ? ['--local-user', user] : [])];
  const signed = await runProgram(gpg, sign, {
    input: Buffer.from('GPG Bridge test\n'),
    timeoutMs: SIGN_TIMEOUT_MS,
  });
  const hasSigned = signed.status === 0;
  yield {
    ok: hasSigned,
    label: t('Signature'),
    detail: hasSigned ? t('A test text was signed.') : lastLine(signed.stderr),
    cure: hasSigned ? undefined : { label: t('Show Log'), run: showLog },
  };
  const verified = await runProgram(gpg, ['--batch', '--no-tty', '--verify'], { input: signed.stdout });
  yield {
    ok: verified.status === 0,
    label: t('Verification'),
    detail: lineWith(verified.stderr, /signature from/) ?? lastLine(verified.stderr),
    cure: verified.status === 0 ? undefined : { label: t('Copy Public Keys'), run: syncKeys },
  };
}

/** The key that git would sign with: what user.signingKey says, else gpg's own choice. */
async function signingKey(
  options: TestSigningOptions,
  keys: readonly ListedKey[],
): Promise<{ step: Step; key?: ListedKey | undefined }> {
  const label = t('user.signingKey of git');
  const first = keys.find((key) => flawsOf(key).length === 0) ?? keys[0];
  const setFirst = first && {
    label: t('Set It to {0}', first.userId),
    run: () => setInGit(options, 'user.signingKey', first.fingerprint),
  };
  const format = await git(options, 'config', '--get', 'gpg.format');
  if (format === 'ssh' || format === 'x509')
    return {
      step: {
        ok: false,
        label: t('gpg.format of git'),
        detail: t('It is "{0}": git does not sign with GPG here.', format),
        cure: {
          label: t('Set It to openpgp'),
          run: () => setInGit(options, 'gpg.format', 'openpgp'),
        },
      },
    };
  const wanted = await git(options, 'config', '--get', 'user.signingKey');
  if (!wanted) {
    const detail = t('It is not set: git looks for a key with your name and e-mail address.');
    return { step: { ok: true, label, detail, cure: setFirst }, key: first };
  }
  const id = wanted.replace(/^0x|!$/g, '').toUpperCase();
  const key = keys.find(
    ({ fingerprint, userId }) => fingerprint.endsWith(id) || userId.toUpperCase().includes(id),
  );
  const flaws = key ? flawsOf(key) : [];
  if (key && flaws.length > 0)
    return { step: { ok: false, label, detail: `${key.userId}: ${flaws.join(', ')}`, cure: setFirst }, key };
  const detail = key ? key.userId : t('It is "{0}", which is none of your keys here, or a subkey.', wanted);
  return { step: { ok: true, label, detail, cure: key ? undefined : setFirst }, key: key ?? first };
}

/** Sets a value where it counts: in this repository if it has one of its own, else for all. */
async function setInGit(options: TestSigningOptions, name: string, value: string): Promise<void> {
  const own = await git(options, 'config', '--local', '--get', name);
  await git(options, 'config', own ? '--local' : '--global', name, value);
}

/** What git prints in the window's folder; empty if it fails or is not there. */
async function git({ vs }: TestSigningOptions, ...args: string[]): Promise<string> {
  const cwd = vs.workspace.workspaceFolders?.[0]?.uri.fsPath;
  try {
    const { stdout } = await runProgram('git', args, cwd ? { cwd } : {});
    return stdout.toString().trim();
  } catch {
    return '';
  }
}

function lineWith(text: string, pattern: RegExp): string | undefined {
  return text
    .split('\n')
    .find((line) => pattern.test(line))
    ?.replace(/^gpg: /, '');
}

function lastLine(text: string): string {
  return (
    text
      .trim()
      .split('\n')
      .at(-1)
      ?.replace(/^gpg: /, '') ?? ''
  );
}
