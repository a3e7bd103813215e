/** What runs as a service, and in which environment. */
export interface ServiceProgram {
  /** Node, the built command, and its words. */
  command: readonly string[];
  /** Variables that decide where engines, agents and files are. */
  env: Readonly<Record<string, string>>;
}

/** What the service is called, where names are words. */
export const SYSTEMD_UNIT = 'gpg-bridge-auto.service';
export const LAUNCHD_LABEL = 'org.gpg-bridge.auto';
export const WINDOWS_TASK = 'GPG Bridge auto';

const DESCRIPTION = 'GPG Bridge: bridges to containers that come by themselves';

/**
 * A unit of systemd's for one user. Bridges are processes that outlive whoever started them, so only the main process
 * is ended with the unit.
 */
export function systemdUnit({ command, env }: ServiceProgram): string {
  return [
    '[Unit]',
    `Description=${DESCRIPTION}`,
    'Documentation=man:gpg-bridge(1)',
    '',
    '[Service]',
    `ExecStart=${command.map(systemdWord).join(' ')}`,
    ...Object.entries(env).map(([name, value]) => `Environment=${systemdQuote(`${name}=${value}`)}`),
    'KillMode=process',
    'Restart=on-failure',
    'RestartSec=5',
    '',
    '[Install]',
    'WantedBy=default.target',
    '',
  ].join('\n');
}

/** systemd expands `%` everywhere, and takes quotes and backslashes as C does. */
function systemdQuote(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&').replaceAll('%', '%%').replaceAll('\n', '\\n')}"`;
}

/** In a command it also expands `$`. */
function systemdWord(word: string): string {
  return systemdQuote(word.replaceAll('$', '$$$$'));
}

/** A property list for launchd: an agent of one user, started at login and again when it fails. */
export function launchdPlist({ command, env }: ServiceProgram): string {
  const variables = Object.entries(env).flatMap(([name, value]) => [
    `    <key>${xml(name)}</key>`,
    `    <string>${xml(value)}</string>`,
  ]);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    '<dict>',
    '  <key>Label</key>',
    `  <string>${LAUNCHD_LABEL}</string>`,
    '  <key>ProgramArguments</key>',
    '  <array>',
    ...command.map((word) => `    <string>${xml(word)}</string>`),
    '  </array>',
    '  <key>EnvironmentVariables</key>',
    '  <dict>',
    ...variables,
    '  </dict>',
    '  <key>RunAtLoad</key>',
    '  <true/>',
    '  <key>KeepAlive</key>',
    '  <dict>',
    '    <key>SuccessfulExit</key>',
    '    <false/>',
    '  </dict>',
    // launchd ends every process of a job's group with it; bridges stay.
    '  <key>AbandonProcessGroup</key>',
    '  <true/>',
    '</dict>',
    '</plist>',
    '',
  ].join('\n');
}

/** A task for Windows' scheduler: at the logon of one user, without a limit of time, again when it fails. */
export function windowsTask({ command, env }: ServiceProgram, user: string): string {
  const [program = '', ...words] = command;
  // A task has no variables of its own, so a shell sets them.
  const assignments = Object.entries(env).map(([name, value]) => `set "${name}=${value}"&& `);
  const line = [program, ...words].map((word) => `"${word}"`).join(' ');
  const lines = [
    '<?xml version="1.0" encoding="UTF-16"?>',
    '<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">',
    '  <RegistrationInfo>',
    `    <Description>${xml(DESCRIPTION)}</Description>`,
    '  </RegistrationInfo>',
    '  <Triggers>',
    '    <LogonTrigger>',
    '      <Enabled>true</Enabled>',
    `      <UserId>${xml(user)}</UserId>`,
    '    </LogonTrigger>',
    '  </Triggers>',
    '  <Principals>',
    '    <Principal id="Author">',
    `      <UserId>${xml(user)}</UserId>`,
    '      <LogonType>InteractiveToken</LogonType>',
    '      <RunLevel>LeastPrivilege</RunLevel>',
    '    </Principal>',
    '  </Principals>',
    '  <Settings>',
    '    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>',
    '    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>',
    '    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>',
    '    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>',
    '    <Hidden>true</Hidden>',
    '    <RestartOnFailure>',
    '      <Interval>PT1M</Interval>',
    '      <Count>10</Count>',
    '    </RestartOnFailure>',
    '  </Settings>',
    '  <Actions Context="Author">',
    '    <Exec>',
    '      <Command>cmd.exe</Command>',
    `      <Arguments>${xml(`/d /s /c "${assignments.join('')}${line}"`)}</Arguments>`,
    '    </Exec>',
    '  </Actions>',
    '</Task>',
    '',
  ];
  return lines.join('\r\n');
}

const XML_NAMES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};

function xml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => XML_NAMES[character]!);
}
