import type { BridgeOptions } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import type { HostFacts, Looked } from './host-facts.ts';
import type { LineFacts } from './line-facts.ts';
import type { TargetFacts } from './target-facts.ts';

/** Commands that a person can type, about the target at hand. */
export interface Words {
  /** The target as a person names it. */
  target: string;
  /** A command of gpg-bridge for the target: `gpg-bridge up box --user dev`. */
  bridge(command: string, ...options: string[]): string;
  /** A script of sh that runs in the target. */
  there(script: string): string;
}

/** Everything that was found out; what could not be reached is absent. */
export interface Facts {
  host: HostFacts;
  /** Every bridge, where no target was named. */
  bridges?: readonly DaemonStatus[];
  words?: Words;
  /** The bridge to the target, after a look at its sockets; undefined: there is none. */
  bridge?: Looked<DaemonStatus | undefined>;
  /** The restrictions that are stored for the target, with the user who was named; undefined: none. */
  stored?: Looked<BridgeOptions | undefined>;
  line?: Looked<LineFacts>;
  target?: TargetFacts;
}
