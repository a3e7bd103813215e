import { percentDecode } from './percent.ts';

const LF = 0x0a;
const CR = 0x0d;
/** Bytes of data in one `D` line: three characters each if all of them are escaped, and a line has 1,000. */
const BYTES_PER_LINE = 330;
/** What a `D` line can't hold as it is. */
const ESCAPED: ReadonlyMap<number, string> = new Map([
  [0x25, '%25'],
  [0x0d, '%0D'],
  [0x0a, '%0A'],
]);

/** An answer with `change` applied to the data in it; its other lines stay, the data comes before them. */
export function changeData(answer: Buffer, change: (data: Buffer) => Buffer): Buffer {
  const data: Buffer[] = [];
  const others: Buffer[] = [];
  for (let from = 0; from < answer.length; ) {
    const lf = answer.indexOf(LF, from);
    const end = lf < 0 ? answer.length : lf + 1;
    const line = answer.subarray(from, end);
    if (line[0] === 0x44 && line[1] === 0x20) data.push(percentDecode(line.subarray(2, line.length - 1)));
    else others.push(line);
    from = end;
  }
  return Buffer.concat([dataLines(change(Buffer.concat(data))), ...others]);
}

/** The data in whole `D` lines of a client, in either case and with or without CR. */
export function dataIn(lines: Buffer): Buffer {
  const data: Buffer[] = [];
  for (let from = 0; from < lines.length; ) {
    const lf = lines.indexOf(LF, from);
    const end = lines[lf - 1] === CR ? lf - 1 : lf;
    data.push(percentDecode(lines.subarray(from + 2, end)));
    from = lf + 1;
  }
  return Buffer.concat(data);
}

/** Data as `D` lines; none for no data. */
export function dataLines(data: Buffer): Buffer {
  const lines: string[] = [];
  for (let from = 0; from < data.length; from += BYTES_PER_LINE) {
    const part = data.subarray(from, from + BYTES_PER_LINE);
    lines.push(`D ${Array.from(part, (byte) => ESCAPED.get(byte) ?? String.fromCharCode(byte)).join('')}\n`);
  }
  return Buffer.from(lines.join(''), 'latin1');
}
