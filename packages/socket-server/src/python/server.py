# The socket server for targets that have Python 3.6 or later; the modules of python3-minimal are enough: no json. The
# loader of launch.ts runs this text with the settings in CONFIG and frames on stdin and stdout. server.pl and main.ts
# behave the same. What is done is decided on the host: docs/protocol.md has the frames and the operations.
import errno, os, select, struct, sys, time
import _signal, _socket  # signal and socket take longer to load than all the rest

# Frame: uint32 length of what follows, uint8 type, uint32 stream, payload.
VERSION, HEADER, LENGTH_MIN, LENGTH_MAX = 4, struct.Struct('>IBI'), 5, 1048576
DATA, OPEN, CLOSE, PUBKEY, READY, ERROR, WINDOW, EOF = 1, 2, 3, 4, 5, 6, 7, 8
PING, PONG, CALL, RESULT, CHANGED, TABLE, TOLD, TURN = 9, 10, 11, 12, 13, 14, 15, 16
# Bytes: credit at the start, and delivered before it is given back; read at once (a frame with them fills a
# pipe); unsent for the host when clients are no longer read.
CREDIT, GRANT, READ_SIZE, OUT_HIGH = 262144, 131072, 65527, 262144
# Bytes kept for a program's stdin, of its output, and of a file or a listener's reply.
KEYS_MAX, STDOUT_MAX, STDERR_MAX, REPLY_MAX = 67108864, 262144, 16384, 65536
# Bytes of a socket's path, clients accepted in one turn at most, seconds between looks at jobs, seconds for an end.
PATH_MAX, ACCEPT_BATCH, PAUSE, ENDING = 107 if sys.platform == 'linux' else 103, 64, 0.05, 1
READ, WRITE = select.POLLIN, select.POLLOUT  # epoll has the same numbers

# A stream is one client connection. queue: bytes its socket has not taken yet. may_send: bytes the host lets us send.
# may_get: bytes we let it send. taken: bytes delivered, not yet granted back. ended: the client has sent its last
# byte. deaf: it takes no more; what it wrote is still read. last: its last byte. words: what it is told at the end.
class Stream:
    def __init__(self, number, fd, words):
        self.id, self.fd, self.queue, self.may_send, self.may_get = number, fd, bytearray(), CREDIT, CREDIT
        self.taken, self.ended, self.deaf, self.last, self.words = 0, False, False, None, words
        self.ahead = None  # see ahead.py

# All settings are numbers, which percent-encoding leaves as they are.
setting = {name: int(number) for name, _, number in (line.partition(b'=') for line in CONFIG.split())}
received, received_end = memoryview(bytearray(LENGTH_MAX + 5 * READ_SIZE)), 0  # bytes from the host not yet parsed
out = bytearray()  # bytes for the host not yet written
chunk = memoryview(bytearray(HEADER.size + READ_SIZE))  # a frame with bytes of a client
chunk_data = chunk[HEADER.size:]
# The module selectors would serve as well, and takes longer for a turn than all that is done in it.
poller = select.epoll() if hasattr(select, 'epoll') else select.poll()
on_read, on_write, watched = {}, {}, {}  # by descriptor: what is called for it, and the poller's events
parked = set()  # streams that are not read while the host takes no more
streams, listeners, jobs, made_dirs = {}, {}, {}, []
last_id, accepting = 0, True
keys = bytearray()  # bytes for the stdin of the next program; None: too many came
heard, unanswered, quiet = False, 0, 0  # bytes of the host in this tick, PINGs and ticks without any
signal, umask = 0, os.umask(0o177)

## Frames to the host.
def trace(*frame): attempt(os.write, 2, b'frame %c %d %d %d\n' % frame)  # but not what it carries
def frame(kind, number, payload=b''):
    if setting[b'trace']: trace(b'>', kind, number, len(payload))
    out.extend(HEADER.pack(LENGTH_MIN + len(payload), kind, number) + payload)

def flush():
    try: del out[:os.write(1, out)]
    except BlockingIOError: pass
    except OSError: finish(0)
    if out or on_write.get(1): watch_write(1, flush if out else None)
    while parked and len(out) <= OUT_HIGH:
        stream = parked.pop()
        watch_read(stream.fd, stream.reader)

# Tells the host why the bridge ends, and ends.
def fail(text):
    frame(ERROR, 0, text.encode())
    os.set_blocking(1, True)
    while out: flush()
    finish(1)

## Descriptors.
# The result of a system call; None if it has to be repeated, False for an error.
def attempt(action, *arguments):
    try: return action(*arguments)
    except (BlockingIOError, InterruptedError): return None
    except OSError: return False

def watch(fd, reader, writer):
    on_read[fd], on_write[fd] = reader, writer
    before, events = watched.get(fd, 0), (READ if reader else 0) | (WRITE if writer else 0)
    watched[fd] = events
    if before and not events: poller.unregister(fd)
    elif before != events: (poller.modify if before else poller.register)(fd, events)

# Calls code whenever a descriptor can be read, or no longer calls anything.
def watch_read(fd, code=None): watch(fd, code, on_write.get(fd))
def watch_write(fd, code=None): watch(fd, on_read.get(fd), code)

def detach(fd):
    watch(fd, None, None)
    os.close(fd)

## Streams.
# One that the host closed is no longer in streams, and the host is not told of its end.
def end_stream(stream):
    if streams.pop(stream.id, None): pass_kept(stream) or frame(CLOSE, stream.id)
    parked.discard(stream)
    detach(stream.fd)
    if not accepting: accept_from_now_on(True)

def grant(stream):
    frame(WINDOW, stream.id, struct.pack('>I', stream.taken))
    stream.may_get += stream.taken
    stream.taken = 0

def client_readable(stream):
    if len(out) > OUT_HIGH: flush()
    if len(out) > OUT_HIGH:
        parked.add(stream)
        return watch_read(stream.fd)
    try: count = os.readv(stream.fd, (chunk_data if stream.may_send >= READ_SIZE else chunk_data[:stream.may_send],))
    except (BlockingIOError, InterruptedError): return
    except OSError: return end_stream(stream)
    if not count:
        if stream.deaf: return end_stream(stream)
        stream.ended = True
        watch_read(stream.fd)
        return pass_kept(stream) or frame(EOF, stream.id)
    stream.may_send -= count
    if not stream.ahead or not read_ahead(stream, bytes(chunk_data[:count])):
        if setting[b'trace']: trace(b'>', DATA, stream.id, count)
        HEADER.pack_into(chunk, 0, LENGTH_MIN + count, DATA, stream.id)
        # A large frame is not copied if the host takes it at once.
        sent = attempt(os.write, 1, chunk[:HEADER.size + count]) or 0 if count > 16384 and not out else 0
        out.extend(chunk[sent:HEADER.size + count])
    if stream.may_send <= 0: watch_read(stream.fd)

def client_writable(stream):
    count = attempt(os.write, stream.fd, stream.queue)
    if count is None: return
    if count is False and stream.ended: return end_stream(stream)
    stream.deaf = count is False
    if stream.deaf: count = len(stream.queue)
    del stream.queue[:count]
    stream.taken += count
    if not stream.queue: watch_write(stream.fd)
    if stream.id in streams and stream.taken >= GRANT: grant(stream)
    elif stream.id not in streams and not stream.queue: end_stream(stream)

Stream.reader, Stream.writer = client_readable, client_writable  # a method takes less time to call than a closure

## Frames from the host.
def host_readable():
    global received_end, heard
    try: count = os.readv(0, (received[received_end:],))
    except BlockingIOError: return
    except OSError: count = 0
    if not count: finish(0)
    heard = True
    at, end = 0, received_end + count
    while end - at >= 4:
        length, kind, number = HEADER.unpack_from(received, at)
        if not LENGTH_MIN <= length <= LENGTH_MAX: fail('the host announced a frame of %d bytes' % length)
        if end - at < 4 + length: break
        if setting[b'trace']: trace(b'<', kind, number, length - LENGTH_MIN)
        payload = received[at + HEADER.size:at + 4 + length]
        if kind != DATA: host_sent(kind, number, bytes(payload))
        elif number in streams: deliver(streams[number], payload)
        at += 4 + length
    if 0 < at < end: received[:end - at] = received[at:end]
    received_end = end - at

def deliver(stream, data):
    size = count = len(data)
    try: count = size if stream.deaf else 0 if stream.queue else os.write(stream.fd, data)
    except OSError: count = 0
    if count < size:
        # An error is met again when the queue is written.
        stream.queue += data[count:]
        watch_write(stream.fd, stream.writer)
    stream.taken += count
    stream.may_get -= size
    if size: stream.last = data[-1]
    if stream.may_get < 0: end_stream(stream)  # more than its credit
    elif stream.taken >= GRANT: grant(stream)

def host_sent(kind, number, payload):
    global keys
    stream = streams.get(number)
    if kind == CALL: settle(number, call, number, payload)
    elif kind == PING: frame(PONG, 0)
    elif kind == TABLE: set_table(number, payload)
    elif kind == TURN and stream and stream.ahead: take_turn(stream.ahead, payload)
    elif kind == PUBKEY and keys is not None:
        keys.extend(payload)
        if len(keys) > KEYS_MAX: keys = None
    elif kind == CLOSE and streams.pop(number, None):
        if not stream.queue: return end_stream(stream)
        parked.discard(stream)
        watch_read(stream.fd)
    elif kind == WINDOW and stream and len(payload) == 4:
        stream.may_send += int.from_bytes(payload, 'big')
        if stream.may_send > 0 and not stream.ended and stream not in parked: watch_read(stream.fd, stream.reader)

## Files.
def identity(stat): return b'%d:%d' % (stat.st_dev, stat.st_ino) if stat else b''
def facts(stat):
    age = int(time.time()) - int(stat.st_ctime)
    return [b'%d' % fact for fact in (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_uid, age)]

def read_start(number, path):
    # Without O_NONBLOCK the open of a pipe waits for its writer.
    with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        return [file.read(REPLY_MAX) or b'']

def which(name):
    directories = [each for each in os.environb.get(b'PATH', b'/usr/bin:/bin').split(b':') if each[:1] == b'/']
    for path in [name] if b'/' in name else [each + b'/' + name for each in directories]:
        if os.path.isfile(path) and os.access(path, os.X_OK): return path
    failed('ENOENT')

def make_directory(number, path):
    for end in [at for at in range(1, len(path) + 1) if path[at:at + 1] in (b'/', b'')]:
        directory = path[:end]
        if os.path.exists(directory): continue
        try: os.mkdir(directory)
        except FileExistsError: continue
        made_dirs.append(directory)
        os.chmod(directory, 0o700)
    return []

## Jobs: programs that run and listeners that are asked, while everything else goes on.
# A job writes bytes to one descriptor, and reads others to their end. Its check returns what an operation does.
def start_job(number, key, check, seconds, data, writer, *readers):
    fds = {writer, *readers}
    job = jobs[key] = {'call': number, 'check': check, 'deadline': time.monotonic() + seconds, 'open': len(readers),
                       'fds': fds, 'texts': [bytearray() for _ in readers], 'status': None}
    for fd in fds: os.set_blocking(fd, False)
    def readable(fd, text):
        piece = attempt(os.read, fd, READ_SIZE)
        if piece is None: return
        text.extend(piece or b'')
        del text[:-STDOUT_MAX]
        if piece: return
        job['open'] -= 1
        fds.remove(fd)
        detach(fd)
    for fd, text in zip(readers, job['texts']): watch_read(fd, lambda fd=fd, text=text: readable(fd, text))
    data = bytearray(data)
    def writable():
        count = attempt(os.write, writer, data[:READ_SIZE])
        if count is None: return
        del data[:count or len(data)]
        if data: return
        if on_read.get(writer): return watch_write(writer)  # a socket is also read
        fds.remove(writer)
        detach(writer)
    watch_write(writer, writable)

def check_jobs():
    for pid, status in iter(lambda: attempt(os.waitpid, -1, os.WNOHANG) or (0, 0), (0, 0)):
        if pid in jobs: jobs[pid]['status'] = status
    for key, job in list(jobs.items()):
        if not settle(job['call'], job['check'], job, time.monotonic() >= job['deadline']): continue
        for fd in job['fds']: detach(fd)
        del jobs[key]

def run_program(number, seconds, *argv):
    global keys
    data, keys = keys, bytearray()
    if data is None: failed('ENOBUFS')
    program, fds = which(argv[0]), []
    try:
        for _ in range(3): fds += os.pipe()
        pid = os.fork()
    except OSError:
        for fd in fds: os.close(fd)
        raise
    in_r, in_w, out_r, out_w, err_r, err_w = fds
    if not pid:
        try:
            os.setpgid(0, 0)  # it and what it runs end together
            os.umask(umask)
            for name in 'PIPE XFSZ TERM HUP INT CHLD'.split():
                _signal.signal(getattr(_signal, 'SIG' + name), _signal.SIG_DFL)
            os.environb[b'LC_ALL'] = b'C'
            for fd, stdio in ((in_r, 0), (out_w, 1), (err_w, 2)): os.dup2(fd, stdio)
            os.execv(program, argv)
        finally: os._exit(127)
    attempt(os.setpgid, pid, pid)
    for fd in (in_r, out_w, err_w): os.close(fd)
    def check(job, is_late):
        if is_late: attempt(os.killpg, pid, _signal.SIGKILL) or failed('ETIMEDOUT')
        if job['open'] or job['status'] is None: return None
        number, status = job['status'] & 127, job['status'] >> 8
        return [b'%d' % (128 + number if number else status), job['texts'][0], job['texts'][1][-STDERR_MAX:]]
    start_job(number, pid, check, int(seconds), data, in_w, out_r, err_r)

def ask_listener(number, path, milliseconds, count, lines, data):
    if len(path) > PATH_MAX: failed('ENAMETOOLONG')
    handle = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    handle.setblocking(False)
    handle.connect(path)
    fd = handle.detach()
    def check(job, is_late):
        reply = job['texts'][0][:REPLY_MAX]
        is_enough = len(reply) == REPLY_MAX or len(reply) >= int(count) and reply.count(b'\n') >= int(lines)
        reason = b'enough' if is_enough else b'closed' if not job['open'] else b'timeout' if is_late else None
        return reason and [reason, reply]
    start_job(number, b'ask %d' % fd, check, int(milliseconds) / 1000, data, fd, fd)

## Listening.
# Gives a socket its path, if what is there is still what the host expects.
def place(temporary, path, expected):
    if not expected:
        try:
            os.link(temporary, path)
            return os.unlink(temporary)
        except OSError as error:
            # These say that the file system has no hard links to sockets.
            name = errno.errorcode[error.errno]
            if name not in 'EPERM ENOTSUP EOPNOTSUPP ENOSYS EMLINK EINVAL EACCES'.split(): raise
    if identity(attempt(os.lstat, path)) != expected: failed('EEXIST')
    os.rename(temporary, path)

# The socket has its mode before it has its path.
def bind_socket(number, kind, path, temporary, expected, backlog, *words):
    if len(path) > PATH_MAX or len(temporary) > PATH_MAX: failed('ENAMETOOLONG')
    handle = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    handle.setblocking(False)
    handle.bind(temporary)
    try:
        os.chmod(temporary, 0o600)
        handle.listen(int(backlog))
        place(temporary, path, expected)
        stat = os.lstat(path)
    except OSError:
        attempt(os.unlink, temporary)
        raise
    old, there = listeners.get(kind), identity(stat)
    listeners[kind] = {'type': kind, 'path': path, 'handle': handle, 'identity': there, 'seen': there, 'words': words}
    accept_from_now_on(accepting)
    if old: remove_listener(old)
    return []

# The clients that had connected before are accepted.
def remove_listener(listener):
    if identity(attempt(os.lstat, listener['path'])) == listener['identity']: attempt(os.unlink, listener['path'])
    accept_clients(listener, True)
    detach(listener['handle'].detach())

def accept_from_now_on(on):
    global accepting
    accepting = on
    for listener in listeners.values():
        watch_read(listener['handle'].fileno(), on and (lambda each=listener: accept_clients(each)))

# In one turn no more clients than leave a turn to the others; all of a socket that is about to be closed.
def accept_clients(listener, is_closing=False):
    global last_id
    left = ACCEPT_BATCH
    while is_closing or left > 0:
        left -= 1
        if not is_closing and len(streams) >= setting[b'max-streams']: return accept_from_now_on(False)
        try: fd = listener['handle']._accept()[0]
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ECONNABORTED): continue
            # Without descriptors the clients wait in the backlog, until a stream ends.
            return error.errno in (errno.EMFILE, errno.ENFILE) and accept_from_now_on(False)
        os.set_blocking(fd, False)
        last_id += 1
        stream = streams[last_id] = Stream(last_id, fd, listener['words'])
        watch_read(fd, stream.reader)
        greet(stream, listener['type'])

## Operations: each returns the fields of its result, or raises an OSError, or returns None if its job answers later.
# Their arguments: a number, text without a zero byte (a path), any bytes.
def fits(letter, text): return text.isdigit() and len(text) < 10 if letter == 'n' else letter == 'b' or 0 not in text

OPERATIONS = {
    b'stat': ('t', lambda number, path: facts(os.stat(path))),
    b'lstat': ('t', lambda number, path: facts(os.lstat(path))),
    b'readlink': ('t', lambda number, path: [os.readlink(path)]),
    b'list': ('t', lambda number, path: os.listdir(path)),
    b'read': ('t', read_start),
    b'which': ('t', lambda number, name: [which(name)]),
    b'run': ('nt', run_program),
    b'mkdir': ('t', make_directory),
    b'chmod': ('tn', lambda number, path, mode: os.chmod(path, int(mode)) or []),
    b'ask': ('tnnnb', ask_listener),
    b'bind': ('bttbnbb', bind_socket),
    b'release': ('b', lambda number, kind: [] if kind not in listeners else remove_listener(listeners.pop(kind)) or []),
}

def call(number, payload):
    fields, at = [], 0
    while at < len(payload):
        size = int.from_bytes(payload[at:at + 4], 'big')
        fields.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    if at != len(payload) or not fields: failed('EINVAL')
    name, arguments = fields[0], fields[1:]
    if name not in OPERATIONS: failed('ENOSYS')
    letters, operation = OPERATIONS[name]
    if name == b'run': letters += 't' * (len(arguments) - 2)
    if len(arguments) != len(letters) or not all(map(fits, letters, arguments)): failed('EINVAL')
    return operation(number, *arguments)

# Sends the result unless it comes later.
def settle(number, operation, *arguments):
    try:
        result = operation(*arguments)
        if result is None: return False
        fields = [b'ok', *result]
        if sum(map(len, fields)) + 4 * len(fields) > LENGTH_MAX - LENGTH_MIN: failed('EMSGSIZE')
    except OSError as error:
        fields = [errno.errorcode.get(error.errno, 'EIO').encode(), os.strerror(error.errno).encode()]
    frame(RESULT, number, b''.join(struct.pack('>I', len(field)) + field for field in fields))
    return True
def failed(name): raise OSError(getattr(errno, name), name)

## Start and end.
def ready():
    spoken = setting[b'protocol']
    if spoken != VERSION: fail('the host speaks version %d, this server %d' % (spoken, VERSION))
    home = os.path.expanduser(b'~')
    home = b'/' if home == b'~' else home
    try: home = home.decode()
    except UnicodeDecodeError: home = home.decode('latin-1')
    home = ''.join('\\u%04x' % ord(each) if each < ' ' or each in '"\\\x7f' else each for each in home)
    boot = attempt(read_start, 0, '/proc/sys/kernel/random/boot_id')
    boot = ',"boot":"%s"' % boot[0].decode().strip() if boot else ''
    system = sys.platform.rstrip('0123456789')  # without the version of freebsd13 or sunos5
    frame(READY, 0, ('{"version":%d,"runtime":"python","system":"%s","uid":%d,"home":"%s"%s}' % (
        VERSION, system, os.geteuid(), home, boot)).encode())

# What is done from time to time; returns when the next time is. The host is told of something else at a socket's path,
# once for each thing that appears there, and asked whether it is there. Ticks are counted, not seconds: the host does
# not count as silent while this process stands still, and is asked again before it is given up.
def tick():
    global heard, unanswered, quiet
    # Descriptors that were missing may be there again.
    if not accepting and len(streams) < setting[b'max-streams']: accept_from_now_on(True)
    for listener in listeners.values():
        there = identity(attempt(os.lstat, listener['path']))
        if there not in (listener['seen'], listener['identity']): frame(CHANGED, 0, listener['type'])
        listener['seen'] = there
    unanswered, quiet, heard = (0, 0, False) if heard else (unanswered, quiet + 1, False)
    if streams or jobs or out or quiet >= setting[b'idle-ticks']:
        if unanswered >= setting[b'max-unanswered']: finish(1)
        frame(PING, 0)
        unanswered, quiet = unanswered + 1, 0
    return time.monotonic() + setting[b'tick-ms'] / 1000

# Whether a client has left. What it still writes is read: else an error would come before what it was told.
def has_left(fd):
    piece = True
    while piece: piece = attempt(os.read, fd, READ_SIZE)
    return piece is not None

# Removes what is ours and ends. Clients are told so: between two lines, behind a greeting if they had none.
def finish(status):
    for listener in listeners.values(): remove_listener(listener)
    for directory in reversed(made_dirs): attempt(os.rmdir, directory)  # one that is in use by now stays
    os.close(1)
    for stream in streams.values():
        words = stream.words if stream.last is None else stream.words[1:] if stream.last == 10 else ()
        attempt(os.write, stream.fd, stream.queue + b''.join(words))
    clients = [_socket.socket(fileno=stream.fd) for stream in streams.values()]
    for client in clients: attempt(client.shutdown, _socket.SHUT_WR)
    pids = [key for key in jobs if type(key) is int]
    for pid in pids: attempt(os.killpg, pid, _signal.SIGTERM)
    for _ in range(int(ENDING / PAUSE)):
        pids = [pid for pid in pids if attempt(os.waitpid, pid, os.WNOHANG) == (0, 0)]
        clients = [client for client in clients if not has_left(client.fileno())]
        if not pids and not clients: break
        time.sleep(PAUSE)
    for pid in pids: attempt(os.killpg, pid, _signal.SIGKILL)
    os._exit(status)

def serve():
    next_tick = tick()
    unit = 1 if hasattr(select, 'epoll') else 1000  # epoll counts in seconds, poll in milliseconds
    while not signal:
        wait = max(0, next_tick - time.monotonic())
        happened = poller.poll((min(wait, PAUSE) if jobs else wait) * unit)
        for fd, events in happened:
            # An earlier event of the same turn may have changed what is watched. An error or the other's end
            # (neither READ nor WRITE) counts as both.
            if events & ~READ and on_write.get(fd): on_write[fd]()
            if events & ~WRITE and on_read.get(fd): on_read[fd]()
        if jobs or not happened: check_jobs()
        if time.monotonic() >= next_tick: next_tick = tick()
        if out: flush()
    finish(128 + signal)

def on_signal(number, _):
    global signal
    if number != _signal.SIGCHLD: signal = number

try:
    if setting[b'pipes']: offer_pipes(setting[b'pipes'])
    # A signal wakes the poller through this pipe; the handler alone would wait for its next event.
    woken, waker = os.pipe()
    for fd in (woken, waker, 1, 2): os.set_blocking(fd, False)
    _signal.set_wakeup_fd(waker)
    for number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT, _signal.SIGCHLD): _signal.signal(number, on_signal)
    watch_read(woken, lambda: os.read(woken, 64))
    watch_read(0, host_readable)
    ready(), flush()
    serve()
except Exception as error:
    attempt(os.write, 2, ('the socket server failed: %r\n' % error).encode('utf-8', 'replace'))
    finish(1)
