import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { PromptPace, type Turn } from './prompt-pace.ts';

function pace() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  return new PromptPace();
}

/** A use, and whether its turn has come. */
function use(of: PromptPace): { turn: Turn | undefined } {
  const state: { turn: Turn | undefined } = { turn: undefined };
  const entered = of.enter();
  if (entered instanceof Promise) {
    void entered.then((turn) => {
      state.turn = turn;
    });
  } else state.turn = entered;
  return state;
}

const settle = () => vi.advanceTimersByTimeAsync(0);

/** Whether a use begins at once. */
const isAtOnce = (pace: PromptPace) => !(pace.enter() instanceof Promise);

describe('a pace where a person is asked about every use', () => {
  it('has one at a time', () => {
    const pace = new PromptPace({ maxAtOnce: 1 });
    expect(isAtOnce(pace)).toBe(true);
    expect(isAtOnce(pace)).toBe(false);
  });
});

describe('the pace of prompts', () => {
  it('lets quick uses go side by side, a few at once', async () => {
    const prompts = pace();
    const uses = Array.from({ length: 20 }, () => use(prompts));
    expect(uses.filter(({ turn }) => turn)).toHaveLength(8);
    uses[0]!.turn!.leave('ok');
    await settle();
    expect(uses.filter(({ turn }) => turn)).toHaveLength(9);
  });

  it('keeps others back while one waits for a person', async () => {
    const prompts = pace();
    const first = use(prompts);
    await vi.advanceTimersByTimeAsync(1_000);
    const second = use(prompts);
    expect(second.turn).toBeUndefined();
    expect(prompts.waiting).toBe(1);
    first.turn!.leave('ok');
    await settle();
    expect(second.turn).toBeDefined();
  });

  it('goes one at a time after a cancel, and makes a person who cancels twice wait longer each time', async () => {
    const prompts = pace();
    use(prompts).turn!.leave('cancelled');
    const [second, third] = [use(prompts), use(prompts)];
    expect([second.turn !== undefined, third.turn !== undefined]).toEqual([true, false]);
    second.turn!.leave('cancelled');
    await vi.advanceTimersByTimeAsync(4_900);
    expect(third.turn).toBeUndefined();
    await vi.advanceTimersByTimeAsync(200);
    third.turn!.leave('cancelled');
    const fourth = use(prompts);
    await vi.advanceTimersByTimeAsync(9_900);
    expect(fourth.turn).toBeUndefined();
    await vi.advanceTimersByTimeAsync(200);
    fourth.turn!.leave('ok');
    expect(use(prompts).turn).toBeDefined();
  });
});
