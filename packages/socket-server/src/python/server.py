# The socket server for targets that have Python 3.6 or later; the modules of python3-minimal are enough
# (no json). The loader of launch.ts runs this text with the configuration in CONFIG and frames on stdin
# and stdout. It is one text because it travels through a pipe; server.pl and main.ts behave the same.
# Paths and output of programs are bytes throughout: a target's locale decides nothing here.
import errno
import os
import pwd
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

# Frame: uint32 length of what follows, uint8 type, uint32 stream, payload.
DATA, OPEN, CLOSE, PUBKEY, READY, ERROR, WINDOW = 1, 2, 3, 4, 5, 6, 7
HEADER = struct.Struct('>IBI')
HEADER_SIZE = HEADER.size
LENGTH_MIN = 5
LENGTH_MAX = 1048576
CREDIT = 262144  # bytes a stream may send before the first WINDOW, per direction
GRANT = 131072  # bytes delivered before the credit for them is sent back
QUEUE_MAX = 8388608  # unsent bytes a stream may have when the host knows no WINDOW
KEYS_MAX = 67108864  # bytes of public keys that may wait for gpg
READ_SIZE = 65536
OUT_HIGH = 262144  # unsent bytes for the host at which clients are not read
ACCEPT_BATCH = 64  # clients accepted in one turn, at most
REPLY_MAX = 65536  # bytes kept of what a program or a probed agent says
PATH_MAX = 107 if sys.platform.startswith('linux') else 103
FALSE_CODE = 256  # GPG_ERR_FALSE
ASSUAN = 'gpg-agent'
SSH = 'ssh-agent'
READ = select.POLLIN  # epoll has the same numbers
WRITE = select.POLLOUT


class Failure(Exception):
    """An error in the words of the host's own: what failed, why, and what to do."""

    def __init__(self, what, why, fix):
        Exception.__init__(self, '%s: %s. %s' % (what, why, fix))


def reason(error):
    if isinstance(error, Failure):
        return str(error)
    return 'the socket server failed: %s. See the log for details.' % error


def shown(path):
    return path.decode('utf-8', 'replace')


def parse_config(text):
    config = {}
    for line in text.split(b'\n'):
        key, is_setting, value = line.partition(b'=')
        if is_setting:
            value = re.sub(b'%([0-9A-Fa-f]{2})', lambda m: bytes([int(m.group(1), 16)]), value)
            config.setdefault(key.decode('ascii', 'replace'), []).append(value)
    return config


config = parse_config(CONFIG)  # noqa: F821


def setting(key, default=None):
    return config[key][-1] if key in config else default


backlog = int(setting('backlog', 4096))
max_streams = int(setting('max-streams', 4096))
probe_seconds = int(setting('probe-ms', 2000)) / 1000
watch_seconds = int(setting('watch-ms', 2000)) / 1000
takeover = bool(setting('takeover'))
try:
    with open('/proc/sys/kernel/random/boot_id', 'rb') as boot_file:
        boot_id = boot_file.read().strip()
except OSError:
    boot_id = b''
# dev:ino or dev:ino:boot; under another kernel the same numbers are another file.
told_sockets = [value.split(b':') for value in config.get('host-socket', ())]
host_sockets = frozenset(b':'.join(parts[:2]) for parts in told_sockets if not (boot_id and parts[2:]) or parts[2] == boot_id)

warnings = []  # what the person should hear about, for READY
made_dirs = []
is_ready = False


def note(text):
    line = re.sub('[\x00-\x1f\x7f]+', ' ', text) + '\n'
    try:
        os.write(2, line.encode('utf-8', 'replace'))
    except OSError:
        pass


def notice(text):
    if not is_ready:
        warnings.append(text)
    note(text)


def json(value):
    if isinstance(value, dict):
        return '{' + ','.join(json(key) + ':' + json(value[key]) for key in sorted(value)) + '}'
    if isinstance(value, (list, tuple)):
        return '[' + ','.join(json(item) for item in value) + ']'
    if isinstance(value, int):
        return str(value)
    return '"' + re.sub('[\x00-\x1f"\\\\\x7f]', lambda m: '\\u%04x' % ord(m.group()), value) + '"'


# Programs of the target.

def find_program(name):
    for directory in os.environb.get(b'PATH', b'/usr/bin:/bin').split(b':'):
        path = os.path.join(directory, name)
        if directory.startswith(b'/') and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def run(data, seconds, argv):
    """Runs a program to its end. Returns its status (-1: it did not end in time), stdout and stderr."""
    environment = dict(os.environb)
    environment[b'LC_ALL'] = b'C'
    program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment)
    try:
        output, complaint = program.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired:
        program.kill()
        output, complaint = program.communicate()
        return -1, output[-REPLY_MAX:], complaint[-REPLY_MAX:]
    status = program.returncode
    return 128 - status if status < 0 else status, output[-REPLY_MAX:], complaint[-REPLY_MAX:]


def complaint_of(status, text):
    lines = text.decode('utf-8', 'replace').strip().splitlines()
    if lines:
        return lines[-1].strip()
    return 'it did not end in time' if status < 0 else 'it ended with status %d' % status


def gpgconf(*arguments):
    for name in (b'gpgconf', b'gpg'):
        if not find_program(name):
            raise Failure("can't make the gpg socket", 'the target has no %s on its PATH' % shown(name),
                          'Install GnuPG in the target (`apt install gnupg`, `apk add gnupg`).')
    command = 'gpgconf ' + ' '.join(arguments)
    status, text, complaint = run(b'', 10, [find_program(b'gpgconf')] + list(arguments))
    if status:
        raise Failure(command + ' failed', complaint_of(status, complaint),
                      'Run `%s` in the target to see what it says.' % command)
    return re.sub(b'\r?\n$', b'', text)


# What is at a socket's place.

def identity(path, follow=False):
    """Device and inode, or b'' for nothing."""
    try:
        facts = os.stat(path) if follow else os.lstat(path)
    except (OSError, ValueError):
        return b''
    return b'%d:%d' % (facts.st_dev, facts.st_ino)


class Conversation:
    """A connection to whatever listens at a path, with a deadline for all of it."""

    def __init__(self, connection, deadline):
        self.connection = connection
        self.deadline = deadline
        self.text = b''

    def send(self, data):
        try:
            self.connection.send(data)
        except OSError:
            pass

    def read_until(self, pattern):
        """What the pattern captured; None when nothing came, the other end closed, or it said too much."""
        while True:
            match = re.match(pattern, self.text, re.DOTALL)
            if match:
                self.text = self.text[match.end():]
                return match.group(1)
            left = self.deadline - time.monotonic()
            if left <= 0 or len(self.text) > REPLY_MAX:
                return None
            self.connection.settimeout(left)
            try:
                piece = self.connection.recv(4096)
            except OSError:
                return None
            if not piece:
                return None
            self.text += piece


# The lines of an Assuan response up to its last, which starts with OK, ERR or INQUIRE.
RESPONSE = rb'((?:[^\n]*\n)*?(?:OK|ERR|INQUIRE)\b[^\n]*\n)'


def ask(talk, kind):
    """How a listener answers: 'unrestricted' (gpg-agent's main socket; with its process id and its name
    for its socket), 'forwarded', or '' for nothing at all."""
    if kind == SSH:
        talk.send(b'\0\0\0\1\x0b')  # list the identities, which every agent may be asked
        return 'forwarded' if talk.read_until(rb'(.{5})') else '', None, None
    greeting = talk.read_until(rb'((?:#[^\n]*\n)*[^\n]*\n)')
    if greeting is None:
        return '', None, None
    if not re.search(rb'^OK\b', greeting, re.MULTILINE):
        return 'forwarded', None, None
    answers = []
    for command in (b'GETINFO restricted', b'GETINFO pid', b'GETINFO socket_name'):
        talk.send(command + b'\n')
        answer = talk.read_until(RESPONSE)
        if answer is None:
            return '', None, None
        if not answers:
            # Any other error is a bridge's that can't reach its host: no agent of the target answers so.
            code = re.search(rb'^ERR (\d+)', answer, re.MULTILINE)
            if not code or int(code.group(1)) & 0xffff != FALSE_CODE:
                return 'forwarded', None, None
        data = re.search(rb'^D ([^\n]*)', answer, re.MULTILINE)
        answers.append(data.group(1) if data else b'')
    name = re.sub(b'%([0-9A-F]{2})', lambda m: bytes([int(m.group(1), 16)]), answers[2])
    return 'unrestricted', answers[1], name


# How the temporary names of these sockets start; every runtime's server uses the same.
BOUND_NAMES = {b'S.gpg-agent': b'.gbd8', b'agent.sock': b'.gbbf'}


def temporary_start(path):
    return os.path.join(os.path.dirname(path), BOUND_NAMES.get(os.path.basename(path), b'.gb00'))


def listening_sockets(path):
    """The kernel's numbers for what listens at a path. It keeps the name given to bind(), which for a
    bridge is a temporary one."""
    names = re.compile(rb'^\S+ \S+ \S+ (\S+) \S+ \S+ +(\d+) (?:%s|%s[0-9a-z]{5})$'
                       % (re.escape(path), re.escape(temporary_start(path))))
    found = set()
    try:
        with open('/proc/net/unix', 'rb') as table:
            for line in table:
                match = names.match(line.rstrip(b'\n'))
                if match and int(match.group(1), 16) & 0x10000:
                    found.add(b'socket:[%s]' % match.group(2))
    except OSError:
        pass
    return found


def holds_socket(pid, sockets):
    directory = b'/proc/%s/fd' % pid
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(os.path.join(directory, name)) in sockets:
                return True
        except OSError:
            pass
    return False


def holder(path):
    """' (program, pid N)' for who listens at a path, or '' where that can't be seen."""
    sockets = listening_sockets(path)
    if not sockets:
        return ''
    for pid in os.listdir(b'/proc'):
        if pid.isdigit() and holds_socket(pid, sockets):
            try:
                with open(b'/proc/%s/comm' % pid, 'rb') as comm:
                    return ' (%s, pid %s)' % (shown(comm.readline().strip()), shown(pid))
            except OSError:
                pass
    return ''


def is_own_agent(path, pid, name):
    """A relay to the main socket of an agent elsewhere answers as that agent does, and stopping that one
    would end the agent behind it: so the agent's name for its socket has to be this socket, and its
    process one that holds it."""
    if not pid.isdigit() or identity(name, True) != identity(path, True):
        return False
    sockets = listening_sockets(path)
    # gpg-agent hides its descriptors from whoever may not trace it: then nobody is seen to hold the socket.
    return not sockets or holds_socket(pid, sockets) or not holder(path)


def leads_to_host(path, kind):
    if not host_sockets:
        return False
    directory = os.path.dirname(path)
    siblings = [b'S.gpg-agent', b'S.gpg-agent.extra'] if kind == ASSUAN else []
    names = [path] + [os.path.join(directory, name) for name in siblings]
    return any(identity(name, True) in host_sockets for name in names)


CONNECT_ERRORS = {
    errno.ECONNREFUSED: 'dead',
    errno.ENOENT: 'nothing',
    errno.EACCES: 'foreign-file',
    errno.EPROTOTYPE: 'foreign-file',
}


class Finding:
    """What is at a path: nothing, dead, own-agent, forward, hung, foreign-file or host-agent; with its
    identity, and the open connection to an agent of the target's own."""

    def __init__(self, state, there=b'', connection=None, pid=b''):
        self.state = state
        self.identity = there
        self.connection = connection
        self.pid = pid


def probe(path, kind):
    # First of all, so that the host's own agent is never asked anything.
    if leads_to_host(path, kind):
        return Finding('host-agent')
    try:
        facts = os.lstat(path)
    except OSError:
        return Finding('nothing')
    there = identity(path)
    if not stat.S_ISSOCK(facts.st_mode):
        return Finding('foreign-file', there)
    deadline = time.monotonic() + probe_seconds
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    while True:
        try:
            connection.connect(path)
            break
        except OSError as error:
            # A full backlog may pass; a socket made a moment ago may belong to a program that has yet to
            # call listen().
            fresh = error.errno == errno.ECONNREFUSED and 0 <= time.time() - facts.st_ctime < 1
            if (fresh or error.errno == errno.EAGAIN) and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            connection.close()
            return Finding(CONNECT_ERRORS.get(error.errno, 'hung'), there)
    answer, pid, name = ask(Conversation(connection, deadline), kind)
    if answer == 'unrestricted' and is_own_agent(path, pid, name):
        return Finding('own-agent', there, connection, pid)
    connection.close()
    return Finding('forward' if answer else 'hung', there)


def refuse_if_taken(path, may_take_over, finding):
    """Raises for what must not be replaced."""
    what = "can't listen on " + shown(path)
    if finding.state == 'host-agent':
        raise Failure(what, 'it leads to the agent of the host itself, which a bridge would cut off from its'
                      ' own keys', 'No bridge is needed here: programs already talk to that agent.')
    if finding.state == 'foreign-file':
        raise Failure(what, 'something that is not a socket we may use is there',
                      'Move it away if nothing needs it, then start again.')
    if finding.state == 'forward' and not may_take_over:
        raise Failure(what, 'another forward listens there%s, so signing may already work here' % holder(path),
                      'Try to sign; if that fails, stop that program, or start with --takeover to take its'
                      ' place.')


def stop_own_agent(path, connection):
    """Returns when the agent is gone: a connection that it held closes after it has removed its sockets,
    which it does by name."""
    gpgconf('--kill', 'gpg-agent')
    deadline = time.monotonic() + 5
    try:
        while True:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            if not connection.recv(4096):
                return
    except socket.timeout:
        raise Failure("can't stop the gpg-agent on " + shown(path), 'it is still there after it was told to',
                      'End it with `gpgconf --kill gpg-agent` and start again.')
    except OSError:
        return
    finally:
        connection.close()


def clear_place(path, kind, may_take_over):
    """Deals with what is at a path so that it may be replaced, or raises. Returns what was there, the
    identity of what is there now (b'' for nothing), and words about it for a person."""
    finding = probe(path, kind)
    refuse_if_taken(path, may_take_over, finding)
    said = ''
    if finding.state == 'own-agent':
        stop_own_agent(path, finding.connection)
        said = "stopped the target's own gpg-agent (pid %s), which listened on %s" % (
            shown(finding.pid), shown(path))
    elif finding.state == 'hung':
        said = 'replaced the socket %s: its listener%s does not answer' % (shown(path), holder(path))
    elif finding.state == 'forward':
        said = 'took %s over from another forward%s' % (shown(path), holder(path))
    # What an agent left behind may be replaced like a dead socket; a new thing has to be looked at.
    there = identity(path)
    return 'changed' if there and there != finding.identity else finding.state, there, said


# Listening.

USABLE = 'Make it a writable directory of your own with mode 0700.'


def unusable(directory, why):
    return Failure("can't put a socket into " + shown(directory), why, USABLE)


def make_directory(directory):
    if os.path.lexists(directory):
        return
    make_directory(os.path.dirname(directory) or b'/')
    mask = os.umask(0o077)
    try:
        os.mkdir(directory, 0o700)
        made_dirs.append(directory)
    except FileExistsError:
        pass
    finally:
        os.umask(mask)


def prepare_directory(directory):
    try:
        make_directory(directory)
        facts = os.stat(directory)
        if not stat.S_ISDIR(facts.st_mode):
            raise unusable(directory, 'it is not a directory')
        if not facts.st_mode & 0o077:
            return
        mode = '0%o' % stat.S_IMODE(facts.st_mode)
        if facts.st_uid != os.geteuid():
            raise unusable(directory, 'it belongs to user %d and others can enter it (mode %s)'
                           % (facts.st_uid, mode))
        # Root owns /tmp and /run: closing such a directory to everybody else would break the system.
        if facts.st_mode & 0o1000 or os.path.dirname(directory) == b'/':
            raise unusable(directory, 'it is shared with other users (mode %s)' % mode)
        os.chmod(directory, facts.st_mode & 0o700)
        notice('%s had mode %s: set to 0700, so that only you can enter it' % (shown(directory), mode))
    except OSError as error:
        raise unusable(directory, error.strerror)


def bind_beside(path):
    """Listens under a temporary name in the directory of a path, so that the socket has its mode before it
    has its name. The name is no longer than the shortest final one, agent.sock."""
    letters = b'abcdefghijklmnopqrstuvwxyz0123456789'
    temporary = temporary_start(path) + bytes(letters[number % 36] for number in os.urandom(5))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(temporary)
        os.chmod(temporary, 0o600)
        listening.listen(backlog)
    except OSError as error:
        remove(temporary)
        raise unusable(os.path.dirname(path), error.strerror)
    finally:
        os.umask(mask)
    listening.setblocking(False)
    return listening, temporary


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def place(temporary, path, there):
    """Gives the socket its name, if what is there is still what was looked at; without a gap when it
    replaces something. False if not."""
    if not there:
        try:
            os.link(temporary, path)
            os.unlink(temporary)
            return True
        except FileExistsError:
            return False
        except OSError:
            pass  # no hard links to sockets on this file system
    if identity(path) != there:
        return False
    os.rename(temporary, path)
    return True


def take_place(path, kind):
    """Puts a listening socket at its place, or raises."""
    for _ in range(6):
        state, there, said = clear_place(path, kind, takeover)
        if state == 'changed':
            continue
        prepare_directory(os.path.dirname(path))
        listening, temporary = bind_beside(path)
        if place(temporary, path, there):
            if said:
                notice(said)
            return listening
        remove(temporary)
    raise Failure("can't listen on " + shown(path), 'something new keeps appearing there',
                  'Stop it and start again.')


def home_of_user():
    try:
        return os.fsencode(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return b'/'


def socket_path(kind):
    if kind == ASSUAN:
        path = gpgconf('--list-dirs', 'agent-socket')
    else:
        home = os.environb.get(b'HOME') or home_of_user()
        path = os.path.join(setting('ssh-dir', os.path.join(home, b'.ssh')), b'agent.sock')
    if len(path) > PATH_MAX:
        raise Failure("can't listen on " + shown(path),
                      "its path has %d bytes and a socket's may have %d" % (len(path), PATH_MAX),
                      'Use a home or GNUPGHOME with a shorter path, or run `gpgconf --create-socketdir`.')
    return path


# Public keys.

# Options with which a user has put the keyring or the trust database somewhere else.
OTHER_KEYRING = re.compile(rb'^\s*(?:--)?(?:no-default-keyring|primary-keyring|keyring|no-keyring|trustdb-name'
                           rb'|use-keyboxd)\b', re.MULTILINE)


def keeps_keys_elsewhere(home):
    for name in (b'gpg.conf', b'common.conf'):
        try:
            with open(os.path.join(home, name), 'rb') as options:
                if OTHER_KEYRING.search(options.read()):
                    return True
        except OSError:
            pass
    return False


def keyring_program(home):
    """gpg on the user's keyring and trust database. They are named, under a home that does not exist: in
    its own home gpg asks the agent about every new key, and that would be the host's."""
    gpg = [find_program(b'gpg'), '--batch', '--no-tty', '--quiet', '--no-autostart', '--no-auto-check-trustdb']
    if keeps_keys_elsewhere(home):
        return gpg

    def within(name):
        return os.path.join(home, name)

    is_old = os.path.exists(within(b'pubring.gpg')) and not os.path.exists(within(b'pubring.kbx'))
    return gpg + ['--homedir', within(b'.no-agent-here'), '--no-options', '--no-default-keyring',
                  '--no-random-seed-file', '--keyring', within(b'pubring.gpg' if is_old else b'pubring.kbx'),
                  '--trustdb-name', within(b'trustdb.gpg')]


def import_keys(data):
    """Returns how many keys came, were new, and were there already."""
    what = "can't import the host's public keys"
    fix = 'Check that `gpg --list-keys` works in the target and that its home is writable.'
    home = gpgconf('--list-dirs', 'homedir')
    try:
        make_directory(home)  # gpg makes its default home by itself, but never one that was given to it
    except OSError as error:
        raise Failure(what, "the directory %s can't be made (%s)" % (shown(home), error.strerror), fix)
    gpg = keyring_program(home)
    # Without keep-ownertrust gpg clears what the user said about a key before they had it.
    status, text, complaint = run(data, 3600, gpg + ['--status-fd', '1', '--import-options', 'keep-ownertrust',
                                                     '--import'])
    # gpg also ends with a bad status when one key among many can't be used.
    if status and b'[GNUPG:] IMPORT_OK ' not in text:
        raise Failure(what, complaint_of(status, complaint), fix)
    result = re.search(rb'IMPORT_RES (\d+) \d+ (\d+) \d+ (\d+)', text)
    counts = result.groups() if result else (b'0', b'0', b'0')

    # Without a trust database yet the listing fails, and there is nothing to keep. A user who said
    # "never" (3) about a key meant it; 6 is ultimate.
    _, listing, _ = run(b'', 60, gpg + ['--export-ownertrust'])
    known = dict(re.findall(rb'^([0-9A-F]+):(\d+):', listing, re.MULTILINE))
    trust = b''.join(key + b':6:\n' for key in config.get('trust', ())
                     if re.match(rb'(?:[0-9A-F]{40}|[0-9A-F]{64})$', key) and known.get(key) not in (b'3', b'6'))
    if trust:
        status, _, complaint = run(trust, 60, gpg + ['--import-ownertrust'])
        if status:
            raise Failure(what, complaint_of(status, complaint), fix)
    return counts


# Serving.

class Stream:
    """One client connection."""

    __slots__ = ('id', 'fd', 'queue', 'may_send', 'may_get', 'taken', 'ending', 'deaf', 'events')

    def __init__(self, number, fd):
        self.id = number
        self.fd = fd
        self.queue = bytearray()  # bytes for the client that its socket has not taken yet
        self.may_send = CREDIT  # bytes the host lets us send
        self.may_get = CREDIT  # bytes we let the host send
        self.taken = 0  # bytes delivered to the client, not yet granted back
        self.ending = False  # the host closed it: what is queued is still delivered
        self.deaf = False  # the client takes no more bytes; what it wrote before is still read
        self.events = 0  # what the poller watches


class Listener:
    """A socket clients connect to."""

    def __init__(self, kind, path, listening):
        self.kind = kind
        self.path = path
        self.socket = listening
        self.identity = identity(path)
        self.busy = False
        self.watched = False
        self.complaint = ''


class Server:
    """Frames on one side, clients on the other."""

    def __init__(self):
        # The module selectors would serve as well, and takes longer for a turn than all that is done in it.
        self.poller = select.epoll() if hasattr(select, 'epoll') else select.poll()
        self.targets = {}  # by descriptor: a stream, or what is called when something happens to it
        self.streams = {}
        self.listeners = []
        self.jobs = set()
        self.last_id = 0
        self.accepting = False
        self.accept_batch = 1
        # Whether the host uses WINDOW. Before it has said anything, streams keep to the credit they start
        # with, which suits both.
        self.credit_used = False
        self.credit_binds = True
        self.parked = set()  # streams with something to say while the host takes no more
        self.signal = 0
        # Bytes for the host: out[out_start:out_end]. A client is read right behind a header's place.
        self.out = memoryview(bytearray(2 * OUT_HIGH))
        self.out_start = 0
        self.out_end = 0
        self.out_watched = False
        # Bytes from the host that are not yet a whole frame, and what is missing of a DATA frame.
        self.pending = bytearray()
        self.body = 0
        self.body_stream = None
        self.input = memoryview(bytearray(4 * READ_SIZE))
        self.gpg_path = None  # where the gpg socket will be, once that is known to be possible
        self.gpg_pending = False  # the first PUBKEY has not been dealt with yet
        self.keys = bytearray()
        self.importing = False

    # What goes to the host.

    def room(self, size):
        """Makes place for so many bytes at the end of what goes to the host."""
        if self.out_end + size > len(self.out):
            waiting = self.out[self.out_start:self.out_end]
            self.out = memoryview(bytearray(max(2 * OUT_HIGH, len(waiting) + size + READ_SIZE)))
            self.out[:len(waiting)] = waiting
            self.out_start, self.out_end = 0, len(waiting)

    def frame(self, kind, number, payload=b''):
        size = HEADER_SIZE + len(payload)
        self.room(size)
        HEADER.pack_into(self.out, self.out_end, LENGTH_MIN + len(payload), kind, number)
        self.out[self.out_end + HEADER_SIZE:self.out_end + size] = payload
        self.out_end += size

    def flush(self):
        try:
            self.out_start += os.write(1, self.out[self.out_start:self.out_end])
        except BlockingIOError:
            pass
        except OSError:
            self.finish(0)
        waits = self.out_start < self.out_end
        if not waits:
            self.out_start = self.out_end = 0
        if waits != self.out_watched:
            self.out_watched = waits
            if waits:
                self.register(1, WRITE, self.host_writable)
            else:
                self.unregister(1)
        if self.parked and not self.congested():
            for stream in self.parked:
                self.watch(stream, stream.events | READ)
            self.parked = set()

    def host_writable(self, _events):
        self.flush()

    def congested(self):
        return self.out_end - self.out_start > OUT_HIGH

    # Streams.

    def register(self, fd, events, target):
        self.poller.register(fd, events)
        self.targets[fd] = target

    def unregister(self, fd):
        self.poller.unregister(fd)
        del self.targets[fd]

    def watch(self, stream, events):
        if events == stream.events:
            return
        if not stream.events:
            self.register(stream.fd, events, stream)
        elif not events:
            self.unregister(stream.fd)
        else:
            self.poller.modify(stream.fd, events)
        stream.events = events

    def forget(self, stream):
        self.watch(stream, 0)
        self.parked.discard(stream)
        if self.body_stream is stream:
            self.body_stream = None
        del self.streams[stream.id]
        os.close(stream.fd)
        if not self.accepting and is_ready:
            self.accept_from_now_on(True)

    def end_stream(self, stream):
        if not stream.ending:
            self.frame(CLOSE, stream.id)
        self.forget(stream)

    def grant(self, stream):
        self.frame(WINDOW, stream.id, struct.pack('>I', stream.taken))
        stream.may_get += stream.taken
        stream.taken = 0

    def client_readable(self, stream):
        if self.out_end - self.out_start > OUT_HIGH:
            self.flush()
            if self.congested():
                self.parked.add(stream)
                self.watch(stream, stream.events & ~READ)
                return
        size = stream.may_send if self.credit_binds and stream.may_send < READ_SIZE else READ_SIZE
        start = self.out_end + HEADER_SIZE
        if start + size > len(self.out):
            self.room(HEADER_SIZE + size)
            start = self.out_end + HEADER_SIZE
        try:
            count = os.readv(stream.fd, (self.out[start:start + size],))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            self.end_stream(stream)
            return
        HEADER.pack_into(self.out, self.out_end, LENGTH_MIN + count, DATA, stream.id)
        self.out_end = start + count
        stream.may_send -= count
        if stream.may_send <= 0 and self.credit_binds:
            self.watch(stream, stream.events & ~READ)

    def client_writable(self, stream):
        try:
            count = os.write(stream.fd, stream.queue)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = len(stream.queue)
            stream.deaf = True
        del stream.queue[:count]
        stream.taken += count
        if not stream.queue:
            self.watch(stream, stream.events & ~WRITE)
            if stream.ending:
                self.forget(stream)
                return
        if self.credit_used and stream.taken >= GRANT and not stream.ending:
            self.grant(stream)

    def deliver(self, stream, data):
        """Hands bytes from the host to a client."""
        size = len(data)
        count = 0
        if stream.deaf:
            count = size
        elif not stream.queue:
            try:
                count = os.write(stream.fd, data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                count = size
                stream.deaf = True
        if count < size:
            stream.queue += data[count:]
            self.watch(stream, stream.events | WRITE)
            if not self.credit_used and len(stream.queue) > QUEUE_MAX:
                note('stream %d closed: its client does not read' % stream.id)
                self.end_stream(stream)
                return
        stream.taken += count
        if stream.taken >= GRANT and self.credit_used:
            self.grant(stream)

    def ready_stream(self, stream, events):
        # An earlier event of the same turn may have changed what is watched, or ended the stream. An error
        # or the other's end (neither READ nor WRITE) counts as both.
        if events & ~READ and stream.events & WRITE:
            self.client_writable(stream)
        if events & ~WRITE and stream.events & READ:
            self.client_readable(stream)

    # Frames from the host.

    def host_readable(self, _events):
        try:
            count = os.readv(0, (self.input,))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            self.finish(0)
        if self.pending:
            # A frame that is not DATA, or a header, cut by the carrier.
            self.pending += self.input[:count]
            whole = self.pending
            self.pending = bytearray()
            with memoryview(whole) as view:
                at = self.parse(view, len(whole))
            self.pending = whole[at:]
        else:
            at = self.parse(self.input, count)
            if at < count:
                self.pending += self.input[at:count]

    def parse(self, data, end):
        """Handles the frames in data and returns how far that went."""
        at = 0
        while at < end:
            if not self.body:
                if end - at < HEADER_SIZE:
                    if end - at >= 4:
                        self.check_length(int.from_bytes(data[at:at + 4], 'big'))
                    break
                length, kind, number = HEADER.unpack_from(data, at)
                if not LENGTH_MIN <= length <= LENGTH_MAX:
                    self.check_length(length)
                if not self.credit_used and self.credit_binds and kind in (DATA, CLOSE):
                    self.settle_credit(False)
                if kind != DATA:
                    if end - at < 4 + length:
                        break
                    self.whole_frame(kind, number, data[at + HEADER_SIZE:at + 4 + length])
                    at += 4 + length
                    continue
                at += HEADER_SIZE
                self.body = length - LENGTH_MIN
                self.body_stream = self.begin_data(self.streams.get(number), self.body)
            count = self.body if self.body < end - at else end - at
            if count and self.body_stream:
                self.deliver(self.body_stream, data[at:at + count])
            at += count
            self.body -= count
        return at

    def check_length(self, length):
        if not LENGTH_MIN <= length <= LENGTH_MAX:
            self.fail(['the bridge broke: the host announced a frame of %d bytes, and only %d to %d are'
                       ' possible. Start the bridge again.' % (length, LENGTH_MIN, LENGTH_MAX)])

    def whole_frame(self, kind, number, payload):
        if kind == CLOSE and number in self.streams:
            self.host_closed(self.streams[number])
        elif kind == WINDOW and len(payload) == 4:
            self.host_granted(number, int.from_bytes(payload, 'big'))
        elif kind == PUBKEY:
            self.keys_arrived(bytes(payload))

    def begin_data(self, stream, size):
        """The stream that takes a DATA payload of this size, if one does."""
        if not stream or stream.ending:
            return None
        stream.may_get -= size
        if stream.may_get < 0 and self.credit_used:
            note('stream %d closed: the host sent more than its credit' % stream.id)
            self.end_stream(stream)
            return None
        return stream

    def host_closed(self, stream):
        if not stream.queue:
            self.forget(stream)
            return
        stream.ending = True
        self.parked.discard(stream)
        self.watch(stream, WRITE)

    def settle_credit(self, used):
        self.credit_used = self.credit_binds = used
        for stream in list(self.streams.values()):
            if stream.ending or stream in self.parked:
                continue
            may_read = not used or stream.may_send > 0
            self.watch(stream, stream.events | READ if may_read else stream.events & ~READ)
            if used and stream.taken >= GRANT:
                self.grant(stream)

    def host_granted(self, number, credit):
        if not self.credit_used:
            self.settle_credit(True)
        stream = self.streams.get(number)
        if stream and not stream.ending:
            stream.may_send += credit
            if stream.may_send > 0 and stream not in self.parked:
                self.watch(stream, stream.events | READ)

    # Listening.

    def establish(self, path, kind):
        listener = Listener(kind, path, take_place(path, kind))
        self.listeners.append(listener)
        self.watch_listener(listener)

    def watch_listener(self, listener):
        if listener.watched == self.accepting:
            return
        listener.watched = self.accepting
        if self.accepting:
            self.register(listener.socket.fileno(), READ, lambda _events: self.accept_clients(listener))
        else:
            self.unregister(listener.socket.fileno())

    def accept_from_now_on(self, on):
        self.accepting = on
        for listener in self.listeners:
            self.watch_listener(listener)

    def accept_clients(self, listener):
        """Usually one client comes at a time, and asking for a second costs a call that fails: so more are
        asked for only while they do come."""
        for _ in range(self.accept_batch):
            if len(self.streams) >= max_streams:
                self.accept_from_now_on(False)
                return
            try:
                # accept() does this and wraps the descriptor in an object, which takes longer than the rest.
                fd = listener.socket._accept()[0]
            except BlockingIOError:
                self.accept_batch = 1
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    # Without descriptors the clients wait in the backlog, until a stream ends.
                    self.accept_from_now_on(False)
                    return
                continue
            os.set_blocking(fd, False)
            self.last_id += 1
            stream = Stream(self.last_id, fd)
            self.streams[stream.id] = stream
            self.watch(stream, READ)
            self.frame(OPEN, stream.id, listener.kind.encode())
        if self.accept_batch < ACCEPT_BATCH:
            self.accept_batch *= 2

    def check_place(self, listener):
        """Something else at our path is noticed here and the place taken back; but not from a forward,
        which somebody put there on purpose: two bridges that both insist would never end."""
        if listener.busy or identity(listener.path) == listener.identity:
            return
        listener.busy = True

        def done(error, state='', there=b'', said=''):
            listener.busy = False
            if not error and state != 'changed':
                try:
                    self.take_back(listener, there, said)
                except (Failure, OSError) as failure:
                    error = reason(failure)
            if error and error != listener.complaint:
                note('something replaced the socket %s: %s' % (shown(listener.path), error))
            listener.complaint = error

        def work():
            state, there, said = clear_place(listener.path, listener.kind, False)
            return state, shown(there), said

        # Asking and stopping an agent takes time, in which the streams go on.
        self.in_child(work, done)

    def take_back(self, listener, there, said):
        prepare_directory(os.path.dirname(listener.path))
        listening, temporary = bind_beside(listener.path)
        if not place(temporary, listener.path, there.encode()):
            remove(temporary)
            listening.close()
            return
        if said:
            note(said)
        note('something replaced or removed the socket %s: took its place back' % shown(listener.path))
        self.accept_batch = ACCEPT_BATCH
        if self.accepting:
            self.accept_clients(listener)  # those who had connected to the old one
        if listener.watched:
            self.unregister(listener.socket.fileno())
            listener.watched = False
        listener.socket.close()
        listener.socket = listening
        listener.identity = identity(listener.path)
        self.watch_listener(listener)

    def in_child(self, work, done):
        """Does blocking work in a process of its own, so that streams go on meanwhile. The texts it returns
        are handed to done, after the error it raised or ''."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.setpgid(0, 0)  # it and what it runs end together
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL)
                # A copy of a client's socket held here would hide its end from the client.
                for stream in self.streams.values():
                    os.close(stream.fd)
                for listener in self.listeners:
                    os.close(listener.socket.fileno())
                null = os.open('/dev/null', os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 1)
                try:
                    fields = ('',) + tuple(work())
                except Exception as error:
                    fields = (reason(error),)
                os.write(writer, '\0'.join(fields).encode('utf-8', 'surrogateescape'))
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        self.jobs.add(child)
        answer = bytearray()

        def readable(_events):
            try:
                piece = os.read(reader, READ_SIZE)
            except BlockingIOError:  # an event of the same turn, for what had this descriptor before
                return
            if piece:
                answer.extend(piece)
                return
            self.unregister(reader)
            os.close(reader)
            os.waitpid(child, 0)
            self.jobs.discard(child)
            fields = bytes(answer).decode('utf-8', 'surrogateescape').split('\0') if answer else []
            # An answer without an error starts with an empty field.
            done(*(fields if answer else ['a helper process was killed']))

        os.set_blocking(reader, False)
        self.register(reader, READ, readable)

    # Public keys.

    def keys_arrived(self, data):
        if not setting('gpg'):
            return
        if len(self.keys) + len(data) > KEYS_MAX:
            note('dropped public keys: too many wait for gpg')
            return
        self.keys += data
        if not self.importing:
            self.import_next()

    def import_next(self):
        """One gpg at a time takes all that has come; the first one is waited for before the gpg socket is
        made."""
        if not self.keys or self.gpg_path is None:
            self.keys = bytearray()
            if self.gpg_pending:
                self.gpg_ready()
            return
        batch = bytes(self.keys)
        self.keys = bytearray()
        self.importing = True

        def done(error, *counts):
            self.importing = False
            if error:
                notice(error)
            else:
                note('imported public keys: %s received, %s new, %s unchanged' % counts)
            if self.gpg_pending:
                self.gpg_ready()
            if self.keys:
                self.import_next()

        self.in_child(lambda: [count.decode() for count in import_keys(batch)], done)

    # Start and end.

    def look_at_gpg(self):
        """What must not be replaced is known before the keyring is touched."""
        path = socket_path(ASSUAN)
        finding = probe(path, ASSUAN)
        if finding.connection:
            finding.connection.close()
        refuse_if_taken(path, takeover, finding)
        home = gpgconf('--list-dirs', 'homedir')
        try:
            names = os.listdir(os.path.join(home, b'private-keys-v1.d'))
        except OSError:
            names = []
        if any(name.endswith(b'.key') for name in names):
            notice("the private keys in %s can't be used while the bridge is up" % shown(home))
        self.gpg_path = path

    def gpg_ready(self):
        self.gpg_pending = False
        if self.gpg_path is not None:
            self.attempt(lambda: self.establish(self.gpg_path, ASSUAN))
        self.ready()

    def attempt(self, step):
        try:
            step()
        except (Failure, OSError) as error:
            notice(reason(error))

    def ready(self):
        global is_ready
        if not self.listeners:
            self.fail(warnings or ['the socket server has nothing to do: no socket was asked for. Ask for one.'])
        self.frame(READY, 0, json({
            'version': 2,
            'features': ['window', 'pubkey-more'],
            'runtime': 'python',
            'sockets': [{'type': each.kind, 'path': shown(each.path)} for each in self.listeners],
            'warnings': warnings,
        }).encode('utf-8', 'replace'))
        is_ready = True
        self.accept_from_now_on(True)

    def fail(self, errors):
        """Tells the host why there is no bridge, and ends."""
        self.frame(ERROR, 0, '\n'.join(errors).encode('utf-8', 'replace')[:60000])
        os.set_blocking(1, True)
        try:
            while self.out_start < self.out_end:
                self.out_start += os.write(1, self.out[self.out_start:self.out_end])
        except OSError:
            pass
        self.finish(1)

    def finish(self, status):
        """Removes what is ours and ends."""
        for listener in self.listeners:
            if identity(listener.path) == listener.identity:
                remove(listener.path)
        for directory in reversed(made_dirs):
            try:
                os.rmdir(directory)  # one that is in use by now stays
            except OSError:
                pass
        for child in self.jobs:
            for kill in (signal.SIGTERM, signal.SIGKILL):
                self.kill_group(child, kill)
                deadline = time.monotonic() + 2
                while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG) == (0, 0):
                    time.sleep(0.01)
                else:
                    if time.monotonic() < deadline:
                        break
        os._exit(status)

    def kill_group(self, child, number):
        try:
            os.killpg(child, number)
        except OSError:
            pass

    def serve(self):
        monotonic = time.monotonic
        next_check = monotonic() + watch_seconds
        poll = self.poller.poll
        targets = self.targets
        # epoll counts in seconds, poll in milliseconds.
        patience = watch_seconds if hasattr(select, 'epoll') else watch_seconds * 1000
        while True:
            ready = poll(patience)
            for fd, events in ready:
                target = targets.get(fd)
                if type(target) is Stream:
                    self.ready_stream(target, events)
                elif target:
                    target(events)
            if self.out_end:
                self.flush()
            if self.signal:
                self.finish(128 + self.signal)
            if not ready or monotonic() >= next_check:
                # Descriptors that were missing may be there again.
                if not self.accepting and is_ready and len(self.streams) < max_streams:
                    self.accept_from_now_on(True)
                for listener in self.listeners:
                    self.check_place(listener)
                next_check = monotonic() + watch_seconds

    def start(self):
        # A signal wakes the poller through this pair; the handler alone would wait for its next event.
        waker, woken = socket.socketpair()
        for end in (waker, woken):
            end.setblocking(False)
        signal.set_wakeup_fd(woken.fileno())
        self.waker = (waker, woken)
        self.register(waker.fileno(), READ, lambda _events: waker.recv(64))
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self.on_signal)
        for fd in (1, 2):
            os.set_blocking(fd, False)
        self.register(0, READ, self.host_readable)
        if setting('ssh'):
            self.attempt(lambda: self.establish(socket_path(SSH), SSH))
        if setting('gpg'):
            self.gpg_pending = True
            self.attempt(self.look_at_gpg)
        else:
            self.ready()
        self.flush()
        self.serve()

    def on_signal(self, number, _frame):
        self.signal = number


server = Server()
try:
    server.start()
except Exception as error:
    note('the socket server failed: %r' % error)
    server.finish(1)
