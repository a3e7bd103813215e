import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import { BridgeError } from '@gpg-bridge/core/errors';
import { type ApiAddress, connectorTo, describeAddress } from './api-address.ts';
import type { EngineKind } from './engine.ts';

/** What the engine answered to one request. */
export interface ApiAnswer {
  status: number;
  /** The parsed JSON, or undefined when there is none. */
  body: unknown;
}

/** A connection that has become a raw byte stream, with what arrived together with the answer. */
export interface UpgradedConnection {
  socket: Socket;
  head: Buffer;
}

/** An engine that says nothing for so long is stuck: every request here is answered without waiting. */
const ANSWER_TIMEOUT_MS = 30_000;

/** Descriptions of containers with a long configuration have some tens of KiB. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** HTTP to an engine's API. One connection a request: nothing is held while a bridge is idle. */
export class ApiConnection {
  constructor(
    readonly kind: EngineKind,
    readonly address: ApiAddress,
    private readonly answerTimeoutMs = ANSWER_TIMEOUT_MS,
  ) {}

  /** One request and its whole answer, whatever its status. */
  async request(method: 'GET' | 'POST', path: string, body?: unknown): Promise<ApiAnswer> {
    const sent = await this.send(method, path, body);
    return this.readAnswer(await this.responseTo(sent));
  }

  /** One request whose answer, unless it is an error, is not JSON. */
  async requestBytes(path: string): Promise<{ status: number; body: Buffer }> {
    const response = await this.responseTo(await this.send('GET', path));
    return { status: response.statusCode ?? 0, body: await this.readBytes(response) };
  }

  /** A request whose answer is an endless stream; resolves once it has begun. */
  async stream(path: string): Promise<IncomingMessage> {
    const sent = await this.send('GET', path);
    const response = await this.responseTo(sent);
    if (response.statusCode === 200) return response;
    throw unexpectedAnswer(this.kind, 'the request for events', await this.readAnswer(response));
  }

  /** Asks to use the connection itself as a byte stream; an answer that refuses is returned instead. */
  async upgrade(path: string, body: unknown): Promise<UpgradedConnection | ApiAnswer> {
    const sent = await this.send('POST', path, body, { Connection: 'Upgrade', Upgrade: 'tcp' });
    return new Promise((resolve, reject) => {
      sent.once('upgrade', (_response, socket: Socket, head) => {
        resolve({ socket, head });
      });
      sent.once('response', (response) => this.readAnswer(response).then(resolve, reject));
      sent.once('error', (error) => reject(this.unreachable(error)));
    });
  }

  private async send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ClientRequest> {
    const { request } = await import('node:http'); // loaded late: `status`, and an `up` that finds its bridge, ask no engine
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const options: RequestOptions = {
      createConnection: await connectorTo(this.address),
      method,
      path,
      headers: {
        Host: 'engine',
        ...(payload === undefined
          ? {}
          : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(payload) }),
        ...headers,
      },
    };
    const sent = request(options);
    // From the beginning, and not from the last byte: one that comes now and then would never be late.
    const late = setTimeout(
      () => sent.destroy(new Error(`it did not answer within ${this.answerTimeoutMs / 1000} s`)),
      this.answerTimeoutMs,
    );
    for (const event of ['response', 'close']) sent.once(event, () => clearTimeout(late));
    // Only where it is asked for: who listens to it has the connection, and closes it.
    if (headers.Upgrade) sent.once('upgrade', () => clearTimeout(late));
    sent.end(payload);
    return sent;
  }

  private async readAnswer(response: IncomingMessage): Promise<ApiAnswer> {
    const bytes = await this.readBytes(response);
    return { status: response.statusCode ?? 0, body: parseJson(bytes.toString()) };
  }

  private async readBytes(response: IncomingMessage): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let length = 0;
    const late = setTimeout(
      () => response.destroy(new Error(`it was not complete within ${this.answerTimeoutMs / 1000} s`)),
      this.answerTimeoutMs,
    );
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        length += chunk.length;
        if (length > MAX_ANSWER_BYTES) throw new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`);
        chunks.push(chunk);
      }
    } catch (error) {
      throw unfinished(this.kind, error as Error);
    } finally {
      clearTimeout(late);
    }
    return Buffer.concat(chunks);
  }

  private responseTo(sent: ClientRequest): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      sent.once('response', resolve);
      sent.on('error', (error) => reject(this.unreachable(error)));
      // An answer that turns the connection into something else, unasked, is neither of the two.
      sent.once('close', () =>
        reject(this.unreachable(new Error('it ended the connection without an answer'))),
      );
    });
  }

  private unreachable(error: NodeJS.ErrnoException): BridgeError {
    const fix =
      error.code === 'EACCES'
        ? `Run as a user who may use ${describeAddress(this.address)}, for example as a member of its group.`
        : `Start ${this.kind}, or point ${HOST_VARIABLES[this.kind]} to where it is.`;
    return new BridgeError('ENGINE_UNREACHABLE', {
      what: `${this.kind} can't be reached at ${describeAddress(this.address)}`,
      why: REASONS[error.code ?? ''] ?? error.message,
      fix,
      cause: error,
    });
  }
}

/** The variable that says where each engine is. */
const HOST_VARIABLES: Record<EngineKind, string> = { docker: 'DOCKER_HOST', podman: 'CONTAINER_HOST' };

const REASONS: Record<string, string> = {
  ENOENT: 'there is no such socket',
  ECONNREFUSED: 'nothing listens there',
  EACCES: 'permission denied',
};

/** The error for an answer with an unexpected status; it quotes the engine. */
export function unexpectedAnswer(kind: EngineKind, what: string, answer: ApiAnswer): BridgeError {
  return new BridgeError('ENGINE_FAILED', {
    what: `${kind} refused ${what}`,
    why: engineMessage(answer),
    fix: `See the log of ${kind}.`,
  });
}

/** The engine's own words in an error answer. */
export function engineMessage({ status, body }: ApiAnswer): string {
  const { message } = (body ?? {}) as { message?: unknown };
  const words = typeof message === 'string' ? message.trim().replace(/\.$/, '') : '';
  return words || `HTTP status ${status}`;
}

function unfinished(kind: EngineKind, cause: Error): BridgeError {
  return new BridgeError('ENGINE_FAILED', {
    what: `${kind} did not finish its answer`,
    why: cause.message,
    fix: `See whether ${kind} is being stopped, and try again.`,
    cause,
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
