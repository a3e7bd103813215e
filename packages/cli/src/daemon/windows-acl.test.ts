import { expect, it } from 'vitest';
import { ownerOnlyWords } from './windows-acl.ts';

it('leaves a directory and what will be in it to one user', () => {
  expect(ownerOnlyWords('C:\\Zoë B\\gpg-bridge', 'PC\\Zoë B')).toEqual([
    'C:\\Zoë B\\gpg-bridge',
    '/inheritance:r', // nothing from the directories above
    '/grant:r',
    'PC\\Zoë B:(OI)(CI)F',
    '/remove:g', // everyone, everyone logged in, the machine's users
    '*S-1-1-0',
    '*S-1-5-11',
    '*S-1-5-32-545',
    '/q',
  ]);
});
