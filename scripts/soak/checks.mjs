/** V8 asks for pages as it pleases: as much as this is no leak, however long it takes. */
const MEMORY_RATIO = 1.3;
const MEMORY_KIB = 6 * 1024;
/** So many are printed. */
const SHOWN = 20;

/** What was done, and what was not as it has to be. */
export class Checks {
  #counts = new Map();
  #violations = [];
  #results = [];

  /** One thing went well; `again` is how often it had to be tried. */
  count(name, { again }) {
    const counted = this.#counts.get(name) ?? { done: 0, again: 0 };
    counted.done += 1;
    counted.again += again;
    this.#counts.set(name, counted);
  }

  violation(text) {
    this.#violations.push(text);
  }

  /** Compares two measurements of the bridges, each by its name. */
  compare(before, after) {
    for (const [name, was] of before) {
      const is = after.get(name);
      this.#check(`${name}: open sessions`, is.open === 0 && !is.waiting, `${is.open} are open`);
      for (const side of ['daemon', 'server']) {
        const [old, now] = [was[side], is[side]];
        this.#check(
          `${name}: descriptors of the ${side}`,
          now.descriptors <= old.descriptors,
          `${old.descriptors} before, ${now.descriptors} after`,
        );
        this.#check(
          `${name}: memory of the ${side}`,
          now.residentKiB <= old.residentKiB * MEMORY_RATIO + MEMORY_KIB,
          `${mib(old.residentKiB)} before, ${mib(now.residentKiB)} after`,
        );
      }
    }
  }

  /** What is left when every bridge is down. */
  left(things) {
    this.#check('nothing is left', things.length === 0, things.join(', ') || 'nothing');
  }

  summary(seconds, disturbances) {
    const wrong = this.#violations.length;
    this.#check('no answer was lost or wrong', wrong === 0, `${wrong} violations`);
    for (const name of ['sign', 'decrypt', 'ssh', 'die', 'leave early', 'stop reading', 'half-close']) {
      this.#check(`done: ${name}`, (this.#counts.get(name)?.done ?? 0) > 0, 'at least once');
    }
    const failed = this.#results.filter(({ ok }) => !ok);
    const lines = [
      `soak: ${seconds} s`,
      ...[...this.#counts].map(([name, { done, again }]) => `  ${name}: ${done} done, ${again} tried again`),
      ...[...disturbances].map(([name, count]) => `  ${name}: ${count} times`),
      ...this.#results.map(({ name, ok, detail }) => `  ${ok ? '✓' : '✗'} ${name}: ${detail}`),
      ...this.#violations.slice(0, SHOWN).map((text) => `  ! ${text.slice(0, 1_000)}`),
      failed.length === 0 ? 'soak: all is well' : `soak: ${failed.length} checks failed`,
    ];
    const numTotalTests = this.#results.length;
    const numFailedTests = failed.length;
    const numPassedTests = numTotalTests - numFailedTests;
    return { text: `${lines.join('\n')}\n`, tests: { numTotalTests, numPassedTests, numFailedTests } };
  }

  #check(name, ok, detail) {
    this.#results.push({ name, ok, detail });
  }
}

const mib = (kib) => `${(kib / 1024).toFixed(1)} MiB`;
