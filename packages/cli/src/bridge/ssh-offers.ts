import { BridgeError } from '@gpg-bridge/core/errors';
import type { AskSshOptions } from '@gpg-bridge/core/host/ask-ssh-agent';
import type { KeyUsages } from '@gpg-bridge/core/host/key-usages';
import type { HostSshAgent, OpenedSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import { allOf, chosenKeys, type Identity, type KeyChoice } from '@gpg-bridge/core/ssh/identities';
import { fingerprint, signsWithoutDigest } from '@gpg-bridge/core/ssh/key-blob';
import { printable } from '@gpg-bridge/core/text/escape';

/** What a grant says that is about SSH keys. */
export interface SshLimits {
  /** Which keys a person named; absent: all of them. */
  isNamed?: KeyChoice | undefined;
  /** Keygrips of the only GPG keys: a gpg-agent that is the ssh-agent has the same private keys. */
  keygrips?: ReadonlySet<string> | undefined;
  /** GPG is not bridged: over SSH, too, no key makes OpenPGP signatures. */
  withoutGpg?: boolean | undefined;
}

/** What has to be known of keys, as far as the last lookup tells. */
export type SshUsages = Pick<KeyUsages, 'alsoSigns' | 'onlyLogsIn' | 'problem' | 'upToDate'>;

/** What limits leave of the keys of one agent, and why they leave others out. */
interface Judgement {
  place: string;
  isOffered: KeyChoice;
  /** Whether only the keys of a choice among GPG keys are offered. */
  isChoice: boolean;
  leftOut(identities: readonly Identity[]): string[];
}

/** What an ssh-agent offers at one time. */
export interface SshLook {
  /** Its keys, without those that are bound to destinations; undefined if it does not list them. */
  listed: readonly Identity[] | undefined;
  offered: readonly Identity[];
  /** How many are bound to destinations. */
  bound: number;
  /** Keys that are left out, with the reason. */
  leftOut: string[];
  /** Whether keys are left out, or would be, by something else than --ssh-key. */
  isNarrowed: boolean;
  /** Has sessions keep to these limits from now on, also those that are open. */
  apply(): void;
}

/** What gpg-agent has as the comment of a key that has none. */
const NO_COMMENT = '(none)';
const NAME_CHARACTERS = 80;
/** Judgements in a row while the socket changes or the grant is narrowed. */
const MOST_JUDGEMENTS = 3;

/**
 * Which keys of the host's ssh-agent a target may use. What --gpg-key and --no-gpg leave depends on the agent, which may
 * be another one at every connection: SSH_AUTH_SOCK can be a link. So each agent is judged before it signs anything.
 */
export class SshOffers {
  readonly #agent: HostSshAgent;
  readonly #usages: SshUsages | undefined;
  /** Those that the bridge came up with, and those that came since. */
  #limits: readonly SshLimits[];
  #judgement: Judgement | undefined;

  constructor(agent: HostSshAgent, limits: SshLimits, usages?: SshUsages) {
    this.#agent = agent;
    this.#limits = [limits, {}];
    this.#usages = usages;
  }

  /** Connects to the agent, and says which of its keys are offered on that connection. */
  async open(options: AskSshOptions): Promise<OpenedSshAgent & { isOffered: KeyChoice }> {
    const opened = await this.#agent.open(options);
    try {
      if (dependsOnAgent(this.#limits)) await this.#judgeAt(opened.place);
    } catch (error) {
      opened.socket.destroy();
      throw error;
    }
    return { ...opened, isOffered: (identity) => this.#isOffered(identity, opened.place) };
  }

  #limitsWith(more: SshLimits | undefined): readonly SshLimits[] {
    const [base = {}, since = {}] = this.#limits;
    return more ? [base, { ...since, ...more }] : this.#limits;
  }

  /** What the agent offers under the limits that hold, and under others that come to them; nothing is applied yet. */
  async look(more?: SshLimits): Promise<SshLook> {
    const limits = this.#limitsWith(more);
    const found = await this.#agent.offeredKeys().catch(() => undefined);
    const depends = dependsOnAgent(limits);
    const judgement = depends ? await this.#judge(found?.place, limits).catch(() => undefined) : undefined;
    const isNamed = allOf(...limits.map((each) => each.isNamed));
    const listed = found?.offered;
    const isNarrowed = !judgement || judgement.isChoice || !listed?.every(judgement.isOffered);
    return {
      listed,
      offered: (listed ?? []).filter(
        (identity) => isNamed(identity) && (!depends || judgement?.isOffered(identity) === true),
      ),
      bound: found?.bound ?? 0,
      leftOut: judgement?.leftOut((listed ?? []).filter(isNamed)) ?? [],
      isNarrowed: depends && isNarrowed,
      apply: () => {
        this.#limits = limits;
        this.#judgement = judgement;
      },
    };
  }

  /** Nothing is offered by an agent that was not judged, or that another one has followed. */
  #isOffered(identity: Identity, place: string | undefined): boolean {
    const isNamed = this.#limits.every((each) => each.isNamed?.(identity) !== false);
    if (!isNamed || !dependsOnAgent(this.#limits)) return isNamed;
    return this.#judgement?.place === place && this.#judgement?.isOffered(identity) === true;
  }

  async #judgeAt(place: string | undefined): Promise<void> {
    await this.#usages?.upToDate();
    for (let judgements = 0; this.#judgement?.place !== place; judgements++) {
      if (judgements === MOST_JUDGEMENTS) throw changing();
      const limits = this.#limits;
      const judgement = await this.#judge(place, limits);
      if (limits === this.#limits) this.#judgement = judgement;
    }
  }

  async #judge(place: string | undefined, limits: readonly SshLimits[]): Promise<Judgement> {
    const gpgAgent = await this.#agent.gpgAgent();
    const withoutGpg = limits.some((each) => each.withoutGpg);
    if (withoutGpg || !gpgAgent) await this.#usages?.upToDate();
    const granted: KeyChoice[] = [];
    for (const { keygrips } of limits) {
      if (!gpgAgent || !keygrips) continue;
      granted.push(chosenKeys([...(await this.#agent.fingerprintsOf(gpgAgent, keygrips))]));
    }
    // The path was looked at, and not the connection: both must be of the same agent.
    if (place === undefined || place !== (await this.#agent.place())) throw changing();
    const isGranted = allOf(...granted);
    const why = (identity: Identity) =>
      withoutGpg ? this.#whyNotWithoutGpg(identity, gpgAgent?.isOwn) : this.#whyNotAmong(identity, limits);
    return {
      place,
      isOffered: (identity) => isGranted(identity) && why(identity) === undefined,
      isChoice: granted.length > 0,
      leftOut(identities) {
        const ungranted = identities.filter((identity) => !isGranted(identity)).length;
        const keys = ungranted === 1 ? '1 SSH key' : `${ungranted} SSH keys`;
        const others = identities.filter(isGranted).flatMap((identity) => {
          const reason = why(identity);
          return reason === undefined
            ? []
            : [`the SSH key ${shownIdentity(identity)} can't log in here: ${reason}`];
        });
        return [
          ...(ungranted === 0
            ? []
            : [`--gpg-key leaves out ${keys} of gpg-agent, which is also your ssh-agent`]),
          ...others,
        ];
      },
    };
  }

  /**
   * A digest that is signed over SSH can be that of an OpenPGP document: without GPG such a key would still make one.
   * Of gpg-agent's keys, of whichever home, one of which that is not known may do so.
   */
  #whyNotWithoutGpg({ blob }: Identity, isOwn: boolean | undefined): string | undefined {
    if (signsWithoutDigest(blob)) return undefined;
    const print = fingerprint(blob);
    if (this.#usages?.alsoSigns(print)) return 'it also makes OpenPGP signatures, which --no-gpg excludes';
    if (isOwn === undefined || (isOwn && this.#usages?.onlyLogsIn(print))) return undefined;
    const problem = this.#usages?.problem;
    return `the host doesn't know whether it also makes OpenPGP signatures, which --no-gpg excludes${problem === undefined ? '' : ` (${problem})`}`;
  }

  /** The same of a key that is in gpg-agent as well, and not among those that were chosen there. */
  #whyNotAmong({ blob }: Identity, limits: readonly SshLimits[]): string | undefined {
    const print = fingerprint(blob);
    const isOther = ({ keygrips }: SshLimits) => keygrips && this.#usages?.alsoSigns(print, keygrips);
    if (signsWithoutDigest(blob) || !limits.some(isOther)) return undefined;
    return 'it also makes OpenPGP signatures, and --gpg-key does not name it';
  }
}

function dependsOnAgent(limits: readonly SshLimits[]): boolean {
  return limits.some(({ keygrips, withoutGpg }) => keygrips !== undefined || withoutGpg === true);
}

function changing(): BridgeError {
  return new BridgeError('SSH_AGENT_MISSING', {
    what: 'the ssh-agent can not be used now',
    why: 'its socket is being replaced, and which of its keys are granted depends on what it is',
    fix: 'Try again.',
  });
}

/** Whether the comment of a key says something. */
export function hasComment({ comment }: Identity): boolean {
  const text = comment.toString().trim();
  return text !== '' && text !== NO_COMMENT;
}

/** The comment of a key, or its fingerprint. */
function shownIdentity(identity: Identity): string {
  return hasComment(identity) ? printable(identity.comment, NAME_CHARACTERS) : fingerprint(identity.blob);
}
