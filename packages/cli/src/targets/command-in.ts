import { shellQuote } from './shell-quote.ts';
import type { Target } from './target.ts';

/** What a person types on this machine to run a script of sh in a target, fit to be pasted into a shell. */
export function commandIn(target: Pick<Target, 'kind' | 'id' | 'shell'>, script: string): string {
  const quoted = shellQuote(script);
  const shell = target.shell ?? 'sh';
  switch (target.kind) {
    case 'local':
      return `GNUPGHOME=${shellQuote(target.id)} sh -c ${quoted}`;
    case 'exec':
      return `${target.id} sh -c ${quoted}`;
    case 'ssh':
      return `${shell} ${quoted}`;
    case 'wsl':
      return `${shell} -- sh -c ${quoted}`;
    default:
      // Engines and kubectl: the same as for a shell, without a terminal.
      return `${shell.replace(' -it ', ' ')} -c ${quoted}`;
  }
}
