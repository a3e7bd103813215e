import { chmod, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { run, runOk } from '../process.ts';
import { kubernetesProgram } from './programs.ts';

/** How long a program in a cluster's network may take: kubectl itself waits for ever. */
const LIMIT_MS = 70_000;

/** A network of its own for clusters: a kubelet takes no loopback address, and fixed ports disturb nobody. */
export class ClusterNetwork {
  private constructor(readonly name: string) {}

  /** Makes one, named after a directory that is the test's own. */
  static async create(directory: string): Promise<ClusterNetwork> {
    const network = new ClusterNetwork(basename(directory));
    await runOk('ip', ['netns', 'add', network.name]);
    await network.runInside('ip', ['link', 'set', 'lo', 'up']);
    return network;
  }

  /** The words that run a program in it. Unlike `ip netns exec`, this leaves the file systems as they are. */
  inside(program: string, args: readonly string[]): { command: string; args: string[] } {
    return { command: 'nsenter', args: [`--net=/run/netns/${this.name}`, program, ...args] };
  }

  /** Runs a program in it, which has to succeed. */
  runInside(program: string, args: readonly string[], env = process.env): Promise<string> {
    const words = this.inside(program, args);
    return runOk(words.command, words.args, { env, limitMs: LIMIT_MS });
  }

  /** Adds an address that is not a loopback one. */
  async addAddress(address: string): Promise<void> {
    await this.runInside('ip', ['address', 'add', `${address}/32`, 'dev', 'lo']);
  }

  /** Puts a `kubectl` into a directory that works in this network. */
  async installKubectl(directory: string): Promise<void> {
    const { command, args } = this.inside(kubernetesProgram('kubectl'), []);
    const path = join(directory, 'kubectl');
    await writeFile(path, `#!/bin/sh\nexec ${[command, ...args].join(' ')} "$@"\n`);
    await chmod(path, 0o755);
  }

  async remove(): Promise<void> {
    await run('ip', ['netns', 'delete', this.name]);
  }
}
