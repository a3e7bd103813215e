import { parseReady } from '@gpg-bridge/core/mux/ready';
import { jsonLine, printable, printableValue } from '@gpg-bridge/core/text/escape';
import { parseLauncherLine } from '@gpg-bridge/socket-server';
import { type FuzzTarget, mayFail, must } from '../engine/target.ts';
import { pasteable, shellQuote } from '../product.ts';
import { isHarmless } from './harmless.ts';

/** What a target says before there is a bridge, and how words of others are shown. */
export const ready: FuzzTarget = {
  name: 'ready',
  seeds: [
    '{"version":4,"runtime":"perl","system":"linux","uid":0,"home":"/h","boot":"x"}',
    'motd\nGPG-BRIDGE 1 perl\n\x00\x00',
    '{"version":1e999,"runtime":["\\u001b"],"home":"/\\u009b"}',
  ],
  words: [
    'GPG-BRIDGE 1 ',
    'none\n',
    '"version":',
    '"home":"/',
    '\\u001b',
    '\\u202e',
    '\x1b]0;',
    '\xe2\x80\xae',
    "'",
  ],
  run(input) {
    const info = parseReady(input);
    if (info) {
      must(isHarmless(info.runtime + info.system + (info.boot ?? '')), 'a text would move a cursor');
      must(info.home.startsWith('/'), 'the home is no path');
      must(typeof info.version === 'number' && typeof info.uid === 'number', 'a number is none');
    }
    mayFail(['NOT_A_BRIDGE'], () => {
      const launched = parseLauncherLine(input);
      if (launched) must(launched.rest.length < input.length, 'the line is not taken away');
    });
    const text = input.toString();
    must(isHarmless(printable(text)) && isHarmless(printable(input)), 'printable is not');
    must(printable(printable(text, 1e9), 1e9) === printable(text, 1e9), 'it is escaped twice');
    must(isHarmless(jsonLine({ text })), 'JSON would move a cursor');
    must(JSON.parse(jsonLine({ text })).text === text, 'JSON is another value');
    must(isHarmless(printableValue([text])[0]!), 'a value would move a cursor');
    must(isHarmless(pasteable([text])), 'a word to paste would move a cursor');
    must(isOneWord(shellQuote(text)), 'a shell would take it for more than a word');
  },
};

/** Whether a shell takes a text for one word: plain characters, or pieces in single quotes and quoted quotes. */
function isOneWord(quoted: string): boolean {
  return /^(?:[\w@%+=:,./-]+|'[^']*'(?:\\''[^']*')*)$/.test(quoted);
}
