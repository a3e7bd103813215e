import { PARTS, type Part } from '@gpg-bridge/test-support/tested-with';

/** What a run was done with: for each part the versions that it met. */
export type TestedParts = Partial<Record<Part, readonly string[]>>;

/** What nobody has run here, and why it may work all the same. */
const NOT_RUN: readonly (readonly [what: string, known: string])[] = [
  ['macOS as a host', 'written from documented facts'],
  ['Windows as a host, on Windows itself; Gpg4win', 'see below'],
  ['`auto install` on macOS and Windows', 'the files that it writes are tested, on Linux'],
  ['smart cards and security keys', 'they are gpg-agent’s own matter'],
  ['`wsl:`', 'tested with a stand-in for `wsl.exe` that leads to a container'],
  ['Alpine and Fedora themselves, macOS as a target, a real arm64 machine', 'see the containers above'],
  ['`use-keyboxd`', 'public keys go in by `gpg --import`, as with any keyring'],
  [
    'Docker Desktop, a virtual machine of `podman machine`',
    'their sockets and connections are tested as listed',
  ],
  ['Docker newer than Debian 13’s, as Docker itself ships it', 'the parts of its API that are used are old'],
  ['Kubernetes newer than 1.20, and its WebSocket streams', 'kubectl carries the bytes'],
  ['ssh servers other than OpenSSH’s', 'ssh carries the bytes'],
  ['VS Code on the desktop', 'see below'],
];

/** What Wine leaves unshown. */
const WINE = `## Windows under Wine

\`scripts/windows.sh\` builds GnuPG for Windows and a Wine prefix; the suite runs the command line there (\`up\`, \`status\`,
\`log\`, \`down\`, \`doctor\`, \`exec\`, twenty \`up\` at once, killed daemons, a restarted agent) against a real container, on an
engine behind a named pipe and on TCP, with blanks and letters beyond ASCII in paths and names. That leaves unshown:

- **the access list of the state directory.** \`icacls\` is asked to leave it to its owner alone; Wine's does nothing, so
  only the words that it is given are tested;
- **the end of input over a named pipe.** Engines on Windows take an empty message for it, which the bridge sends; the
  relay that stands for such an engine reads bytes, not messages. Over TCP \`exec\` with input is tested;
- Docker Desktop, its pipes and its rights; the OpenSSH agent's pipe; a real \`wsl.exe\` (a stand-in runs what it is given
  in a container);
- several users on one machine, and who may connect to or take whose pipes;
- the console: windows that must not open, Ctrl-C, terminals in \`exec\` and \`shell\`;
- pinentry, notices, smart cards, sleep; how long things take on Windows itself.

\`local:\`, \`--exec\` and \`demo\` need Unix sockets or a shell and are refused there. \`down --force\` can't prove whose a
process is on Windows, and ends no daemon that does not answer.
`;

/** What a browser leaves unshown. */
const BROWSER = `## VS Code in a browser

The end-to-end suite runs the real VS Code server with a browser. There both extensions run in one extension
host; another story has the two hosts of a desktop window: a worker of the browser for the local side, with a double in
front of the real AgentProxy, and the server's for the remote, with the real extension. Commands, strings of every byte,
errors and both ends of a session cross between them; the benchmark has a part for what a call costs there. That
leaves unshown what a desktop window adds:

- the agent extension itself in the local (UI) extension host, beside its agent;
- the modal dialog as the desktop's own window, and what was allowed being shared by several desktop windows;
- remote authorities as desktop windows have them in their folders' URIs (tested as strings);
- the pack bringing its two members from a gallery, and the button that installs a missing half from there (without
  a gallery it shows the half in the Extensions view, which is tested);
- the settings' scopes being enforced against a remote's own settings file;
- sleep and network loss between the two halves (tested with a carrier that stops answering).
`;

const table = (rows: readonly (readonly string[])[]) =>
  rows.map((row) => `| ${row.join(' | ')} |`).join('\n');

/** docs/platforms.md, from what a run was done with. */
export function renderPage(tested: TestedParts): string {
  const parts = (Object.keys(PARTS) as Part[]).filter((part) => tested[part]?.length);
  return `# What is tested where

The first table is written by the suites themselves: each notes the real programs that it starts, and
\`npm run docs:platforms\` puts down here what was noted. Whoever runs the suites elsewhere meets other versions, but
\`.ci/run\` fails if it misses one of these parts or uses another. The second table is what has not been run.

## Run

${table([['with', 'version'], ['---', '---'], ...parts.map((part) => [PARTS[part], tested[part]!.join('; ')])])}

## Not run

${table([['what', 'what is known'], ['---', '---'], ...NOT_RUN])}

${WINE}
${BROWSER}`;
}

/** How what a run was done with differs from what the page says: parts alone, since versions are a machine's own. */
export function differences(said: TestedParts, met: TestedParts): string[] {
  const only = (some: TestedParts, others: TestedParts) =>
    (Object.keys(some) as Part[]).filter((part) => some[part]?.length && !others[part]?.length);
  return [
    ...only(said, met).map((part) => `docs/platforms.md names ${PARTS[part]}, and no test used it`),
    ...only(met, said).map((part) => `docs/platforms.md does not name ${PARTS[part]}, which tests used`),
  ];
}

/** The parts of a file that a run has noted them in, each version once. */
export function readNotes(text: string): TestedParts {
  const met = new Map<Part, Set<string>>();
  for (const line of text.split('\n').filter(Boolean)) {
    const { part, version } = JSON.parse(line) as { part: Part; version: string };
    met.set(part, (met.get(part) ?? new Set()).add(version));
  }
  const byNumber = new Intl.Collator('en', { numeric: true }).compare;
  return Object.fromEntries([...met].map(([part, versions]) => [part, [...versions].sort(byNumber)]));
}
