# Answering ahead, joined to server.py when it is sent: docs/protocol.md has the frames. What is answered, and with what,
# is the host's table; nothing here knows what a line or a message means.

# Bytes of a line, and of what was answered and has not gone to the host; a message has as many.
LINE_MAX, KEPT_MAX = 1000, 8192

# Entries are an id, an answer, whether not as the first command of a session, and a pattern. exact: by their line, where
# they fit one alone. table: by how the lines begin that they fit, the first word, and of an option its name. bind is for
# clients of the ssh-agent: an id, an answer, and how a message begins behind its length.
greeting, beginning, exact, table, bind = b'', None, {}, {}, None

# turn: nothing is owed to the client. sent: bytes that went to the host. kept, ids, begun: what was answered, the
# entries, and the beginning of the next. once: answers that serve once, by their lines. ssh: messages, not lines.
class Ahead:
    def __init__(self, ssh):
        self.turn, self.first, self.sent, self.kept, self.ids, self.begun = True, True, 0, b'', b'', b''
        self.once, self.ssh = {}, ssh

def split_fields(payload, at=0):
    fields = []
    while at < len(payload):
        size = int.from_bytes(payload[at:at + 4], 'big')
        fields.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    return fields

def set_table(place, payload):
    global greeting, beginning, exact, table, bind
    if place:  # 0: of the gpg-agent, 1: of the ssh-agent
        fields = split_fields(payload)
        bind = (int(fields[0]), fields[2], fields[1]) if len(fields) > 2 else None
        return
    import re  # takes a while to load, and is not needed without a table
    greeting, *fields = split_fields(payload) or [b'']
    beginning, exact, table = re.compile(rb'\^?((\w*)(?: [\w-]+=)?)').match, {}, {}
    for id, later, pattern, answer in zip(*[iter(fields)] * 4):
        entry = (int(id), answer, bool(later), re.compile(pattern).match)
        line = re.fullmatch(rb'\^([\w =-]+)\$', pattern)
        if line: exact[line[1]] = entry
        else: table.setdefault(beginning(pattern)[1], []).append(entry)

# Greets a client if there is a table, behind OPEN, which says so: the host has something to do meanwhile.
def greet(stream, kind):
    ssh = kind == b'ssh-agent'
    if (bind if ssh else kind == b'gpg-agent' and greeting) and unanswered < 2: stream.ahead = Ahead(ssh)
    is_greeted = stream.ahead and not ssh
    frame(OPEN, stream.id, kind + b' greeted' if is_greeted else kind)
    if not is_greeted: return
    flush()
    tell_client(stream, greeting)

def tell_client(stream, text):
    count = attempt(os.write, stream.fd, text) or 0
    stream.last = 10
    if count == len(text): return
    # An error is met again when the queue is written. The host has not sent these bytes, and gets no credit for them.
    stream.queue += text[count:]
    stream.taken -= len(text) - count
    watch_write(stream.fd, stream.writer)

# Bytes of the line or message at start, if it is whole, or too long a message; else 0.
def whole(ssh, text, start):
    if not ssh: return max(0, text.find(b'\n', start) + 1 - start)
    left = len(text) - start
    size = 4 + int.from_bytes(text[start:start + 4], 'big')
    return size if left >= 4 and (size <= left or size > KEPT_MAX) else 0

# Takes what was read, and returns true, while it is the client's turn.
def read_ahead(stream, data):
    ahead = stream.ahead
    if not ahead.turn:
        ahead.sent += len(data)
        return False
    text = ahead.begun + data
    may_answer = not stream.queue and unanswered < 2  # nothing while the host's answer is late
    answers, start, size = b'', 0, whole(ahead.ssh, text, 0)
    while size:
        one = text[start:start + size]
        entry = may_answer and len(ahead.kept) < KEPT_MAX and (
            find_bind(one) if ahead.ssh else find_entry(ahead, one[:-1]))
        ahead.first = False
        if not entry: break
        answers += entry[1]
        ahead.ids += entry[0].to_bytes(4, 'big')
        ahead.kept += one
        start += size
        size = whole(ahead.ssh, text, start)
    if answers: tell_client(stream, answers)
    ahead.begun = text[start:]
    if size or not ahead.ssh and len(ahead.begun) > LINE_MAX: pass_kept(stream)
    return True

def find_entry(ahead, line):
    if len(line) > LINE_MAX: return None
    if line in ahead.once: return ahead.once.pop(line)
    name, word = beginning(line).groups()
    found = [exact[line]] if line in exact else table.get(name, []) + (table.get(word, []) if name != word else [])
    for entry in found:
        if entry[3](line) and not (ahead.first and entry[2]): return entry

def find_bind(message):
    return bind and len(message) <= KEPT_MAX and message.startswith(bind[2], 4) and bind

# Sends what was kept to the host, from where everything comes until its next TURN.
def pass_kept(stream):
    ahead = stream.ahead
    data = ahead and ahead.kept + ahead.begun
    if not data: return
    if ahead.ids: frame(TOLD, stream.id, ahead.ids)
    frame(DATA, stream.id, data)
    ahead.sent += len(data)
    ahead.turn, ahead.kept, ahead.ids, ahead.begun = False, b'', b'', b''

# It is the client's turn if the host has answered everything that was sent.
def take_turn(ahead, payload):
    for id, line, answer in zip(*[iter(split_fields(payload, 4))] * 3): ahead.once[line] = (int(id), answer)
    if int.from_bytes(payload[:4], 'big') == ahead.sent % 4294967296: ahead.turn = True

