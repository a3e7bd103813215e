import { setTimeout as delay } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import type { Terminal } from '@gpg-bridge/test-support/terminal';

/** What is typed in the recording, line by line. */
export const TYPED: readonly string[] = [
  "docker exec my-container git commit -S -m 'Hello'",
  "gpg-bridge exec my-container -- git commit -S -m 'Hello'",
  'docker exec my-container git verify-commit HEAD 2>&1 | grep Good',
  'gpg-bridge status',
];

/** The size of its terminal, in characters: wide enough that no line is broken, however long something took. */
export const SIZE = { columns: 114, rows: 17 };

/** The prompt; a line that ends so waits for somebody to type. */
export const PROMPT = '$ ';

/** A screen, with the codes of its styles, and for how long it is shown. */
export interface Frame {
  screen: string;
  ms: number;
}

const TYPING_MS = 40;
const LOOK_MS = 30;
/** A slow machine makes no slow recording: nothing that moves takes longer, or shorter. */
const [LEAST_MS, MOST_MS] = [60, 500];
const AFTER_TYPING_MS = 500;
const AFTER_OUTPUT_MS = 2_200;
const AT_END_MS = 6_000;
const PATIENCE_MS = 60_000;

/** Types the lines into a shell, one after the other, and returns what its screen shows meanwhile. */
export async function record(terminal: Terminal): Promise<Frame[]> {
  const frames: Frame[] = [];
  const show = (screen: string, ms: number) => {
    const last = frames.at(-1);
    if (last?.screen === screen) last.ms = Math.max(last.ms, ms);
    else frames.push({ screen, ms });
  };
  show(await terminal.styledScreen(), AFTER_TYPING_MS);
  for (const [index, line] of TYPED.entries()) {
    for (const [at, character] of [...line].entries()) {
      await terminal.type(character);
      await terminal.shows(endsWith(`${PROMPT}${line.slice(0, at + 1)}`));
      show(await terminal.styledScreen(), at + 1 === line.length ? AFTER_TYPING_MS : TYPING_MS);
    }
    await terminal.press('Enter');
    let changedAt = Date.now();
    for (const end = changedAt + PATIENCE_MS; ; await delay(LOOK_MS)) {
      const screen = await terminal.styledScreen();
      const isOver = prompts(screen) === index + 2;
      if (screen !== frames.at(-1)?.screen) {
        const last = frames.at(-1)!;
        if (last.ms === 0) last.ms = inSteps(Math.min(Math.max(Date.now() - changedAt, LEAST_MS), MOST_MS));
        changedAt = Date.now();
        frames.push({ screen, ms: isOver ? AFTER_OUTPUT_MS : 0 });
      }
      if (isOver) break;
      if (Date.now() > end) throw new Error(`${line} has not ended:\n${screen}`);
    }
  }
  frames.at(-1)!.ms = AT_END_MS;
  return frames;
}

/** In the steps that the image counts in, so that nothing is shown a moment too late. */
function inSteps(ms: number): number {
  return Math.round(ms / 10) * 10;
}

/** How many prompts a screen has; tmux leaves out the blanks at the end of a line. */
function prompts(screen: string): number {
  const lines = stripVTControlCharacters(screen).split('\n');
  return lines.filter((line) => line.startsWith(PROMPT) || line === PROMPT.trimEnd()).length;
}

/** Matches a screen whose last words are these, wherever the terminal has broken the line. */
function endsWith(text: string): RegExp {
  const escaped = [...text.trimEnd()].map((character) => character.replace(/[\\^$.*+?()[\]{}|/]/, '\\$&'));
  return new RegExp(`${escaped.join('\\n?')}\\s*$`);
}
