/** What git needs to know before it can sign for somebody, by git's names. */
export const GIT_SETTINGS = ['user.name', 'user.email', 'user.signingkey', 'gpg.format'] as const;

/** One of these. */
export type GitSettingName = (typeof GIT_SETTINGS)[number];

/** Those that are known. */
export type GitSettings = Partial<Record<GitSettingName, string>>;

/** The words that have git print every setting that holds for its user, or for the whole machine. */
export function listSettings(scope: 'global' | 'system'): string[] {
  return ['config', `--${scope}`, '--includes', '--list', '-z'];
}

/** Reads what git prints then. The last one of a name holds; names count without case. */
export function parseSettings(printed: string): GitSettings {
  const settings: GitSettings = {};
  for (const entry of printed.split('\0')) {
    const [, name = '', value = ''] = /^([^\n]*)\n?(.*)$/s.exec(entry) ?? [];
    const known = GIT_SETTINGS.find((each) => each === name.toLowerCase());
    if (known) settings[known] = value;
  }
  return settings;
}
