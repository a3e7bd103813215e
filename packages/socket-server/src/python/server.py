# The socket server for targets that have Python 3.6 or later; the modules of python3-minimal are enough (no
# json). The loader of launch.ts runs this text with the settings in CONFIG and frames on stdin and stdout. It
# is one text because it travels through a pipe; server.pl and main.ts behave the same. What is done in a
# target is decided on the host: docs/protocol.md has the frames and the operations. Paths and output of
# programs are bytes throughout: a target's locale decides nothing here.
import _signal  # signal and socket add nothing that is used here, and take longer to load than the rest
import _socket
import errno
import os
import select
import struct
import sys
import time

# Frame: uint32 length of what follows, uint8 type, uint32 stream, payload.
VERSION, HEADER, LENGTH_MIN, LENGTH_MAX = 3, struct.Struct('>IBI'), 5, 1048576
DATA, OPEN, CLOSE, PUBKEY, READY, ERROR, WINDOW, EOF = 1, 2, 3, 4, 5, 6, 7, 8
CALL, RESULT, CHANGED = 11, 12, 13
CREDIT, GRANT = 262144, 131072  # bytes; GRANT are delivered before they are given back
# Bytes read at once, unsent bytes for the host at which clients are not read, clients accepted in one turn.
READ_SIZE, OUT_HIGH, ACCEPT_BATCH = 65536, 262144, 64
# Bytes kept for a program's stdin, of its output, and of a file or a listener's reply.
KEYS_MAX, STDOUT_MAX, STDERR_MAX, REPLY_MAX = 67108864, 262144, 16384, 65536
PATH_MAX = 107 if sys.platform.startswith('linux') else 103  # bytes of a socket's path
TICK = 0.05  # seconds between looks at jobs
READ, WRITE = select.POLLIN, select.POLLOUT  # epoll has the same numbers


class Stream:
    """One client connection."""

    __slots__ = ('id', 'fd', 'queue', 'may_send', 'may_get', 'taken', 'ended', 'deaf')

    def __init__(self, number, fd):
        self.id, self.fd = number, fd
        self.queue = bytearray()  # bytes for the client that its socket has not taken yet
        self.may_send = self.may_get = CREDIT  # bytes the host lets us send, and we the host
        self.taken = 0  # bytes delivered to the client, not yet granted back
        self.ended = False  # the client has sent its last byte
        self.deaf = False  # the client takes no more bytes; what it wrote before is still read


class Job:
    """A program that runs, or a listener that is asked."""

    def __init__(self, seconds, fds, check):
        self.deadline, self.fds, self.check = time.monotonic() + seconds, fds, check
        self.texts, self.open, self.status = [], 0, None


class Listener:
    """A socket that clients connect to."""

    def __init__(self, kind, path, listening, there):
        self.type, self.path, self.socket, self.identity, self.seen = kind, path, listening, there, there


# All settings are numbers, which percent-encoding leaves as they are.
setting = dict(line.split(b'=', 1) for line in CONFIG.split(b'\n') if b'=' in line)  # noqa: F821
max_streams = int(setting.get(b'max-streams', 4096))
watch_seconds = int(setting.get(b'watch-ms', 2000)) / 1000

received, received_end = memoryview(bytearray(LENGTH_MAX + 5 * READ_SIZE)), 0  # bytes from the host
out = bytearray()  # bytes for the host not yet written
chunk = memoryview(bytearray(READ_SIZE))
# The module selectors would serve as well, and takes longer for a turn than all that is done in it.
poller = select.epoll() if hasattr(select, 'epoll') else select.poll()
watched, on_read, on_write = {}, {}, {}  # by descriptor: events, and a stream or what is called for them
parked = set()  # streams that are not read while the host takes no more
streams, listeners, jobs, made_dirs = {}, {}, {}, []
last_id, accepting, accept_batch = 0, True, 1
keys = bytearray()  # bytes for the stdin of the next program; None: too many came
signal, umask = 0, os.umask(0o177)


# Frames to the host.

def note(text):
    try:
        os.write(2, b'%s\n' % text.encode('utf-8', 'replace'))
    except OSError:
        pass


def frame(kind, number, payload=b''):
    global out
    out += HEADER.pack(LENGTH_MIN + len(payload), kind, number)
    out += payload


def flush():
    global parked
    try:
        del out[:os.write(1, out)]
    except BlockingIOError:
        pass
    except OSError:
        finish(0)
    if out or 1 in on_write:
        watch_write(1, flush if out else None)
    if parked and len(out) <= OUT_HIGH:
        for stream in parked:
            watch_read(stream.fd, stream)
        parked = set()


def fail(text):
    """Tells the host why the bridge ends, and ends."""
    frame(ERROR, 0, text.encode())
    os.set_blocking(1, True)
    while out:
        flush()
    finish(1)


# Descriptors.

def watch(fd, events):
    before = watched.get(fd, 0)
    if events == before:
        return
    if not before:
        poller.register(fd, events)
    elif events:
        poller.modify(fd, events)
    else:
        poller.unregister(fd)
    watched[fd] = events


def watch_read(fd, target=None):
    """Calls target whenever a descriptor can be read; without target nothing any more."""
    on_read[fd] = target
    watch(fd, watched.get(fd, 0) & WRITE | (READ if target else 0))


def watch_write(fd, target=None):
    on_write[fd] = target
    watch(fd, watched.get(fd, 0) & READ | (WRITE if target else 0))


def detach(fd):
    watch_read(fd)
    watch_write(fd)
    os.close(fd)


# Streams.

def end_stream(stream):
    """One that the host closed is no longer in streams, and the host is not told of its end."""
    if streams.pop(stream.id, None):
        frame(CLOSE, stream.id)
    parked.discard(stream)
    detach(stream.fd)
    if not accepting:
        accept_from_now_on(True)


def grant(stream):
    frame(WINDOW, stream.id, struct.pack('>I', stream.taken))
    stream.may_get += stream.taken
    stream.taken = 0


def client_readable(stream):
    global out
    if len(out) > OUT_HIGH:
        flush()
        if len(out) > OUT_HIGH:
            parked.add(stream)
            watch_read(stream.fd)
            return
    try:
        count = os.readv(stream.fd, (chunk if stream.may_send >= READ_SIZE else chunk[:stream.may_send],))
    except (BlockingIOError, InterruptedError):
        return
    except OSError:
        end_stream(stream)
        return
    if not count:
        nothing_read(stream)
        return
    out += HEADER.pack(LENGTH_MIN + count, DATA, stream.id)
    out += chunk[:count]
    stream.may_send -= count
    if stream.may_send <= 0:
        watch_read(stream.fd)


def nothing_read(stream):
    if stream.deaf:
        end_stream(stream)
        return
    stream.ended = True
    watch_read(stream.fd)
    frame(EOF, stream.id)


def client_writable(stream):
    try:
        count = os.write(stream.fd, stream.queue)
    except (BlockingIOError, InterruptedError):
        return
    except OSError:
        if stream.ended:
            end_stream(stream)
            return
        stream.deaf = True
        count = len(stream.queue)
    del stream.queue[:count]
    stream.taken += count
    if not stream.queue:
        watch_write(stream.fd)
    if stream.id in streams:
        if stream.taken >= GRANT:
            grant(stream)
    elif not stream.queue:
        end_stream(stream)


# Frames from the host.

def host_readable():
    global received_end
    try:
        count = os.readv(0, (received[received_end:received_end + 4 * READ_SIZE],))
    except (BlockingIOError, InterruptedError):
        return
    except OSError:
        count = 0
    if not count:
        finish(0)
    at, end = 0, received_end + count
    while end - at >= 4:
        length, kind, number = HEADER.unpack_from(received, at)
        if not LENGTH_MIN <= length <= LENGTH_MAX:
            fail('the bridge broke: the host announced a frame of %d bytes, and only %d to %d are possible. Start the'
                 ' bridge again.' % (length, LENGTH_MIN, LENGTH_MAX))
        if end - at < 4 + length:
            break
        payload = received[at + HEADER.size:at + 4 + length]
        if kind != DATA:
            host_sent(kind, number, bytes(payload))
        elif number in streams:
            deliver(streams[number], payload)
        at += 4 + length
    if 0 < at < end:
        received[:end - at] = received[at:end]
    received_end = end - at


def deliver(stream, data):
    size = count = len(data)
    stream.may_get -= size
    if stream.may_get < 0:
        note('stream %d closed: the host sent more than its credit' % stream.id)
        end_stream(stream)
        return
    if not stream.deaf:
        try:
            count = 0 if stream.queue else os.write(stream.fd, data)
        except OSError:
            count = 0  # an error is met again when the queue is written
    if count < size:
        stream.queue += data[count:]
        watch_write(stream.fd, stream)
    stream.taken += count
    if stream.taken >= GRANT:
        grant(stream)


def host_sent(kind, number, payload):
    global keys
    stream = streams.get(number)
    if kind == CALL:
        call(number, payload)
    elif kind == PUBKEY and keys is not None:
        keys = keys + payload if len(keys) + len(payload) <= KEYS_MAX else None
    elif kind == CLOSE and stream:
        del streams[number]
        parked.discard(stream)
        watch_read(stream.fd)
        if not stream.queue:
            end_stream(stream)
    elif kind == WINDOW and stream and len(payload) == 4:
        stream.may_send += int.from_bytes(payload, 'big')
        if stream.may_send > 0 and not stream.ended and stream not in parked:
            watch_read(stream.fd, stream)


# Operations: each returns the fields of its result, or raises OSError, or returns None if its job answers later.

def call(number, payload):
    fields, at = [], 0
    while at < len(payload):
        size = int.from_bytes(payload[at:at + 4], 'big')
        fields.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    if at != len(payload) or not fields:
        return refuse(number, errno.EINVAL)
    name, arguments = fields[0], fields[1:]
    if name not in OPERATIONS:
        return refuse(number, errno.ENOSYS)
    letters, operation = OPERATIONS[name]
    if name == b'run':
        letters += 't' * (len(arguments) - 2)
    if len(arguments) != len(letters) or not all(ARGUMENT[letter](text) for letter, text in zip(letters, arguments)):
        return refuse(number, errno.EINVAL)
    try:
        result = operation(number, *arguments)
    except OSError as error:
        return refuse(number, error.errno)
    if result is not None:
        answer(number, *result)


def pack_fields(fields):
    return b''.join(struct.pack('>I', len(field)) + field for field in fields)


def answer(number, *fields):
    payload = pack_fields((b'ok',) + fields)
    if len(payload) > LENGTH_MAX - LENGTH_MIN:
        return refuse(number, errno.EMSGSIZE)
    frame(RESULT, number, payload)


def refuse(number, error):
    frame(RESULT, number, pack_fields((errno.errorcode.get(error, 'EIO').encode(), os.strerror(error).encode())))


# Files.

def identity(path):
    try:
        facts = os.lstat(path)
    except OSError:
        return b''
    return b'%d:%d' % (facts.st_dev, facts.st_ino)


def facts_of(facts):
    return [b'%d' % fact for fact in (facts.st_dev, facts.st_ino, facts.st_mode, facts.st_uid,
                                      int(time.time()) - int(facts.st_ctime))]


def read_start(_, path):
    # Without O_NONBLOCK the open of a pipe waits for its writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        data = piece = os.read(fd, REPLY_MAX)
        while piece and len(data) < REPLY_MAX:
            piece = os.read(fd, REPLY_MAX - len(data))
            data += piece
    finally:
        os.close(fd)
    return [data]


def which(_, name):
    directories = os.environb.get(b'PATH', b'/usr/bin:/bin').split(b':')
    for path in [name] if b'/' in name else [one + b'/' + name for one in directories if one.startswith(b'/')]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return [path]
    raise OSError(errno.ENOENT, '')


def make_directory(_, path):
    end = 0
    while end < len(path):
        end = (path.find(b'/', end + 1) + 1 or len(path) + 1) - 1
        directory = path[:end]
        if os.path.exists(directory):
            continue
        try:
            os.mkdir(directory)
        except FileExistsError:
            continue
        made_dirs.append(directory)
        os.chmod(directory, 0o700)
    return []


def change_mode(_, path, mode):
    os.chmod(path, int(mode))
    return []


# Jobs: programs that run and listeners that are asked, while everything else goes on.

def collect(job, fd, most):
    """Reads a descriptor to its end, and keeps the last bytes."""
    text = bytearray()
    job.texts.append(text)
    job.open += 1
    os.set_blocking(fd, False)

    def readable():
        try:
            piece = os.read(fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b''
        text.extend(piece)
        del text[:-most]
        if not piece:
            job.open -= 1
            job.fds.remove(fd)
            detach(fd)
    watch_read(fd, readable)


def feed(job, fd, data):
    """Writes bytes to a descriptor, and closes it then if it is not read."""
    data = memoryview(data)
    os.set_blocking(fd, False)

    def writable():
        nonlocal data
        try:
            data = data[os.write(fd, data[:READ_SIZE]):]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b''
        if not data and on_read.get(fd):
            watch_write(fd)
        elif not data:
            job.fds.remove(fd)
            detach(fd)
    watch_write(fd, writable)


def check_jobs():
    try:
        pid = 1
        while pid:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in jobs:
                jobs[pid].status = status
    except ChildProcessError:
        pass
    for key, job in list(jobs.items()):
        if job.check(job, time.monotonic() >= job.deadline):
            del jobs[key]
            for fd in job.fds:
                detach(fd)


def run_program(number, seconds, *argv):
    global keys
    data, keys = keys, bytearray()
    if data is None:
        raise OSError(errno.ENOBUFS, '')
    program, = which(number, argv[0])
    fds = []
    try:
        for _ in range(3):
            fds += os.pipe()
        pid = os.fork()
    except OSError:
        for fd in fds:
            os.close(fd)
        raise
    in_r, in_w, out_r, out_w, err_r, err_w = fds
    if not pid:
        try:
            os.setpgid(0, 0)  # it and what it runs end together
            os.umask(umask)
            for name in ('SIGPIPE', 'SIGXFSZ', 'SIGTERM', 'SIGHUP', 'SIGINT', 'SIGCHLD'):
                _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
            for fd, stdio in ((in_r, 0), (out_w, 1), (err_w, 2)):
                os.dup2(fd, stdio)
            os.environb[b'LC_ALL'] = b'C'
            os.execv(program, argv)
        finally:
            os._exit(127)
    for fd in (in_r, out_w, err_w):
        os.close(fd)

    def check(job, is_late):
        if not job.open and job.status is not None:
            status = 128 + (job.status & 127) if job.status & 127 else job.status >> 8
            answer(number, b'%d' % status, *job.texts)
        elif is_late:
            kill(pid, _signal.SIGKILL)
            refuse(number, errno.ETIMEDOUT)
        else:
            return False
        return True
    job = jobs[pid] = Job(int(seconds), {in_w, out_r, err_r}, check)
    collect(job, out_r, STDOUT_MAX)
    collect(job, err_r, STDERR_MAX)
    feed(job, in_w, data)


def kill(pid, number):
    for target in (-pid, pid):
        try:
            os.kill(target, number)
        except OSError:
            pass


def ask_listener(number, path, milliseconds, count, text, data):
    if len(path) > PATH_MAX:
        raise OSError(errno.ENAMETOOLONG, '')
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.setblocking(False)
    connection.connect(path)
    fd = connection.detach()

    def check(job, is_late):
        reply = bytes(job.texts[0][:REPLY_MAX])
        is_enough = len(reply) == REPLY_MAX or len(reply) >= int(count) and text in reply
        reason = b'enough' if is_enough else b'closed' if not job.open else b'timeout' if is_late else None
        if reason:
            answer(number, reason, reply)
        return reason
    job = jobs[b'%d' % fd] = Job(int(milliseconds) / 1000, {fd}, check)
    collect(job, fd, 2 * REPLY_MAX)
    feed(job, fd, data)


# Listening.

NO_LINKS = {getattr(errno, name, None) for name in
            ('EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL', 'EACCES')}


def place(temporary, path, expected):
    """Gives a socket its path, if what is there is still what the host expects."""
    if not expected:
        try:
            os.link(temporary, path)
            return os.unlink(temporary)
        except OSError as error:
            if error.errno not in NO_LINKS:  # that the file system has no hard links to sockets
                raise
    if identity(path) != expected:
        raise OSError(errno.EEXIST, '')
    os.rename(temporary, path)


def bind_socket(_, kind, path, temporary, expected, backlog):
    """The socket has its mode before it has its path."""
    if len(path) > PATH_MAX or len(temporary) > PATH_MAX:
        raise OSError(errno.ENAMETOOLONG, '')
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listening.setblocking(False)
    listening.bind(temporary)
    try:
        os.chmod(temporary, 0o600)
        listening.listen(int(backlog))
        place(temporary, path, expected)
        facts = os.lstat(path)
    except OSError:
        remove(temporary)
        raise
    there = b'%d:%d' % (facts.st_dev, facts.st_ino)
    old, listeners[kind] = listeners.get(kind), Listener(kind, path, listening, there)
    accept_from_now_on(accepting)
    if old:
        accept_clients(old, True)
        remove_listener(old)
    return there.split(b':')


def release(_, kind):
    if kind in listeners:
        remove_listener(listeners.pop(kind))
    return []


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def remove_listener(listener):
    if identity(listener.path) == listener.identity:
        remove(listener.path)
    detach(listener.socket.detach())


def check_paths():
    """Tells the host of something else at a socket's path, once for each thing that appears there."""
    for listener in listeners.values():
        there = identity(listener.path)
        if there != listener.seen:
            listener.seen = there
            if there != listener.identity:
                frame(CHANGED, 0, listener.type)


def accept_from_now_on(on):
    global accepting
    accepting = on
    for listener in listeners.values():
        watch_read(listener.socket.fileno(), listener if on else None)


def accept_clients(listener, is_closing=False):
    """Usually one client comes at a time, and asking for a second costs a call that fails: so more are asked for
    only while they do come. A socket that is about to be closed is emptied."""
    global last_id, accept_batch
    left = accept_batch
    while is_closing or left > 0:
        left -= 1
        if not is_closing and len(streams) >= max_streams:
            return accept_from_now_on(False)
        try:
            fd = listener.socket._accept()[0]
        except BlockingIOError:
            accept_batch = 1
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # Without descriptors the clients wait in the backlog, until a stream ends.
                return accept_from_now_on(False)
            continue
        os.set_blocking(fd, False)
        last_id += 1
        streams[last_id] = stream = Stream(last_id, fd)
        watch_read(fd, stream)
        frame(OPEN, last_id, listener.type)
    if accept_batch < ACCEPT_BATCH:
        accept_batch *= 2


# Their arguments: a number, text without a zero byte (a path), the identity of a file, any bytes.
ARGUMENT = {
    'n': lambda text: text.isdigit() and len(text) < 10,
    't': lambda text: b'\0' not in text,
    'i': lambda text: not text or text.count(b':') == 1 and all(part.isdigit() for part in text.split(b':')),
    'b': lambda text: True,
}
OPERATIONS = {
    b'stat': ('t', lambda _, path: facts_of(os.stat(path))),
    b'lstat': ('t', lambda _, path: facts_of(os.lstat(path))),
    b'readlink': ('t', lambda _, path: [os.readlink(path)]),
    b'list': ('t', lambda _, path: os.listdir(path)),
    b'read': ('t', read_start),
    b'which': ('t', which),
    b'run': ('nt', run_program),
    b'mkdir': ('t', make_directory),
    b'chmod': ('tn', change_mode),
    b'ask': ('tnnbb', ask_listener),
    b'bind': ('bttin', bind_socket),
    b'release': ('b', release),
}


# Start and end.

def ready():
    spoken = setting.get(b'protocol', b'none').decode()
    if spoken != str(VERSION):
        fail("can't start the bridge: the host speaks version %s of the protocol, and the socket server version %d."
             ' Install one version of GPG Bridge.' % (spoken, VERSION))
    home = os.environb.get(b'HOME') or home_of_user()
    try:
        home = home.decode()
    except UnicodeDecodeError:
        home = home.decode('latin-1')
    home = ''.join('\\u%04x' % ord(one) if one < ' ' or one in '"\\\x7f' else one for one in home)
    try:
        boot = ',"boot":"%s"' % read_start(0, '/proc/sys/kernel/random/boot_id')[0].decode().strip()
    except OSError:
        boot = ''
    # freebsd13, sunos5
    frame(READY, 0, ('{"version":%d,"runtime":"python","system":"%s","uid":%d,"home":"%s"%s}' % (
        VERSION, sys.platform.rstrip('0123456789'), os.geteuid(), home, boot)).encode())


def home_of_user():
    import pwd
    try:
        return os.fsencode(pwd.getpwuid(os.geteuid()).pw_dir) or b'/'
    except KeyError:
        return b'/'


def finish(status):
    """Removes what is ours and ends."""
    for listener in listeners.values():
        remove_listener(listener)
    for directory in reversed(made_dirs):
        try:
            os.rmdir(directory)  # one that is in use by now stays
        except OSError:
            pass
    pids = [key for key in jobs if type(key) is int]
    for pid in pids:
        kill(pid, _signal.SIGTERM)
    for _ in range(int(2 / TICK)):
        pids = [pid for pid in pids if is_running(pid)]
        if not pids:
            break
        time.sleep(TICK)
    for pid in pids:
        kill(pid, _signal.SIGKILL)
    os._exit(status)


def is_running(pid):
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def serve():
    now = time.monotonic()
    next_check = now + watch_seconds
    unit = 1 if hasattr(select, 'epoll') else 1000  # epoll counts in seconds, poll in milliseconds
    poll = poller.poll
    while not signal:
        ready = poll((TICK if jobs else watch_seconds) * unit)
        for fd, events in ready:
            # An earlier event of the same turn may have changed what is watched. An error or the other's end
            # (neither READ nor WRITE) counts as both.
            if events & ~READ:
                target = on_write.get(fd)
                if type(target) is Stream:
                    client_writable(target)
                elif target:
                    target()
            if events & ~WRITE:
                target = on_read.get(fd)
                if type(target) is Stream:
                    client_readable(target)
                elif type(target) is Listener:
                    accept_clients(target)
                elif target:
                    target()
        if jobs:
            check_jobs()
        now = time.monotonic()
        if not ready or now >= next_check:
            # Descriptors that were missing may be there again.
            if not accepting and len(streams) < max_streams:
                accept_from_now_on(True)
            check_paths()
            next_check = now + watch_seconds
        if out:
            flush()
    finish(128 + signal)


def on_signal(number, _frame):
    global signal
    if number != _signal.SIGCHLD:
        signal = number


try:
    # A signal wakes the poller through this pipe; the handler alone would wait for its next event.
    woken, waker = os.pipe()
    for fd in (woken, waker, 1, 2):
        os.set_blocking(fd, False)
    _signal.set_wakeup_fd(waker)
    watch_read(woken, lambda: os.read(woken, 64))
    for number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT, _signal.SIGCHLD):
        _signal.signal(number, on_signal)
    watch_read(0, host_readable)
    ready()
    flush()
    serve()
except Exception as error:
    note('the socket server failed: %r' % error)
    finish(1)
