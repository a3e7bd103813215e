import type { PlaceOptions } from './places.ts';

/** The label that tools for dev containers give to the container of the directory that a page is followed in. */
const DEV_CONTAINER = { 'project-dev-1': ['--label=devcontainer.local_folder=$PWD'] };

/** Every page with commands that are run, and what somebody who follows it has. */
export const PAGES: Readonly<Record<string, PlaceOptions>> = {
  'README.md': { containers: { 'my-container': ['--workdir=/work'] } },
  'docs/guides/sign-commits-in-a-container.md': { containers: { 'my-container': ['--workdir=/work'] } },
  'docs/guides/yubikey-over-ssh.md': { sshHost: 'build-server' },
  'docs/guides/dev-container.md': { containers: DEV_CONTAINER },
  'docs/guides/compose.md': { leaves: ['shop_web_1'] },
  'docs/guides/self-hosted-runner.md': { sshHost: 'runner', containers: { 'job-42': [] } },
  'docs/guides/troubleshooting.md': { containers: { 'my-container': [] } },
};
