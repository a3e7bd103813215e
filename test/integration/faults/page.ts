import { CELLS, type Cell, FAULTS, OUTCOMES, PHASES, PROCESSES, SITUATIONS } from './table.ts';

const keys = <Key extends string>(record: Readonly<Record<Key, unknown>>) => Object.keys(record) as Key[];
const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

/** docs/reliability.md, from what the tests try. */
export function renderPage(): string {
  const tried = CELLS.filter(({ outcome }) => outcome);
  const untried = CELLS.filter(({ why }) => why);
  const word = ({ outcome }: Cell) => outcome ?? '–';
  const rows = keys(PROCESSES).flatMap((process) =>
    keys(FAULTS).map((fault) => [
      `${process} ${fault}`,
      ...CELLS.filter((cell) => cell.process === process && cell.fault === fault).map(word),
    ]),
  );
  const ending = keys(PROCESSES).filter((process) =>
    CELLS.some((cell) => cell.process === process && cell.fault === 'killed' && cell.others === 'end'),
  );
  return `${[
    '# When something breaks',
    '',
    'What a person sees when a process of a bridge dies or stands still while a client (gpg, git) is being served.',
    `Each of the ${tried.length} cells is a test with real processes, in \`test/integration/faults\` and \`test/system\`; this`,
    'page is written from their table when all have passed (`npm run docs:reliability`).',
    '',
    '## The matrix',
    '',
    'The columns are how far the client’s session has come, the words what becomes of that client.',
    '',
    table(['', ...keys(PHASES)], rows),
    '',
    table(
      ['word', 'what it means'],
      keys(OUTCOMES).map((outcome) => [outcome, OUTCOMES[outcome]]),
    ),
    '',
    table(
      ['process', 'what it is'],
      keys(PROCESSES).map((process) => [process, PROCESSES[process]]),
    ),
    '',
    table(
      ['what happens', 'what it is'],
      keys(FAULTS).map((fault) => [fault, FAULTS[fault]]),
    ),
    '',
    table(
      ['phase', 'what it is'],
      keys(PHASES).map((phase) => [phase, PHASES[phase]]),
    ),
    '',
    ...(untried.length > 0
      ? [
          table(
            ['not a cell', 'why'],
            untried.map(({ process, fault, phase, why }) => [`${process} ${fault}, ${phase}`, why ?? '']),
          ),
          '',
        ]
      : []),
    '## What holds in every cell',
    '',
    '- No client ever gets a wrong answer, or one twice: it gets all of it, or its beginning and then an error.',
    '- An error comes within ten seconds, except where the matrix says late; also while what is missing stands still.',
    `- Sessions over other bridges go on. Those over the same bridge go on, too, unless they share what was killed or stands still for long (${ending.join(', ')}): then they get an error as well.`,
    '- The next signature works: by itself after a client or an agent was killed, after `gpg-bridge up` (or with `--restart` by itself) after the rest, and in VS Code when the window has reloaded.',
    '- Afterwards no process, socket or temporary file is left. A socket server that is killed can’t remove its socket: that is dead, and the next `up` takes its place.',
    '',
    'Both ends of a bridge ask each other whether they are there, so one that stands still is told from one that is slow',
    '([protocol.md](protocol.md)). A network that breaks off is the same to them as the process that carries the bytes. An',
    'agent that has greeted and does not answer may be waiting for its person, so it is never given up. Most tests give',
    'a silent line up after two seconds instead of nine.',
    '',
    '## Other things that happen',
    '',
    table(
      ['what', 'and then'],
      SITUATIONS.map(({ name, means }) => [name, means]),
    ),
  ].join('\n')}\n`;
}
