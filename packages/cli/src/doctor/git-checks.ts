import type { KeyDetails } from '@gpg-bridge/core/gnupg/key-listing';
import { shellQuote } from '../targets/shell-quote.ts';
import type { Check } from './check.ts';
import type { Facts, Words } from './facts.ts';
import { failure, fine, type Judgement, warning } from './finding.ts';
import { type GitFacts, programSetting } from './git-facts.ts';
import { keyName, MAKE_KEY } from './host-checks.ts';
import type { SshKeyFacts } from './host-facts.ts';
import { isOlder } from './versions.ts';

/** What is checked about git in a target. */
export const GIT_CHECKS: readonly Check[] = [
  git('git-format', judgeFormat),
  git('git-program', judgeProgram),
  git('git-signing-key', judgeSigningKey),
  git('git-email', judgeEmail),
  git('git-gpgsign', judgeGpgsign),
];

type GitJudge = (git: GitFacts, words: Words, facts: Facts) => Judgement | undefined;

/** A check that needs a git in the target. */
function git(id: string, judge: GitJudge): Check {
  return {
    id,
    side: 'git',
    judge: (facts) =>
      facts.target?.git && facts.words ? judge(facts.target.git, facts.words, facts) : undefined,
  };
}

function value({ settings }: GitFacts, name: string): string | undefined {
  return settings.get(name)?.value;
}

function isSsh(git: GitFacts): boolean {
  return value(git, 'gpg.format') === 'ssh';
}

/** The keys that can sign, the best one to propose first. */
function signers({ host }: Facts): KeyDetails[] {
  return (host.keys.found ?? []).filter(({ canSign }) => canSign);
}

function judgeFormat(git: GitFacts, words: Words, { bridge }: Facts): Judgement {
  const format = value(git, 'gpg.format');
  const unset = words.there('git config --global --unset gpg.format');
  if (format === undefined || format === 'openpgp') return fine('git signs with GPG');
  if (format === 'x509') return fine('git signs with gpgsm, through the same agent');
  if (format !== 'ssh') return failure(`gpg.format is ${format}, which git does not know`, unset);
  if (git.version && isOlder(git.version, '2.34.0')) {
    return failure(`gpg.format is ssh, which git ${git.version} does not know`, unset);
  }
  const hasSsh = bridge?.found?.sockets.some(({ type }) => type === 'ssh-agent') ?? false;
  if (bridge?.found && !hasSsh) {
    return failure('gpg.format is ssh, and the bridge has no ssh-agent', words.bridge('up', '--ssh'));
  }
  return fine('git signs with SSH keys');
}

function judgeProgram(git: GitFacts, words: Words): Judgement | undefined {
  const setting = programSetting(git);
  if (!setting) return fine('git runs the gpg that it finds');
  const [name, { value: program, file }] = setting;
  if (git.programRuns) return fine(`${name} is ${program}`);
  const unset = `git config --file ${shellQuote(file)} --unset-all ${name}`;
  return failure(`${name} is ${program}, which is not there (${file})`, words.there(unset));
}

function judgeSigningKey(git: GitFacts, words: Words, facts: Facts): Judgement | undefined {
  return isSsh(git) ? judgeSshKey(git, words, facts) : judgeGpgKey(git, words, facts);
}

function judgeGpgKey(git: GitFacts, words: Words, facts: Facts): Judgement | undefined {
  const all = facts.host.keys.found;
  if (!all?.length) return undefined;
  const [best] = signers(facts);
  const set = (key: KeyDetails) => words.there(`git config --global user.signingkey ${key.fingerprint}`);
  const name = value(git, 'user.signingkey');
  if (name === undefined) {
    const email = value(git, 'user.email');
    if (!best) return undefined; // said of the host's keys
    if (email !== undefined && signers(facts).some((key) => hasAddress(key, email))) {
      return fine(`user.signingkey is not set: git takes the key of ${email}`);
    }
    return warning('user.signingkey is not set, and no key has the address of git', set(best));
  }
  const named = all.filter((key) => isCalled(key, name));
  const [key] = named;
  if (named.some(({ canSign }) => canSign)) {
    if (key && isRefused(key, facts)) {
      const why = `user.signingkey is ${keyName(key)}, and the bridge offers other keys alone`;
      return failure(why, words.bridge('up', '--gpg-key', key.fingerprint));
    }
    return fine(`user.signingkey is ${name}`);
  }
  const why = key
    ? `user.signingkey is ${keyName(key)}, which ${key.revoked ? 'is revoked' : key.expired ? 'has expired' : "can't sign"}`
    : `user.signingkey is ${name}, which is no private key of this machine`;
  return failure(why, best ? set(best) : MAKE_KEY);
}

/** Whether the bridge was told to offer other keys. */
function isRefused(key: KeyDetails, { bridge }: Facts): boolean {
  const { gpg, gpgKeys = [] } = bridge?.found?.options ?? {};
  const offered = gpg === false ? [] : gpgKeys;
  const isOffered = (name: string) =>
    isCalled(key, name) || key.keygrips.includes(name.replace(/^&/, '').toUpperCase());
  return offered.length > 0 && !offered.some(isOffered);
}

function judgeSshKey(git: GitFacts, words: Words, { host }: Facts): Judgement | undefined {
  const keys = host.sshAgent.found?.keys ?? [];
  const [best] = keys;
  const name = value(git, 'user.signingkey');
  const set = ({ base64 }: SshKeyFacts) =>
    words.there(`git config --global user.signingkey ${shellQuote(`key::${keyType(base64)} ${base64}`)}`);
  if (name === undefined) {
    if (git.settings.has('gpg.ssh.defaultkeycommand'))
      return fine('git asks gpg.ssh.defaultKeyCommand for a key');
    return best
      ? failure('gpg.format is ssh, and user.signingkey is not set', set(best))
      : failure('gpg.format is ssh, and there is no SSH key to sign with', 'ssh-add');
  }
  const text = git.signingKeyFile ?? name;
  const found = keys.find(({ base64 }) => text.includes(base64));
  if (found) return fine(`user.signingkey is ${found.fingerprint}`);
  if (!best) return failure('the ssh-agent of this machine has no keys', 'ssh-add');
  return failure('user.signingkey is no key of the ssh-agent of this machine', set(best));
}

/** The type that a public key in base64 names in its first field. */
function keyType(base64: string): string {
  const blob = Buffer.from(base64, 'base64');
  return blob.subarray(4, 4 + blob.readUInt32BE(0)).toString('latin1');
}

function judgeEmail(git: GitFacts, words: Words, facts: Facts): Judgement | undefined {
  const [best] = signers(facts);
  if (isSsh(git) || !best) return undefined;
  const email = value(git, 'user.email');
  const address = /<([^<>]+)>/.exec(best.userId)?.[1];
  const set = words.there(`git config --global user.email ${shellQuote(address ?? 'you@example.org')}`);
  if (email === undefined) return warning('user.email is not set, so git makes no commit', set);
  if (signers(facts).some((key) => hasAddress(key, email)))
    return fine(`user.email is ${email}, and a key has it`);
  return warning(`no key that can sign has git's user.email, ${email}: others can't tell whose it is`, set);
}

function judgeGpgsign(git: GitFacts, words: Words, { bridge }: Facts): Judgement {
  const signs = /^(?:true|yes|on|1)$/i.test(value(git, 'commit.gpgsign') ?? '');
  if (!signs) return fine('commits are signed with `git commit -S` alone (commit.gpgsign is not set)');
  if (bridge && !bridge.error && !bridge.found) {
    return warning('commit.gpgsign is set, and without a bridge no commit can be signed', words.bridge('up'));
  }
  return fine('every commit is signed (commit.gpgsign)');
}

/** Whether gpg would take a name for this key: a fingerprint or its end, a keygrip, or a part of a user ID. */
function isCalled(key: KeyDetails, name: string): boolean {
  const hex = name.replace(/^0x/i, '').replace(/[\s!]/g, '').toUpperCase();
  if (/^[0-9A-F]{8,}$/.test(hex)) {
    return [key.fingerprint, ...key.subkeys].some((fingerprint) => fingerprint.endsWith(hex));
  }
  const text = name.replace(/^=/, '').toLowerCase();
  return key.userIds.some((userId) => userId.toLowerCase().includes(text));
}

function hasAddress(key: KeyDetails, email: string): boolean {
  const address = email.toLowerCase();
  return key.userIds.some(
    (userId) => userId.toLowerCase().includes(`<${address}>`) || userId.toLowerCase() === address,
  );
}
