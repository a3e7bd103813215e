import { isAllowedCommand } from '@gpg-bridge/core/assuan/allowed-commands';

/** One connection in an agent's log. */
interface Connection {
  isRestricted: boolean;
  last: string;
  accepted: string[];
}

/** The commands in an agent's log (`debug ipc`) that restricted connections sent and that it accepted, each once. */
export function acceptedLines(log: string): string[] {
  const all: Connection[] = [];
  const open = new Map<string, Connection>();
  for (const [, id = '', direction, text = ''] of log.matchAll(/DBG: chan_(\d+) (<-|->) (.*)$/gm)) {
    if (/^\[(?:eof|error)/.test(text)) open.delete(id);
    let connection = open.get(id);
    if (!connection) {
      connection = { isRestricted: false, last: '', accepted: [] };
      all.push(connection);
      open.set(id, connection);
    }
    if (direction === '<-') {
      if (!/^(?:D |END|CAN|\[)/.test(text)) connection.last = text;
    } else if (/^(?:OK|INQUIRE)/.test(text)) {
      connection.isRestricted ||= connection.last === 'GETINFO restricted';
      if (connection.last) connection.accepted.push(connection.last);
    } else if (text.startsWith('ERR 67109115 ')) {
      connection.isRestricted = true; // Forbidden
    }
  }
  const restricted = all.filter(({ isRestricted }) => isRestricted);
  return [...new Set(restricted.flatMap(({ accepted }) => accepted))];
}

/** Those that a bridge would refuse. */
export function refusedOf(lines: readonly string[]): string[] {
  return lines.filter((line) => !isAllowedCommand(Buffer.from(`${line}\n`)));
}
