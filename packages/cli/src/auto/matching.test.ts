import { describe, expect, it } from 'vitest';
import type { ContainerDetails } from '../engine/engine.ts';
import { type Candidate, judge, matches, originOf, withoutInherited } from './matching.ts';
import type { Rule } from './rules.ts';
import { composeSelector, labelSelector, nameSelector, type Selector } from './selector.ts';

const IMAGE = 'b'.repeat(64);

function rule(selector: Selector, facts: Partial<Rule> = {}): Rule {
  const approved = { images: [], directories: [] };
  return { selector, options: {}, trust: false, added: '2026-01-01T00:00:00.000Z', approved, ...facts };
}

function candidate(
  labels: Record<string, string> = {},
  imageLabels: Record<string, string> = {},
  facts: Partial<ContainerDetails> = {},
): Candidate {
  const details: ContainerDetails = {
    id: 'a'.repeat(64),
    name: 'shop-web-1',
    running: true,
    user: '',
    image: IMAGE,
    imageName: 'shop',
    labels: new Map(Object.entries(labels)),
    startedAt: 0,
    ...facts,
  };
  const ownLabels = withoutInherited(details.labels, new Map(Object.entries(imageLabels)));
  return { engine: 'docker', details, ownLabels };
}

describe('a rule', () => {
  it('by name is for the containers of its pattern, in its engine', () => {
    expect(matches(rule(nameSelector('shop-*')), candidate())).toBe(true);
    expect(matches(rule(nameSelector('docker:shop-*')), candidate())).toBe(true);
    expect(matches(rule(nameSelector('podman:shop-*')), candidate())).toBe(false);
    expect(matches(rule(nameSelector('shop')), candidate())).toBe(false);
  });

  it.each([
    ['a label', labelSelector('team=a'), 'team', 'a'],
    ['a compose project', composeSelector('shop'), 'com.docker.compose.project', 'shop'],
  ])('by %s is for containers that carry it themselves', (_what, selector, key, value) => {
    expect(matches(rule(selector), candidate({ [key]: value }))).toBe(true);
    expect(matches(rule(selector), candidate({ [key]: 'other' }))).toBe(false);
    expect(matches(rule(selector), candidate())).toBe(false);
    expect(matches(rule(selector), candidate({ [key]: value }, { [key]: value }))).toBe(false);
    // One that was given another value than its image's carries it itself.
    expect(matches(rule(selector), candidate({ [key]: value }, { [key]: 'other' }))).toBe(true);
  });
});

describe('the origin of a container', () => {
  it.each(['com.docker.compose.project.working_dir', 'devcontainer.local_folder'])(
    'has the directory in the label %s',
    (key) => {
      expect(originOf(candidate({ [key]: '/home/ada/shop' }).details)).toEqual({
        image: IMAGE,
        directory: '/home/ada/shop',
      });
    },
  );

  it('is its image alone where there is no project', () => {
    expect(originOf(candidate().details)).toEqual({ image: IMAGE });
  });

  it('has every directory that is noted, so that one can not hide another', () => {
    const labels = {
      'com.docker.compose.project.working_dir': '/home/ada/approved',
      'devcontainer.local_folder': '/home/ada/cloned',
    };
    const hidden = candidate(labels);
    expect(originOf(hidden.details)).toEqual({
      image: IMAGE,
      directory: '/home/ada/approved, /home/ada/cloned',
    });
    const approved = { images: [IMAGE], directories: ['/home/ada/approved'] };
    expect(judge([rule({ kind: 'name', pattern: '*' }, { approved })], hidden).kind).toBe('waiting');
    const same = candidate({ ...labels, 'devcontainer.local_folder': '/home/ada/approved' });
    expect(originOf(same.details)).toEqual({ image: IMAGE, directory: '/home/ada/approved' });
  });
});

describe('what becomes of a container', () => {
  const inProject = candidate({ 'devcontainer.local_folder': '/home/ada/shop' });

  it('is nothing without a rule', () => {
    expect(judge([], candidate())).toEqual({ kind: 'none' });
    expect(judge([rule(nameSelector('other'), { trust: true })], candidate())).toEqual({ kind: 'none' });
  });

  it('is a question until image and directory are both approved', () => {
    const asked = (images: string[], directories: string[]) =>
      judge([rule(nameSelector('*'), { approved: { images, directories } })], inProject).kind;
    expect(asked([], [])).toBe('waiting');
    expect(asked([IMAGE], [])).toBe('waiting');
    expect(asked([], ['/home/ada/shop'])).toBe('waiting');
    expect(asked([IMAGE], ['/home/ada'])).toBe('waiting');
    expect(asked([IMAGE], ['/home/ada/shop'])).toBe('bridge');
  });

  it('is a bridge by a rule that trusts, and by the first that may', () => {
    const first = rule(nameSelector('shop-*'));
    const second = rule(nameSelector('*'), { trust: true });
    expect(judge([first, second], inProject)).toEqual({ kind: 'bridge', rule: second });
    expect(judge([first], inProject)).toEqual({
      kind: 'waiting',
      rule: first,
      origin: { image: IMAGE, directory: '/home/ada/shop' },
    });
  });
});
