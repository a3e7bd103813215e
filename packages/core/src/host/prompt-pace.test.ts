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
  it('does not take a use whose client owes data for one that waits for a person, and counts it all the same', async () => {
    const prompts = pace();
    const open = use(prompts);
    expect(prompts.isHeldByClients).toBe(false);
    open.turn!.awaitsClient(true);
    expect(prompts.isHeldByClients).toBe(true);
    await vi.advanceTimersByTimeAsync(60_000);
    const quick = Array.from({ length: 7 }, () => use(prompts));
    expect(quick.filter(({ turn }) => turn)).toHaveLength(7);
    expect(prompts.isHeldByClients).toBe(false);
    for (const { turn } of quick) turn!.awaitsClient(true);
    // There are no more than if all of them were with the agent.
    const next = use(prompts);
    expect(next.turn).toBeUndefined();
    expect(prompts.isHeldByClients).toBe(true);
    // Once the data is there it may wait for a person, from then on.
    for (const { turn } of quick) turn!.leave('other');
    await settle();
    expect(next.turn).toBeDefined();
    next.turn!.leave('ok');
    open.turn!.awaitsClient(false);
    expect(isAtOnce(prompts)).toBe(true);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(isAtOnce(prompts)).toBe(false);
  });

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

  it('forgets those that left before their turn', async () => {
    const prompts = pace();
    const first = use(prompts);
    await vi.advanceTimersByTimeAsync(1_000);
    const gone = new AbortController();
    const left = Array.from({ length: 10 }, () => prompts.enter('', () => gone.signal) as Promise<Turn>);
    const second = use(prompts);
    expect(prompts.waiting).toBe(11);
    gone.abort();
    expect(prompts.waiting).toBe(1);
    // Whoever waits for a turn that is not needed any more may end it like any other.
    for (const turn of await Promise.all(left)) turn.leave('cancelled');
    expect(second.turn).toBeUndefined();
    first.turn!.leave('ok');
    await settle();
    expect(second.turn).toBeDefined();
    expect(isAtOnce(prompts)).toBe(true);
  });

  it('waits behind two that clients have left, until the agent is done with one of them', async () => {
    const prompts = pace();
    const [first, second] = [use(prompts), use(prompts)];
    first.turn!.leave('left');
    const third = use(prompts);
    expect(third.turn).toBeDefined();
    second.turn!.leave('left');
    const fourth = use(prompts);
    third.turn!.leave('ok');
    await settle();
    expect(fourth.turn).toBeUndefined();
    first.turn!.leave('ok');
    first.turn!.leave('ok');
    await settle();
    expect(fourth.turn).toBeDefined();
  });

  it('does not take a use of another key for a change of mind', async () => {
    const prompts = pace();
    const cancel = async (name: string) => (await prompts.enter(name)).leave('cancelled');
    await cancel('locked');
    (await prompts.enter('open')).leave('ok');
    await cancel('locked');
    const other = prompts.enter('open');
    expect(other).toBeInstanceOf(Promise);
    await vi.advanceTimersByTimeAsync(5_100);
    (await other).leave('ok');
    (await prompts.enter('locked')).leave('ok');
    await cancel('locked');
    expect(isAtOnce(prompts)).toBe(true);
  });

  it('forgets cancels after a while', async () => {
    const prompts = pace();
    use(prompts).turn!.leave('cancelled');
    await vi.advanceTimersByTimeAsync(16 * 60_000);
    expect([isAtOnce(prompts), isAtOnce(prompts)]).toEqual([true, true]);
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
