import { expect, it } from 'vitest';
import { manPage } from './man-page.ts';
import { COMMANDS, type CommandSpec } from './specs.ts';

const page = manPage('1.2.3');

it('has every command, with every option that help shows', () => {
  const sections = new Map(
    page
      .split(/^\.S[SH] /m)
      .slice(1)
      .map((section) => [section.slice(0, section.indexOf('\n')), section]),
  );
  for (const [name, spec] of Object.entries<CommandSpec>(COMMANDS)) {
    const section = sections.get(`gpg\\-bridge ${name}`);
    expect(section, name).toBeDefined();
    for (const [option, { internal }] of Object.entries(spec.options)) {
      const word = `\\fB\\-\\-${option.replaceAll('-', '\\-')}\\fR`;
      expect(section!.includes(word), `${name} --${option}`).toBe(!internal);
    }
  }
});

it('has no line that would be obeyed as a request by mistake', () => {
  const requests = page.split('\n').filter((line) => /^[.']/.test(line));
  expect(requests.filter((line) => !/^\.(TH|SH|SS|PP|TP|RS|RE|nf|fi|br|BR)\b/.test(line))).toEqual([]);
});

it('says which version it is of', () => {
  expect(page.split('\n')[0]).toContain('gpg\\-bridge 1.2.3');
});
