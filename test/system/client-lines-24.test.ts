import { acceptedLines, refusedOf } from '@gpg-bridge/test-support/agent-lines';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { expect, it, onTestFinished } from 'vitest';

// As test/integration/client-lines.test.ts, with the programs and the agent of GnuPG 2.4, and without a bridge.

const HOST = `
set -e
mkdir -m 700 /host /target
printf 'log-file /host/lines.log\\ndebug ipc\\n' >/host/gpg-agent.conf
export GNUPGHOME=/host
gpg --batch --passphrase '' --quick-gen-key 'Ada Test <ada@example.org>' rsa2048 sign,cert,encr never
grip=$(gpg --with-colons --with-keygrip -k | sed -n 's/^grp:*\\([0-9A-F]*\\):/\\1/p' | head -n 1)
printf 'Key-Type: RSA\\nKey-Grip: %s\\nName-DN: CN=Ada\\nName-Email: ada@example.org\\nSerial: 1\\n' "$grip" |
  gpgsm --batch --armor --gen-key >/certificate
printf '%%Assuan%%\\nsocket=%s\\n' "$(gpgconf --list-dirs agent-extra-socket)" >/target/S.gpg-agent
gpg --export >/keys
GNUPGHOME=/target gpg --no-autostart --import /keys
gpgsm='gpgsm --batch --no-autostart --disable-dirmngr'
GNUPGHOME=/target $gpgsm --import /certificate
GNUPGHOME=/target $gpgsm --with-colons --list-keys | sed -n 's/^fpr:*\\([0-9A-F]*\\):.*/\\1 S relax/p' >/host/trustlist.txt
gpg-connect-agent RELOADAGENT /bye
`;
const GPG = `
export GNUPGHOME=/target
gpg="gpg --no-autostart --batch --trust-model always"
echo text | $gpg --clear-sign
echo text | $gpg --encrypt --sign -r ada@example.org | $gpg --decrypt
$gpg --list-secret-keys --with-keygrip
$gpg --card-status
$gpg --quick-add-uid ada@example.org 'Bob <bob@example.org>'
$gpg --export-secret-keys
$gpg --delete-secret-keys --yes ada@example.org
$gpg --quick-gen-key --passphrase '' 'Eve <eve@example.org>'
`;
const GPGSM = `
set -e
export GNUPGHOME=/target
gpgsm="gpgsm --batch --no-autostart --disable-dirmngr --disable-crl-checks"
$gpgsm --list-secret-keys
echo text | $gpgsm --sign -u ada@example.org
echo text | $gpgsm --encrypt --armor -r ada@example.org | $gpgsm --decrypt | grep -x text
`;
const GPGME = `
import gpg
context = gpg.Context()
print(context.sign(b"text", mode=gpg.constants.sig.mode.CLEAR)[0].decode())
key = list(context.keylist("ada@example.org"))
sealed, _, _ = context.encrypt(b"text", recipients=key, always_trust=True)
print(context.decrypt(sealed, verify=False)[0].decode())
list(context.keylist(secret=True))
`;

requireSystem('docker')('every command that an agent of GnuPG 2.4 accepts is on the list', () => {
  it('from gpg, gpgsm and GPGME', async () => {
    const docker = await sharedEngine('docker');
    const container = await docker.startContainer({ image: 'trixie' });
    onTestFinished(() => container.remove());
    await container.execOk(['sh', '-c', HOST]);
    await container.exec(['sh', '-c', GPG]);
    await container.execOk(['sh', '-c', GPGSM]);
    await container.execOk(['python3', '-c', GPGME], { env: { GNUPGHOME: '/target' } });
    const sent = acceptedLines(String(await container.execOk(['cat', '/host/lines.log'])));
    for (const line of ['PKSIGN', 'PKDECRYPT', 'SETKEYDESC']) {
      expect(sent.some((each) => each.startsWith(line))).toBe(true);
    }
    expect(refusedOf(sent)).toEqual([]);
  });
});
