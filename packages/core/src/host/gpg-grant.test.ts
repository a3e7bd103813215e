import { describe, expect, it } from 'vitest';
import { decideByGrant, type GpgGrant } from './gpg-grant.ts';

const MINE = 'A'.repeat(40);
const OTHER = 'B'.repeat(40);
const grant: GpgGrant = { keygrips: new Set([MINE]) };

function decide(line: string, options: GpgGrant = grant, key?: string) {
  const command = /^\S*/.exec(line)![0].toUpperCase();
  const operation = { command, startedAt: 1, ...(key === undefined ? {} : { key }) };
  const decided = decideByGrant(operation, Buffer.from(`# a comment\n${line}\n`), options);
  if (!decided) return 'pass';
  return 'answer' in decided ? decided.answer.toString().trim() : (decided.instead?.toString() ?? 'edit');
}

describe('a grant of chosen keys', () => {
  it('refuses to sign and to decrypt with others, and without a key', () => {
    expect(decide('PKSIGN', grant, MINE)).toBe('pass');
    expect(decide('pksign', grant, OTHER)).toMatch(/^ERR 67108881 No secret key <GPG Agent> - /);
    expect(decide('PKDECRYPT', grant, OTHER)).toMatch(/^ERR 67108881 No secret key/);
    expect(decide('PKSIGN', grant)).toMatch(/^ERR 67108881 No secret key/);
  });

  it('refuses to decrypt with a second key that is not among them', () => {
    const operation = { command: 'PKDECRYPT', startedAt: 1, key: MINE };
    const line = Buffer.from('PKDECRYPT\n');
    expect(decideByGrant({ ...operation, another: OTHER }, line, grant)).toMatchObject({
      why: 'this target may not use that key (--gpg-key)',
    });
    expect(decideByGrant({ ...operation, another: MINE }, line, grant)).toBeUndefined();
    expect(decideByGrant({ ...operation, key: OTHER, another: MINE }, line, grant)).toBeDefined();
  });

  it('never refuses the choice of a key', () => {
    expect(decide(`SIGKEY ${OTHER}`, grant, OTHER)).toBe('pass');
    expect(decide(`SETKEY ${OTHER}`, grant, OTHER)).toBe('pass');
  });

  it('has the agent asked for the chosen keys alone', () => {
    expect(decide(`HAVEKEY ${MINE}`)).toBe('pass');
    expect(decide(`havekey ${OTHER}`)).toMatch(/^ERR 67108881 No secret key/);
    expect(decide(`HAVEKEY ${OTHER.toLowerCase()} ${OTHER}\r`)).toMatch(/^ERR 67108881 No secret key/);
    expect(decide(`HAVEKEY ${OTHER}\t${MINE.toLowerCase()}  ${OTHER}`)).toBe(
      `HAVEKEY ${MINE.toLowerCase()}\n`,
    );
    expect(decide(`HAVEKEY --info ${OTHER}`)).toMatch(/^ERR 67108891 Not found/);
    expect(decide('HAVEKEY')).toBe('pass');
    expect(decide(`HAVEKEY ${OTHER} nonsense`)).toMatch(/^ERR 67108881 No secret key/);
  });

  it('leaves other keys out of a list', () => {
    const line = 'HAVEKEY --list=1000';
    const decided = decideByGrant({ command: 'HAVEKEY', startedAt: 1 }, Buffer.from(`${line}\n`), grant);
    const edit = decided && 'pass' in decided ? decided.edit : undefined;
    const grips = (text: string) => Buffer.from(text, 'latin1');
    const mine = '\xaa'.repeat(20);
    const other = `%25%0A%0D\xbb%25${'\xbb'.repeat(15)}`;
    expect(edit?.(grips(`D ${mine}${other}\nD ${mine}\nOK\n`)).toString('latin1')).toBe(
      `D ${mine}${mine}\nOK\n`,
    );
    expect(edit?.(grips(`D ${'\xbb'.repeat(20)}\nOK\n`)).toString('latin1')).toBe('OK\n');
  });

  it('tells about no other key', () => {
    expect(decide(`KEYINFO ${MINE}`)).toBe('pass');
    expect(decide(`KEYINFO --data ${OTHER}`)).toMatch(/^ERR 67108891 Not found/);
    expect(decide('KEYINFO --list')).toMatch(/^ERR 67109115 Forbidden/);
    expect(decide('KEYINFO --ssh-list')).toMatch(/^ERR 67109115 Forbidden/);
    expect(decide(`READKEY -- ${MINE}`)).toBe('pass');
    expect(decide(`READKEY ${OTHER}`)).toMatch(/^ERR 67108881 No secret key/);
    for (const line of ['SCD SERIALNO', 'SCD GETINFO version']) expect(decide(line)).toBe('pass');
    for (const line of ['SCD KEYINFO --list=encr', 'scd getattr KEY-FPR'])
      expect(decide(line)).toMatch(/^ERR 67109115 Forbidden/);
  });
});

describe('a grant', () => {
  it('may leave decryption out', () => {
    expect(decide('PKDECRYPT', { decrypt: false }, MINE)).toMatch(/^ERR 67109115 Forbidden <GPG Agent> - /);
    expect(decide('PKSIGN', { decrypt: false }, MINE)).toBe('pass');
  });

  it('has no passphrase asked for unless it says so', () => {
    expect(decide('GET_PASSPHRASE X X X X', {})).toBe('ERR 67109115 Forbidden <GPG Agent>');
    expect(decide('GET_PASSPHRASE X X X X', { passphrase: true })).toBe('pass');
  });

  it('says nothing about anything else', () => {
    for (const line of ['RESET', 'OPTION x=y', 'NOP']) expect(decide(line)).toBe('pass');
  });
});
