import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { wrong } from './programs.mjs';

/** An agent is started by the next client, a target is attached to after half a second. */
const RECOVERS_MS = 30_000;
/** How long what failed because of a disturbance may take to succeed. */
const PATIENCE_MS = 30_000;

/** On a machine that has other things to do; what takes longer has got no answer. */
const ANSWER_MS = 60_000;

/** Rejects for something that never comes to its end. */
async function bounded(something) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(wrong(`nothing came within ${ANSWER_MS / 1_000} s`)), ANSWER_MS);
  });
  try {
    return await Promise.race([something, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** What is done to agents and targets, and what may fail because of it. */
export class Disturbances {
  counts = new Map();
  /** How many have begun; one that goes on is not over. */
  #begun = 0;
  #over = 0;

  constructor(machine, say) {
    this.machine = machine;
    this.say = say;
  }

  /** Does something; what fails while something was disturbed is done again. */
  async during(work) {
    let end = performance.now() + PATIENCE_MS;
    let begun = this.#begun;
    for (let again = 0; ; again++) {
      const wasOver = this.#over;
      const wasDisturbed = this.#begun > this.#over;
      try {
        await bounded(work());
        return { again };
      } catch (error) {
        const isDisturbed = wasDisturbed || this.#begun > wasOver;
        if (error.isWrong || !isDisturbed) throw error;
        // What takes long may be disturbed again and again; its time counts from the last one.
        if (this.#begun > begun) end = performance.now() + PATIENCE_MS;
        begun = this.#begun;
        if (performance.now() > end) throw new Error(`it did not recover: ${error.message}`);
        await delay(100);
      }
    }
  }

  /** Disturbs something, and returns when everything works again. */
  async next() {
    const { machine } = this;
    const bridge = machine.anyBridge();
    const kinds = [
      ['gpg-agent killed', () => this.#agentPid(), (pid) => process.kill(pid, 'SIGKILL')],
      ['gpg-agent ended', () => this.#agentPid(), () => machine.home.killAgent()],
      ['target killed', () => machine.serverOf(bridge), (pid) => process.kill(pid, 'SIGKILL')],
      ['target ended', () => machine.serverOf(bridge), (pid) => process.kill(pid, 'SIGTERM')],
    ];
    const [name, find, disturb] = kinds[this.#begun % kinds.length];
    this.say(`${name}: ${bridge.runtime}`);
    this.#begun++;
    const pid = await find();
    if (pid > 0) {
      await disturb(pid);
      await untilGone(pid);
    }
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    const end = performance.now() + RECOVERS_MS;
    for (const one of machine.bridges) {
      while (!(await this.#works(one))) {
        if (performance.now() > end) throw new Error(`the bridge to ${one.name} did not recover`);
        await delay(100);
      }
    }
    this.#over = this.#begun;
  }

  async #agentPid() {
    const env = this.machine.home.env;
    const asked = await this.machine.support.run(
      'gpg-connect-agent',
      ['--no-autostart', 'GETINFO pid', '/bye'],
      { env },
    );
    return Number(/^D (\d+)/m.exec(asked.stdout.toString())?.[1]);
  }

  /** A program in the target gets an answer of the agent, through the bridge. */
  async #works({ env, pid }) {
    const { support } = this.machine;
    const asked = await support.run('gpg-connect-agent', ['--no-autostart', 'GETINFO version', '/bye'], {
      env,
    });
    return /^D 2\./m.test(asked.stdout.toString()) && this.machine.serverOf({ pid }) !== undefined;
  }
}

/** Waits for the end of a process: what it still does before that is part of the disturbance. */
async function untilGone(pid) {
  const late = performance.now() + RECOVERS_MS;
  while (!isGone(pid)) {
    if (performance.now() > late) throw new Error(`process ${pid} did not end`);
    await delay(10);
  }
}

function isGone(pid) {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return true;
  }
}
