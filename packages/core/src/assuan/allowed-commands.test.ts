import { describe, expect, it } from 'vitest';
import { isAllowedCommand } from './allowed-commands.ts';

const GRIP = '0123456789ABCDEF0123456789abcdef01234567';
const allowed = (line: string) => isAllowedCommand(Buffer.from(`${line}\n`, 'latin1'));

describe('the commands that may reach gpg-agent', () => {
  it.each([
    'RESET',
    'BYE',
    'NOP',
    'HELP',
    'HELP PKSIGN',
    'OPTION agent-awareness=2.1.0',
    'GETINFO version',
    'GETINFO restricted',
    'GETINFO cmd_has_option GET_PASSPHRASE newsymkey',
    `HAVEKEY ${GRIP}`,
    `HAVEKEY ${GRIP} ${GRIP}`,
    `HAVEKEY --info ${GRIP}`,
    'HAVEKEY --list',
    'HAVEKEY --list=1000',
    `KEYINFO ${GRIP}`,
    'KEYINFO --list',
    `READKEY -- ${GRIP}`,
    `SIGKEY ${GRIP}`,
    `SETKEY ${GRIP}`,
    `SETKEY --another ${GRIP}`,
    'SETKEYDESC Please+enter%0Athe+passphrase\xe4',
    'SETKEYDESC A+user+ID+with+DEL\x7f',
    `SETHASH 8 ${'ab'.repeat(32)}`,
    `SETHASH 2 ${'ab'.repeat(20)}`,
    `SETHASH --hash=sha512 ${'ab'.repeat(64)}`,
    'PKSIGN',
    'PKDECRYPT',
    'PKDECRYPT --kem=PGP',
    'PKDECRYPT --kem=PQC-PGP',
    `ISTRUSTED ${GRIP}`,
    'SCD SERIALNO',
    'SCD GETATTR KEY-FPR',
    'SCD KEYINFO --list=encr',
    'SCD GETINFO version',
    'GET_PASSPHRASE --data --repeat=1 -- X X Enter+it: Some+words',
  ])('include %s, in any case and with CR, with one space between words', (line) => {
    expect(allowed(line)).toBe(true);
    expect(allowed(`${line}\r`)).toBe(true);
    for (const blank of [' ', '\t']) expect(allowed(`${line}${blank}`)).toBe(false);
    const [word = '', ...args] = line.split(' ');
    expect(allowed([word.toLowerCase(), ...args].join(' '))).toBe(true);
    if (args.length > 0) {
      for (const blanks of ['  ', '\t', ' '.repeat(30)])
        expect(allowed(`${word}${blanks}${args.join(' ')}`)).toBe(false);
    }
  });

  it.each([
    // descriptors and files of the agent's process
    'INPUT FD=5',
    'OUTPUT FD=5',
    'INPUT',
    'OUTPUT FD',
    'MESSAGE FD=5',
    'SENDFD 1',
    'OPTION ttyname=/dev/tty1',
    'OPTION putenv=LD_PRELOAD=x',
    'OPTION display=:0',
    'OPTION pinentry-mode=loopback',
    'OPTION pretend-request-origin=local',
    'OPTION agent-awareness=/dev/null',
    'OPTION',
    // what else an unrestricted agent does
    'KEYWRAP_KEY --export',
    `EXPORT_KEY ${GRIP}`,
    'IMPORT_KEY',
    'GENKEY',
    `DELETE_KEY ${GRIP}`,
    `PASSWD ${GRIP}`,
    `KEYTOCARD ${GRIP}`,
    'PRESET_PASSPHRASE x',
    'CLEAR_PASSPHRASE x',
    'GET_CONFIRMATION x',
    'LEARN',
    'PUTVAL x y',
    'GETVAL x',
    'LISTTRUSTED',
    'MARKTRUSTED',
    'KILLAGENT',
    'RELOADAGENT',
    'UPDATESTARTUPTTY',
    'AUTH x',
    'CANCEL',
    'QUIT',
    'END',
    'CAN',
    'D data',
    'PKAUTH',
    'SOMETHING',
    // allowed words with other arguments
    'RESET x',
    'PKSIGN --hash=sha1',
    'PKSIGN x',
    'PKDECRYPT --kem=CMS',
    'GETINFO socket_name',
    'GETINFO std_env_names',
    'HAVEKEY',
    'HAVEKEY /etc/passwd',
    'KEYINFO --ssh-list',
    `KEYINFO ${GRIP} --ssh-list`,
    `SIGKEY ${GRIP}00`,
    `SIGKEY ${GRIP} x`,
    `SIGKEY --another ${GRIP}`,
    `SETKEY --another ${GRIP} ${GRIP}`,
    'SETKEY x',
    'SETHASH --hash=none 00',
    'SETHASH 1 00',
    'SETHASH --hash=md5 00',
    'SETHASH --hash=tls-md5sha1 00',
    'SETHASH 8 0',
    `SETHASH 8 ${'ab'.repeat(21)}`,
    `SETHASH 8 ${'ab'.repeat(64)}`,
    `SETHASH 10 ${'ab'.repeat(65)}`,
    `SETHASH --hash=sha512 ${'ab'.repeat(32)}`,
    'SETHASH --inquire',
    'SETHASH 8 --inquire',
    `READKEY --card ${GRIP}`,
    'SETKEYDESC two words',
    'SCD',
    'SCD LEARN',
    'SCD PKSIGN',
    'SCD SERIALNO x',
    'SCD GETATTR LOGIN-DATA',
    'SCD INPUT FD=5',
    'HELP a b',
    // whatever stands before or inside
    ' NOP',
    '\tINPUT FD=5',
    '#NOP',
    'NOP\0',
    'NOP\0INPUT FD=5',
    'NO\0P',
    'NO\rP',
    `SIGKEY ${GRIP}\0`,
    'NOP\rINPUT FD=5',
    'GETINFO version\x0b',
    'SETKEYDESC a\0b',
    'SETKEYDESC a\x1bb',
    'NÖP',
    '',
  ])('do not include %j, in any case', (line) => {
    expect(allowed(line)).toBe(false);
    expect(allowed(line.toLowerCase())).toBe(false);
    expect(allowed(line.toUpperCase())).toBe(false);
  });

  it('are decided in linear time, however a line is made', () => {
    const started = process.cpuUsage().user;
    const lines = [`HAVEKEY ${`${GRIP} `.repeat(23)}x`, `GET_PASSPHRASE ${'--a '.repeat(240)}\0`];
    for (const line of [
      ...lines,
      `NOP ${' '.repeat(990)}x`,
      `SETHASH 8 ${'a'.repeat(989)}`,
      `A x${' '.repeat(990)}x`,
    ]) {
      for (let times = 0; times < 500; times++) allowed(line);
    }
    expect(process.cpuUsage().user - started).toBeLessThan(500_000);
  });
});
