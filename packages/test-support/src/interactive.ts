import { expect } from 'vitest';
import type { Person } from './cli.ts';
import { Terminal } from './terminal.ts';

/** The terminal here as it is when no program uses it in a mode of its own. */
const ORDINARY = /[^-]icanon.*[^-]echo /s;

/** A prompt below the line that was entered: the one it was entered at may still be the last thing on the screen. */
const PROMPT_AFTER_OUTPUT = /gpg-bridge shell .*\n[\s\S]*[#$>] *$/;

/** A size has a way to go, and nothing tells when it has arrived. */
function untilSizeIs(size: string): string {
  return `until [ "$(stty size)" = "${size}" ]; do sleep 0.1; done`;
}

/**
 * Uses a shell in a target as a person at a terminal does: its size, and that when it changes, keys that interrupt
 * and stop, and the exit status. `words` name the target on the command line; `first` is done in that shell before all of it.
 */
export async function useShell(
  person: Person,
  words: string,
  first?: (terminal: Terminal) => Promise<void>,
): Promise<void> {
  const terminal = await Terminal.of(person);
  if (first) await terminal.useForPinentry();
  await terminal.enter(`gpg-bridge shell ${words}`, PROMPT_AFTER_OUTPUT);
  await first?.(terminal);
  await terminal.enter(`PS1='there> '; ${untilSizeIs('50 150')}; echo size 'is' told`, /^size is told$/m);
  await terminal.resize(90, 30);
  await terminal.enter(`${untilSizeIs('30 90')}; echo change 'is' told`, /^change is told$/m);
  await terminal.enter('echo begun; sleep 1000', /^begun$/m);
  await terminal.press('C-c');
  await terminal.enter('echo interrupted: $?', /^interrupted: 130$/m);
  // One that says so itself has the terminal by then: between two commands of a list nobody would stop.
  await terminal.enter("sh -c 'echo again; exec sleep 1000'", /^again$/m);
  await terminal.press('C-z');
  await terminal.shows(/Stopped +sh -c/);
  await terminal.enter('fg', /\nsh -c [^\n]*exec sleep 1000'?$/);
  await terminal.press('C-c');
  await terminal.enter('echo ended: $?', /^ended: 130$/m);
  await terminal.enter('exit 7', /^there> exit 7\n[\s\S]*[#$>] *$/m);
  const screen = await terminal.enter('echo status: $?; stty -a', /^status: 7$[\s\S]*echo/m);
  expect(screen).toMatch(ORDINARY);
}

/** Interrupts a command in a target with Ctrl-C; the terminal here is as before. */
export async function interruptCommand(person: Person, words: string): Promise<void> {
  const terminal = await Terminal.of(person);
  await terminal.enter(`gpg-bridge exec ${words} -- sh -c 'echo begun; exec sleep 1000'`, /^begun$/m);
  await terminal.press('C-c');
  await terminal.shows(/\^C\n?.*[#$>] *$/);
  const screen = await terminal.enter('echo status: $?; stty -a', /^status: 130$[\s\S]*echo/m);
  expect(screen).toMatch(ORDINARY);
}
