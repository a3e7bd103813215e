import { resolve } from 'node:path';
import { jsonLine, printableValue } from '@gpg-bridge/core/text/escape';
import { addRule, removeRule } from '../auto/rules.ts';
import { autoLogPath, runningPid, runRules } from '../auto/runner.ts';
import {
  composeSelector,
  labelSelector,
  nameSelector,
  type Selector,
  selectorName,
  selectorWords,
  WrongSelector,
} from '../auto/selector.ts';
import { checkKeyChoice, checkOptions, withDeadline } from '../bridge-options.ts';
import { LogFile } from '../daemon/log-file.ts';
import { Manager } from '../manager/manager.ts';
import { pasteable } from '../targets/shell-quote.ts';
import { bridgeCount } from '../terminal/format.ts';
import { approveWaiting, listRules, unknownRule } from './auto-rules.ts';
import { install, uninstall } from './auto-service.ts';
import { bridgeOptions, textFlag } from './flags.ts';
import { usage } from './parse.ts';
import { signalStatus } from './signals.ts';
import type { ParsedCommand } from './specs.ts';

/** How long what is being done may take when it is told to end. */
const ENDING_MS = 3_000;

const VERBS: Readonly<Record<string, (command: ParsedCommand) => Promise<number>>> = {
  add,
  list: listRules,
  remove,
  approve: approveWaiting,
  run: runUntilEnded,
  install,
  uninstall,
};

/** Keeps rules by which containers get bridges, and brings those up. */
export async function run({ operands: [verb = '', ...operands], ...rest }: ParsedCommand): Promise<number> {
  return VERBS[verb]!({ ...rest, operands });
}

async function add(command: ParsedCommand): Promise<number> {
  const { flags } = command;
  const selector = selectorOf(command);
  const options = bridgeOptions('auto', flags);
  checkKeyChoice(options);
  checkOptions(options);
  withDeadline(options); // throws for what is no time
  const { GNUPGHOME } = process.env;
  // A service has none of a person's variables; which keys are meant is settled here.
  const settled = GNUPGHOME ? { gnupgHome: resolve(GNUPGHOME), ...options } : options;
  const { rule: kept, isNew } = await addRule(selector, {
    options: settled,
    ...(flags.trust === true ? { trust: true } : {}),
  });
  const { trust } = kept;
  const { user } = kept.options;
  const rule = selectorName(selector);
  // Not all that the rule says: a person may have given some of it back by name.
  const { held, failures } = isNew
    ? { held: 0, failures: [] }
    : await new Manager().keepToRule(rule, { ...settled, ...(user === undefined ? {} : { user }) });
  const [first, ...others] = failures;
  for (const { message } of others) process.stderr.write(`gpg-bridge: ${message}\n`);
  if (flags.json) {
    if (first) throw first;
    process.stdout.write(
      `${jsonLine({ rule, result: isNew ? 'new' : 'changed', trust, options: settled })}\n`,
    );
    return 0;
  }
  const lines = [`The rule ${printableValue(rule)} ${isNew ? 'is kept' : 'was changed'}.`];
  if (held > 0) lines.push(`What it takes away holds at once for ${bridgeCount(held)} that it brought up.`);
  if (!trust) lines.push('New images and project directories wait for: gpg-bridge auto approve');
  if ((await runningPid()) === undefined) {
    lines.push('Nothing watches the engines yet: gpg-bridge auto install, or gpg-bridge auto run');
  }
  process.stdout.write(`${lines.join('\n')}\n`);
  if (first) throw first;
  return 0;
}

async function remove(command: ParsedCommand): Promise<number> {
  const selector = selectorOf(command);
  const rule = selectorName(selector);
  if (!(await removeRule(rule))) throw unknownRule(rule);
  process.stdout.write(
    command.flags.json
      ? `${jsonLine({ rule, result: 'removed' })}\n`
      : `The rule ${pasteable(selectorWords(selector))} is removed. Bridges that it brought up stay until their containers end.\n`,
  );
  return 0;
}

/** The containers that the words of `add` and `remove` mean. */
function selectorOf({ operands: [pattern], flags }: ParsedCommand): Selector {
  const readers = [
    [pattern, nameSelector],
    [textFlag(flags, 'compose'), composeSelector],
    [textFlag(flags, 'label'), labelSelector],
  ] as const;
  const given = readers.filter(([text]) => text !== undefined);
  const [[text, read] = []] = given;
  if (text === undefined || read === undefined || given.length > 1) {
    throw usage('auto', 'a rule has one of NAME-PATTERN, --compose PROJECT and --label KEY=VALUE');
  }
  try {
    return read(text);
  } catch (error) {
    if (error instanceof WrongSelector) throw usage('auto', error.message);
    throw error;
  }
}

async function runUntilEnded({ flags }: ParsedCommand): Promise<number> {
  const ending = new AbortController();
  let status = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // A service that is told to end has not failed.
      if (signal === 'SIGINT') status = signalStatus(signal);
      ending.abort();
      setTimeout(() => process.exit(status), ENDING_MS).unref();
    });
  }
  const file = new LogFile(autoLogPath());
  await runRules({
    signal: ending.signal,
    verbose: flags.verbose === true,
    log: (message, level) => {
      file.say(message, level);
      process.stderr.write(`gpg-bridge: ${printableValue(message)}\n`);
    },
  });
  return status;
}
