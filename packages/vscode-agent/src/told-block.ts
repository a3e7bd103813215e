import type { ToldBlock } from '@gpg-bridge/core/assuan/answer-table';
import type { FirstBlock } from '@gpg-bridge/core/host/agent-proxy';

/** Lines that a remote has answered before one waits, in bytes and in number; ours keep back far fewer. */
const MAX_LINES_BYTES = 65_536;
const MAX_TOLD = 4_096;

/** What a remote says of lines that it has answered; undefined for what is none of it: VS Code passes on anything. */
export function asToldBlock(value: unknown): ToldBlock | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { table, told, lines } = value as Partial<Record<keyof ToldBlock, unknown>>;
  if (typeof table !== 'number' || typeof lines !== 'string' || lines.length > MAX_LINES_BYTES)
    return undefined;
  if (!Array.isArray(told) || told.length > MAX_TOLD || !told.every((id) => Number.isInteger(id)))
    return undefined;
  return { table, told, lines };
}

/** The same with the first command of a client. */
export function asFirstBlock(value: unknown): FirstBlock | undefined {
  const told = asToldBlock(value);
  const { block } = (value ?? {}) as { block?: unknown };
  return told && (typeof block === 'string' ? { ...told, block } : told);
}
