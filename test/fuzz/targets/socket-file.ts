import { parseSocketFile } from '@gpg-bridge/core/host/socket-file';
import { type FuzzTarget, must } from '../engine/target.ts';
import { isHarmless } from './harmless.ts';

const NONCE = '0123456789ABCDEF';

/** What stands in the place of a socket on Windows, and redirects. */
export const socketFile: FuzzTarget = {
  name: 'socket-file',
  seeds: [
    `4711\n${NONCE}`,
    `127.0.0.1\n4711\n${NONCE}`,
    '!<socket >4711 s 01234567-89ABCDEF-01234567-89ABCDEF\x00',
    `%Assuan%\nsocket=\${HOME}/x\n`,
    `[::1]\r\n65535\r\n${NONCE}`,
  ],
  words: [
    '%Assuan%\n',
    'socket=',
    `\${HOME}`,
    '$',
    '!<socket >',
    ' s ',
    'localhost\n',
    '127.1',
    '\r\n',
    NONCE,
    '65536',
  ],
  run(input) {
    try {
      const file = parseSocketFile('/x/S', input, { HOME: '/home/a', EVIL: '\n' });
      if (file.kind === 'redirect') must(file.path.startsWith('/'), 'a redirect to no path');
      else {
        must(Number.isInteger(file.port) && file.port >= 1 && file.port <= 65_535, 'the port is none');
        must(file.nonce.length === 16, 'the nonce is none');
        must(/^127\.|^::1$|^localhost$/.test(file.host), `the host ${file.host} is another machine`);
      }
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      must(code === 'AGENT_SOCKET_FILE_MALFORMED', `it threw ${code}: ${message}`);
      must(isHarmless(message), 'the error would move a cursor');
      if (input.toString('latin1').startsWith('%Assuan%')) return; // a redirect has no nonce
      for (let at = 0; at + 8 <= input.length; at += 8) {
        const piece = input.toString('latin1', at, at + 8);
        must(
          !/^[\x21-\x7e]{8}$/.test(piece) || !message.includes(piece) || KNOWN.includes(piece),
          'it quotes the file',
        );
      }
    }
  },
};

/** What the errors themselves say. */
const KNOWN =
  '127.0.0.1 localhost %Assuan% socket= !<socket > loopback decimal redirect absolute longer than bytes nonce first second line port host';
