import { commands } from './parts/commands.mjs';
import { distance } from './parts/distance.mjs';
import { extensionHosts } from './parts/extension-hosts.mjs';
import { firstUp } from './parts/first-up.mjs';
import { flowControl } from './parts/flow-control.mjs';
import { gitCommit } from './parts/git-commit.mjs';
import { hostile } from './parts/hostile.mjs';
import { idle } from './parts/idle.mjs';
import { leaks } from './parts/leaks.mjs';
import { lifecycle } from './parts/lifecycle.mjs';
import { linear } from './parts/linear.mjs';
import { login } from './parts/login.mjs';
import { roundTrips } from './parts/round-trips.mjs';
import { serverStart } from './parts/server-start.mjs';
import { sessions } from './parts/sessions.mjs';
import { slowCommands } from './parts/slow-commands.mjs';
import { throughput } from './parts/throughput.mjs';
import { windowsHost } from './parts/windows-host.mjs';

/** What is measured, in order. Each part gives data, and knows how to show it. */
export const PARTS = [
  gitCommit,
  distance,
  windowsHost,
  login,
  slowCommands,
  roundTrips,
  throughput,
  linear,
  flowControl,
  sessions,
  leaks,
  idle,
  hostile,
  commands,
  firstUp,
  serverStart,
  extensionHosts,
  lifecycle,
];
