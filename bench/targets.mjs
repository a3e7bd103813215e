import { growth } from './parts/linear.mjs';
import { ratio, table } from './tables.mjs';

const at = (rows, id, what) => rows?.[id]?.[what]?.median;
const divide = (a, b) => (a === undefined || b === undefined ? undefined : a / b);

/** The median of one quantity beside that of another path, by name. */
function beside(rows, what, others, reference, whatOther = what) {
  return Object.fromEntries(
    Object.entries(others).map(([name, id]) => [
      name,
      divide(at(rows, id, what), at(rows, reference ?? id, whatOther)),
    ]),
  );
}

const LOCAL = { Node: 'local-node', Perl: 'local-perl' };
const CONTAINER = { Node: 'api-node', Perl: 'api-perl' };
const SSH = { Node: 'ssh-node', Perl: 'ssh-perl' };
/** Each commit's time beside that with the container's own agent. */
function commits({ 'git-commit': { rows } = {} }, way, own = 'own') {
  return Object.fromEntries(
    Object.values(rows ?? {}).map((row) => [`${row.label}:`, divide(row[way]?.median, row[own]?.median)]),
  );
}

/** What a far machine takes through the bridge, beside `ssh -R`. */
function far({ distance: { rows } = {} }, id) {
  return { '': divide(rows?.[id]?.bridge.median, rows?.[id]?.['ssh-R'].median) };
}

/** Throughput beside that of `ssh -R`, in the direction that is slower. */
function streams({ throughput: { rows } = {} }, others) {
  const one = (id) =>
    rows?.[id] && rows['ssh-R']
      ? Math.min(rows[id].toClient / rows['ssh-R'].toClient, rows[id].toAgent / rows['ssh-R'].toAgent)
      : undefined;
  return Object.fromEntries(Object.entries(others).map(([name, id]) => [name, one(id)]));
}

/** Resident memory of the host's side at the end, beside what it was after an earlier step. */
function memory({ leaks: { rows } = {} }, paths, step) {
  return Object.fromEntries(
    Object.entries(paths).map(([name, id]) => [
      name,
      divide(rows?.[id]?.again.host, rows?.[id]?.[step].host),
    ]),
  );
}

/** Twice what version 0.1.0 reaches when it is measured in the same way (0.14 and 0.16), where every answer crosses. */
const SIGNATURES = { Node: 0.28, Perl: 0.32 };
/**
 * Limits that were set anew for what the bridge does now. A round trip that crosses carries whose turn it is, and is
 * looked up in the target first (0.9, 1.3, 1.6 and 1.2 before); a signature crosses twice instead of twelve times. What
 * `status` and `up` say of a bridge they have seen through its sockets (1.6 before, of a `node -e 0` that took three
 * times as long), and both ends of an idle one look now and then whether the other is there (0 before).
 */
const ROUND_TRIP = { local: 1.1, container: 1.9, ssh: 2.3, proxies: 1.3 };
const COMMIT = 1.15;
/**
 * Half of what `ssh -R` carries (1 before, which was never reached). Every byte becomes a character and a byte again, in new
 * memory each time, and how long that takes differs by half between runs on one machine.
 */
const STRINGS = 0.5;
const CHECKED = 2.2;
const HEARTBEATS = 10;
/** The bench's own reading of "linear". Twice the bytes may take a little more than twice the time: the caches are only so large. */
const LINEAR = 1.3;
/**
 * The bench's own reading of "where it was". V8 does not give back every page, and asks for some more as it pleases: the
 * proxies for 12 MiB within the first ten thousand connects. What all of them take is looked at behind that, too.
 */
const SAME_MEMORY = 1.1;

/**
 * What the bridge has to reach. `values` gives the measured figures by name, `limit` is the most they may
 * be (with `least`: the least), and `floor` the same of the least bridges (floors.mjs), where there are any.
 */
const TARGETS = [
  {
    what: 'over 50 ms: `gpg --clear-sign` : through `ssh -R`',
    limit: 0.2,
    values: (results) => far(results, '25 sign'),
  },
  {
    what: 'over 50 ms: `gpg --decrypt` : through `ssh -R`',
    limit: 0.35,
    values: (results) => far(results, '25 decrypt'),
  },
  {
    what: 'over 50 ms: `git commit -S` : through `ssh -R`',
    limit: 0.25,
    values: (results) => far(results, '25 commit'),
  },
  {
    what: 'over 0 ms: `gpg --clear-sign` : through `ssh -R`',
    limit: 1,
    values: (results) => far(results, '0 sign'),
  },
  {
    what: 'over 50 ms: an ssh login : through `ssh -A`',
    limit: 1,
    values: ({ login: { rows } = {} }) => ({ '': divide(rows?.bridge.median, rows?.['ssh-A'].median) }),
  },
  {
    what: 'VS Code, commands that take 25 ms each way: a signature : without answering ahead',
    limit: 0.2,
    values: ({ 'slow-commands': { rows } = {} }) => ({
      '': divide(rows?.ahead.median, rows?.['no-ahead'].median),
    }),
  },
  ...Object.entries(SIGNATURES).map(([name, limit]) => ({
    what: `container, ${name} server: signatures a second : gpg-agent's own, of one client`,
    limit,
    least: true,
    values: ({ 'round-trips': { rows } = {} }) => ({
      '': divide(at(rows, 'direct', 'sign'), at(rows, CONTAINER[name], 'sign')),
    }),
  })),
  {
    what: 'proxies in one process: round trip : `socat`',
    limit: ROUND_TRIP.proxies,
    values: ({ 'round-trips': { rows } = {} }) => beside(rows, 'roundTrip', { '': 'proxies' }, 'socat'),
  },
  {
    what: '`local:`: round trip : `ssh -R`',
    limit: ROUND_TRIP.local,
    values: ({ 'round-trips': { rows } = {} }) => beside(rows, 'roundTrip', LOCAL, 'ssh-R'),
    floor: ({ 'round-trips': { rows } = {} }, kind) =>
      beside(rows, 'roundTrip', { '': `floor-local${kind}` }, 'ssh-R'),
  },
  {
    what: '`local:`: connect to BYE : `ssh -R`',
    limit: 1.2,
    values: ({ 'round-trips': { rows } = {} }) => beside(rows, 'connect', LOCAL, 'ssh-R'),
    floor: ({ 'round-trips': { rows } = {} }, kind) =>
      beside(rows, 'connect', { '': `floor-local${kind}` }, 'ssh-R'),
  },
  {
    what: 'container: round trip : bare echo through `docker exec`',
    limit: ROUND_TRIP.container,
    values: ({ 'round-trips': { rows } = {} }) => beside(rows, 'roundTrip', CONTAINER, 'exec-echo'),
    floor: ({ 'round-trips': { rows } = {} }, kind) =>
      beside(rows, 'roundTrip', { '': `floor-api${kind}` }, 'exec-echo'),
  },
  {
    what: 'container: connect to BYE : round trip there',
    limit: 4,
    values: ({ 'round-trips': { rows } = {} }) => beside(rows, 'connect', CONTAINER, undefined, 'roundTrip'),
    floor: ({ 'round-trips': { rows } = {} }, kind) =>
      beside(rows, 'connect', { '': `floor-api${kind}` }, undefined, 'roundTrip'),
  },
  {
    what: '`ssh:`: round trip : `ssh -R`',
    limit: ROUND_TRIP.ssh,
    values: ({ 'round-trips': { rows } = {} }) => beside(rows, 'roundTrip', SSH, 'ssh-R'),
    floor: ({ 'round-trips': { rows } = {} }, kind) =>
      beside(rows, 'roundTrip', { '': `floor-ssh${kind}` }, 'ssh-R'),
  },
  {
    what: "`git commit -S` in a container, behind signatures: bridged : the container's own agent",
    limit: COMMIT,
    values: (results) => commits(results, 'bridged'),
    floor: (results, kind) => commits(results, `floor${kind}`),
  },
  {
    what: "`git commit -S` in a container, a bridge that has just come up: bridged : the container's own agent",
    limit: COMMIT,
    values: (results) => commits(results, 'started', 'started-own'),
  },
  {
    what: 'one large stream: MiB/s : `ssh -R`, the slower direction',
    limit: 1,
    least: true,
    values: (results) => streams(results, LOCAL),
    floor: (results, kind) => streams(results, { '': `floor-local${kind}` }),
  },
  {
    what: 'the same through VS Code’s commands, which carry strings',
    limit: STRINGS,
    least: true,
    values: (results) => streams(results, { proxies: 'proxies' }),
  },
  {
    what: 'time per MiB of 64 MiB : of 8 MiB',
    limit: LINEAR,
    values: ({ linear: { rows, sizes } = {} }) =>
      Object.fromEntries(
        Object.entries({ proxies: 'proxies', ...LOCAL }).map(([name, id]) => {
          const both = ['get', 'put'].map((mode) => rows?.[`${id} ${mode}`]).filter(Boolean);
          return [name, both.length > 0 ? Math.max(...both.map((row) => growth(row, sizes))) : undefined];
        }),
      ),
  },
  {
    what: 'one client that stops reading: 99th percentile of 50 others, with : without',
    limit: 1.5,
    values: ({ 'flow-control': { rows } = {} }) =>
      Object.fromEntries(
        Object.entries({ ...LOCAL, container: 'api-perl' }).map(([name, id]) => [
          name,
          divide(rows?.[id]?.with.p99, rows?.[id]?.without.p99),
        ]),
      ),
  },
  {
    what: '1,000 sessions: KiB of resident memory each, host',
    limit: 32,
    values: ({ sessions: { rows } = {} }) =>
      Object.fromEntries(
        Object.entries({ proxies: 'proxies', ...LOCAL, container: 'api-perl' }).map(([name, id]) => [
          name,
          rows?.[id]?.each,
        ]),
      ),
  },
  {
    what: 'resident memory after all round trips and connects : after the first thousand',
    limit: SAME_MEMORY,
    values: (results) => memory(results, LOCAL, 'first'),
  },
  {
    what: 'resident memory after all of them : before the second half of the connects',
    limit: SAME_MEMORY,
    values: (results) => memory(results, { 'proxies, small': 'proxies-small', ...LOCAL }, 'connects'),
  },
  {
    what: 'idle daemon, Engine API: resident MiB with its children',
    limit: 60,
    values: ({ idle: { rows } = {} }) => ({ '': divide(rows?.['api-perl']?.residentKiB, 1024) }),
  },
  {
    what: 'idle daemon: context switches more than an idle Node process',
    limit: HEARTBEATS,
    values: ({ idle: { rows } = {} }) => ({
      '': rows?.['api-perl'] && rows['api-perl'].switches - rows.node.switches,
    }),
  },
  {
    what: '`status` : `node -e 0`',
    limit: CHECKED,
    values: ({ commands: { rows } = {} }) => ({ '': divide(rows?.status.median, rows?.node.median) }),
  },
  {
    what: '`up` of a bridge that runs : `node -e 0`',
    limit: CHECKED,
    values: ({ commands: { rows } = {} }) => ({
      local: divide(rows?.['up-local']?.median, rows?.node.median),
      container: divide(rows?.['up-docker']?.median, rows?.node.median),
    }),
  },
  {
    what: 'first `up` of a Perl container : three bare `docker exec … true`',
    limit: 1.5,
    values: ({ 'first-up': { up, exec } = {} }) => ({ '': divide(up?.median, exec?.median) }),
  },
  {
    what: "the host's own `gpg --clear-sign` while a target does its worst : without",
    limit: 2,
    values: ({ hostile: { rows } = {} }) => eachLoad(rows, ({ gpg }) => gpg.ratio),
  },
  {
    what: "the host's own `ssh-add -l` then : without",
    limit: 2,
    values: ({ hostile: { rows } = {} }) => eachLoad(rows, ({ ssh }) => ssh.ratio),
  },
  {
    what: 'the most MiB that the daemon takes then',
    limit: 150,
    values: ({ hostile: { rows } = {} }) => eachLoad(rows, ({ peakMiB }) => peakMiB),
  },
];

/** A figure for each load of a hostile target. */
function eachLoad(rows = {}, figureOf) {
  return Object.fromEntries(Object.entries(rows).map(([load, row]) => [load, figureOf(row)]));
}

/** The least bridges, by the end of their candidates' ids. */
const LEAST = { 'least bridge in C': '', 'in Node and Perl': '-runtimes' };

/** The table of targets, each with what was measured, and what the least bridges reached in the same run. */
export function targetTable(results) {
  const given = Object.fromEntries(Object.entries(results).filter(([, { missing }]) => !missing));
  const figures = (of, kind) =>
    Object.entries(of?.(given, kind) ?? {}).filter(([, value]) => value !== undefined);
  const words = (all) => all.map(([name, value]) => `${name} ${figure(value)}`.trim()).join(', ');
  return table(
    ['', 'target', 'measured', '', ...Object.keys(LEAST)],
    TARGETS.map(({ what, limit, least, values, floor }) => {
      const measured = figures(values);
      const within = ([, value]) => (least ? value >= limit : value <= limit);
      return [
        what,
        `${least ? 'at least' : 'at most'} ${limit}`,
        words(measured) || 'not measured',
        measured.length === 0 ? '' : verdict(measured.filter(within).length, measured.length),
        ...Object.values(LEAST).map((kind) => words(figures(floor, kind))),
      ];
    }),
  );
}

function verdict(reached, all) {
  return reached === all ? 'met' : reached === 0 ? '**not met**' : '**met in part**';
}

function figure(value) {
  return Number.isInteger(value) ? String(value) : value >= 10 ? value.toFixed(1) : ratio(value);
}
