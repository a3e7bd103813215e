import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { ApiAddress } from './api-address.ts';
import { ApiConnection, engineMessage, unexpectedAnswer } from './api-connection.ts';
import { ApiExecStream } from './api-exec-stream.ts';
import { checkContainerName, containerNotFound, containerNotRunning } from './container-errors.ts';
import {
  parseContainerDetails,
  parseContainerIds,
  parseContainerInfo,
  parseImageLabels,
} from './container-info.ts';
import type {
  AttachOptions,
  ContainerDetails,
  ContainerInfo,
  Engine,
  EngineKind,
  EventFilter,
  ExecOptions,
  ExecStream,
  ExitInfo,
  TerminalSize,
  TerminalStream,
} from './engine.ts';
import { eventNames, eventStream } from './event-stream.ts';
import { fileInTar } from './tar.ts';

/** Options for `ApiEngine`. */
export interface ApiEngineOptions {
  answerTimeoutMs?: number;
}

const EXEC_ID = /^[0-9a-f]{1,128}$/i;

/** An engine knows a command's exit status only a moment after its stream has ended: delays between questions. */
const EXIT_STATUS_DELAYS_MS = [0, 2, 5, 10, 20, 50, 100, 200, 400, 800, 1600];

/** The same for the terminal of a command that is being started. */
const TERMINAL_DELAYS_MS = [0, 5, 10, 20, 50, 100, 200, 400];

/**
 * An engine reached over its API, without any process in between. Paths carry no API version:
 * what is used here has not changed since 1.24, and newer engines refuse versions that are too old.
 */
export class ApiEngine implements Engine {
  private readonly connection: ApiConnection;

  constructor(
    readonly kind: EngineKind,
    readonly address: ApiAddress,
    options: ApiEngineOptions = {},
  ) {
    this.connection = new ApiConnection(kind, address, options.answerTimeoutMs);
  }

  async ping(): Promise<void> {
    const answer = await this.connection.request('GET', '/_ping');
    if (answer.status !== 200) throw unexpectedAnswer(this.kind, 'to be asked', answer);
  }

  /** Its address was settled once. */
  async checkAddress(): Promise<void> {}

  async readFile(container: string, path: string): Promise<Buffer | undefined> {
    checkContainerName(this.kind, container);
    const where = `/containers/${encodeURIComponent(container)}/archive?path=${encodeURIComponent(path)}`;
    const { status, body } = await this.connection.requestBytes(where);
    return status === 200 ? fileInTar(body) : undefined;
  }

  async inspectContainer(nameOrId: string): Promise<ContainerInfo> {
    return parseContainerInfo(this.kind, await this.containerDocument(nameOrId));
  }

  async describeContainer(id: string): Promise<ContainerDetails> {
    return parseContainerDetails(this.kind, await this.containerDocument(id));
  }

  async imageLabels(image: string): Promise<ReadonlyMap<string, string>> {
    const answer = await this.connection.request('GET', `/images/${encodeURIComponent(image)}/json`);
    if (answer.status === 200) return parseImageLabels(answer.body);
    throw unexpectedAnswer(this.kind, 'to describe an image', answer);
  }

  async containerIds(): Promise<string[]> {
    const answer = await this.connection.request('GET', '/containers/json');
    if (answer.status !== 200 || !Array.isArray(answer.body))
      throw unexpectedAnswer(this.kind, 'to list its containers', answer);
    return parseContainerIds(answer.body.map((each: { Id?: unknown } | null) => each?.Id));
  }

  private async containerDocument(nameOrId: string): Promise<unknown> {
    checkContainerName(this.kind, nameOrId);
    const answer = await this.connection.request('GET', `/containers/${encodeURIComponent(nameOrId)}/json`);
    if (answer.status === 200) return answer.body;
    throw containerNotFound(this.kind, nameOrId, engineMessage(answer));
  }

  async containerNames(): Promise<string[]> {
    const { body } = await this.connection.request('GET', '/containers/json');
    const listed = Array.isArray(body) ? (body as { Names?: unknown }[]) : [];
    return listed.flatMap(({ Names }) => [Names].flat().map((name) => String(name).replace(/^\//, '')));
  }

  async exec(container: string, argv: readonly string[], options: ExecOptions = {}): Promise<ExecStream> {
    checkContainerName(this.kind, container);
    const execId = await this.createExec(container, argv, options, false);
    const started = await this.connection.upgrade(`/exec/${execId}/start`, { Detach: false, Tty: false });
    if ('socket' in started) {
      return new ApiExecStream(started.socket, started.head, () => this.exitInfo(execId));
    }
    throw this.execRefused(container, started);
  }

  async attach(container: string, argv: readonly string[], options: AttachOptions): Promise<ExitInfo> {
    const { attachStreams, attachTerminal } = await import('./attach.ts');
    if (!options.terminal) return attachStreams(await this.exec(container, argv, options), options.gate);
    return attachTerminal(await this.openTerminal(container, argv, options), options.gate);
  }

  private async openTerminal(
    container: string,
    argv: readonly string[],
    options: ExecOptions,
  ): Promise<TerminalStream> {
    checkContainerName(this.kind, container);
    const execId = await this.createExec(container, argv, options, true);
    const started = await this.connection.upgrade(`/exec/${execId}/start`, { Detach: false, Tty: true });
    if (!('socket' in started)) throw this.execRefused(container, started);
    const { socket, head } = started;
    const exited = new Promise<ExitInfo>((resolve) => {
      socket.once('close', () => resolve(this.exitInfo(execId)));
    });
    socket.on('error', () => {}); // 'close' follows
    if (head.length > 0) socket.unshift(head);
    return { stream: socket, resize: (size) => void this.resize(execId, size), exited };
  }

  /** An engine has its terminal only a moment after it has answered: asked again until it has, or the command ended. */
  private async resize(execId: string, { rows, columns }: TerminalSize): Promise<void> {
    for (const wait of TERMINAL_DELAYS_MS) {
      if (wait > 0) await delay(wait);
      const answer = await this.connection
        .request('POST', `/exec/${execId}/resize?h=${rows}&w=${columns}`)
        .catch(() => undefined);
      if (!answer || answer.status < 300) return;
    }
  }

  async events(filter: EventFilter): Promise<Readable> {
    const query = new URLSearchParams({
      filters: JSON.stringify({
        type: ['container'],
        ...(filter.container === undefined ? {} : { container: [filter.container] }),
        event: eventNames(this.kind, filter),
      }),
    });
    // Docker subscribes before it answers. Podman answers first, so it is told since when; its clock is this machine's.
    if (this.kind === 'podman') query.set('since', new Date().toISOString());
    const response = await this.connection.stream(`/events?${query}`);
    return eventStream(response, filter, () => response.destroy());
  }

  private async createExec(
    container: string,
    argv: readonly string[],
    options: ExecOptions,
    terminal: boolean,
  ): Promise<string> {
    const answer = await this.connection.request(
      'POST',
      `/containers/${encodeURIComponent(container)}/exec`,
      {
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: true,
        Tty: terminal,
        Cmd: argv,
        ...(options.user === undefined ? {} : { User: options.user }),
      },
    );
    const { Id } = (answer.body ?? {}) as { Id?: unknown };
    // It becomes part of the address of the next request.
    if (answer.status === 201 && typeof Id === 'string' && EXEC_ID.test(Id)) return Id;
    throw this.execRefused(container, answer);
  }

  private execRefused(container: string, answer: { status: number; body: unknown }): Error {
    if (answer.status === 404) return containerNotFound(this.kind, container, engineMessage(answer));
    // Stopped or paused; Podman says 500 for a container that is not running.
    if (answer.status === 409 || /not running|state improper/i.test(engineMessage(answer))) {
      return containerNotRunning(this.kind, container, engineMessage(answer));
    }
    return unexpectedAnswer(this.kind, 'to run a command in the container', answer);
  }

  private async exitInfo(execId: string): Promise<ExitInfo> {
    const unknown: ExitInfo = { status: null, signal: null };
    for (const wait of EXIT_STATUS_DELAYS_MS) {
      if (wait > 0) await delay(wait);
      const answer = await this.connection.request('GET', `/exec/${execId}/json`).catch(() => undefined);
      if (answer?.status !== 200) return unknown; // the container or the engine is gone
      const { Running, ExitCode } = (answer.body ?? {}) as { Running?: unknown; ExitCode?: unknown };
      if (!Running) return { status: typeof ExitCode === 'number' ? ExitCode : null, signal: null };
    }
    return unknown;
  }
}
