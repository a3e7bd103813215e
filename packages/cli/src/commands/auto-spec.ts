import { BRIDGE_OPTIONS, type CommandSpec, JSON_OPTION } from './spec-parts.ts';

/** A rule is for containers, which are not reached by a command prefix. */
const { exec: _exec, ...RULE_OPTIONS } = BRIDGE_OPTIONS;

const SELECTORS = ['compose', 'label'] as const;

/** `gpg-bridge auto`: rules by which containers get a bridge by themselves. */
export const AUTO = {
  summary: 'rules: containers that get a bridge by themselves when they start',
  operands: 'add | list | remove | approve | run | install | uninstall',
  maxOperands: 1,
  verbs: {
    add: {
      summary: 'keep a rule, or change the one with the same words',
      operands: 'NAME-PATTERN | --compose PROJECT | --label KEY=VALUE',
      maxOperands: 1,
      options: [...SELECTORS, 'trust', 'json', ...Object.keys(RULE_OPTIONS)],
    },
    list: { summary: 'show the rules, and what waits for you', maxOperands: 0, options: ['json'] },
    remove: {
      summary: 'remove a rule; bridges that it brought up stay',
      operands: 'NAME-PATTERN | --compose PROJECT | --label KEY=VALUE',
      maxOperands: 1,
      options: [...SELECTORS, 'json'],
    },
    approve: {
      summary: 'show what waits for you, or let these containers through',
      operands: '[CONTAINER… | --all]',
      maxOperands: Number.POSITIVE_INFINITY,
      options: ['all', 'json'],
    },
    run: { summary: 'watch Docker and Podman, until Ctrl-C', maxOperands: 0, options: [] },
    install: { summary: 'do that whenever you are logged in', maxOperands: 0, options: [] },
    uninstall: { summary: 'stop doing that', maxOperands: 0, options: [] },
  },
  options: {
    compose: { value: 'PROJECT', help: 'the containers of a compose project' },
    label: { value: 'KEY=VALUE', help: 'the containers with a label of their own; not one of their image' },
    trust: { help: 'do not ask about new images and project directories' },
    all: { help: 'approve everything that waits' },
    ...RULE_OPTIONS,
    json: JSON_OPTION,
  },
  details:
    'A rule has the options of `up`. `auto run` brings a bridge up for every container that a rule is\n' +
    'for, those that run already and those that start later, in Docker and in Podman; when the container\n' +
    'ends, so does the bridge. `auto install` makes that a service of yours: systemd, launchd, or a\n' +
    'scheduled task. In patterns, projects and the values of labels `*` stands for any characters and `?`\n' +
    'for one; `docker:` or `podman:` before a pattern means that engine alone.\n' +
    'A project can choose the names and labels of its containers. So the first time that a rule meets an\n' +
    'image, or the directory of a compose project or dev container, it waits for `auto approve`, unless\n' +
    'it was added with --trust.',
  examples: [
    ["gpg-bridge auto add 'dev-*' --user dev", 'containers whose name begins so'],
    ['gpg-bridge auto add --compose shop --no-ssh', 'every container of a compose project'],
    ['gpg-bridge auto add --label gpg-bridge=yes', 'containers that carry this label themselves'],
    ['gpg-bridge auto install', 'from now on, and after every login'],
    ['gpg-bridge auto approve shop-web-1', 'let it through, and what else is from its image and directory'],
  ],
} as const satisfies CommandSpec;
