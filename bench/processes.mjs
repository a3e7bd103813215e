import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

function read(path) {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return ''; // processes come and go
  }
}

function statusField(pid, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(read(`/proc/${pid}/status`))?.[1] ?? 0);
}

function processIds() {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
}

/** Whether a process is there and not just waiting to be reaped. */
export function isAlive(pid) {
  return /^State:\s+[^ZX]/m.test(read(`/proc/${pid}/status`));
}

/** Resolves when a process is gone, with the time it took in milliseconds. */
export async function untilGone(pid, timeoutMs = 30_000) {
  const start = performance.now();
  while (isAlive(pid)) {
    if (performance.now() - start > timeoutMs) throw new Error(`process ${pid} is still there`);
    await delay(1);
  }
  return performance.now() - start;
}

/** A process and everything below it. */
export function tree(root) {
  const children = new Map();
  for (const pid of processIds()) {
    const parent = statusField(pid, 'PPid');
    children.set(parent, [...(children.get(parent) ?? []), Number(pid)]);
  }
  const found = [];
  for (let next = [Number(root)]; next.length > 0; next = next.flatMap((pid) => children.get(pid) ?? [])) {
    found.push(...next);
  }
  return found;
}

/** Resident memory in KiB. */
export function residentKiB(pids) {
  return pids.reduce((sum, pid) => sum + statusField(pid, 'VmRSS'), 0);
}

/** Context switches of all threads, of one's own accord or not. */
export function contextSwitches(pids) {
  let sum = 0;
  for (const pid of pids) {
    for (const thread of threads(pid)) {
      for (const [, count] of read(`/proc/${pid}/task/${thread}/status`).matchAll(
        /ctxt_switches:\s+(\d+)/g,
      )) {
        sum += Number(count);
      }
    }
  }
  return sum;
}

function threads(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** Nanoseconds that all threads of a process have run, by the scheduler's own count. */
function cpuNs(pid) {
  let sum = 0;
  for (const thread of threads(pid))
    sum += Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(' ')[0]);
  return sum;
}

/** A process as a person would call it: the program, and for a runtime what it runs. */
function nameOf(pid) {
  const argv = read(`/proc/${pid}/cmdline`).split('\0');
  const program = (argv[0] ?? '').replace(/^.*\//, '').replace(/:.*$/, '').trim();
  if (/gpg-bridge socket server/.test(argv.join(' '))) return 'socket server';
  if (argv.includes('serve') && /gpg-bridge\.js/.test(argv[1] ?? '')) return 'gpg-bridge daemon';
  if (/^(node|perl)/.test(program) && /GPG-BRIDGE|CONFIG/.test(argv.join(' '))) return 'socket server';
  return program;
}

/** Processes that belong to the namespaces of a container, or that serve it by its id. */
export function ofContainer({ pid, id }) {
  const own = link(`/proc/${pid}/ns/pid`);
  return processIds()
    .filter((other) => link(`/proc/${other}/ns/pid`) === own || read(`/proc/${other}/cmdline`).includes(id))
    .map(Number);
}

function link(path) {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/**
 * Microseconds of processor time, by process name, that `work` takes. The processes are listed before and
 * after, since some come with a connection.
 */
export async function cpuDuring(list, work) {
  const before = new Map();
  for (const pid of await list()) before.set(pid, cpuNs(pid));
  await work();
  const used = new Map();
  for (const pid of new Set(await list())) {
    const name = nameOf(pid);
    const us = (cpuNs(pid) - (before.get(pid) ?? 0)) / 1000;
    if (name && us > 0) used.set(name, (used.get(name) ?? 0) + us);
  }
  return used;
}

/** Waits until there is a socket, or the process that is to make it has ended. */
export async function untilSocket(path, child) {
  const gone = failed(child);
  gone.catch(() => {}); // later it is ended on purpose
  while (!existsSync(path)) await Promise.race([gone, delay(10)]);
}

/** Rejects when a process ends, whatever with. */
export function failed(child) {
  return once(child, 'close').then(([status]) => {
    throw new Error(`${child.spawnfile} ended with ${status}`);
  });
}

/** Ends a process. */
export async function ended(child) {
  const closed = once(child, 'close');
  child.kill();
  await closed;
}
