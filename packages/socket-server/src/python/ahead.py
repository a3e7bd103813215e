# Answering ahead, joined to server.py when it is sent: docs/protocol.md has the frames. What is answered, and with what,
# is the host's table; nothing here knows what a line means.

# Bytes of a line, and of the lines that were answered and have not gone to the host.
LINE_MAX, KEPT_MAX = 1000, 8192

# table: entries of id, answer, whether not as the first command of a session, and pattern. known: one pattern for the
# whole table, since most lines that wait fit none of it.
greeting, known, table = b'', None, []

# turn: nothing is owed to the client. sent: bytes that went to the host. kept, ids, begun: lines that were answered,
# their entries, and the beginning of the next. once: answers that serve once, by their lines.
class Ahead:
    def __init__(self):
        self.turn, self.first, self.sent, self.kept, self.ids, self.begun = True, True, 0, b'', b'', b''
        self.once = {}

def split_fields(payload, at=0):
    fields = []
    while at < len(payload):
        size = int.from_bytes(payload[at:at + 4], 'big')
        fields.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    return fields

def set_table(payload):
    global greeting, known, table
    import re  # takes a while to load, and is not needed without a table
    greeting, *fields = split_fields(payload) or [b'']
    table = []
    for id, later, pattern, answer in zip(*[iter(fields)] * 4):
        table.append((int(id), answer, bool(later), re.compile(pattern)))
    known = re.compile(b'|'.join(pattern for pattern in fields[2::4]) or b'(?!)')

# Greets a client if there is a table; returns what OPEN says of it.
def greet(stream, kind):
    if not greeting or kind != b'gpg-agent' or unanswered > 1: return b''
    stream.ahead = Ahead()
    tell_client(stream, greeting)
    return b' greeted'

def tell_client(stream, text):
    count = attempt(os.write, stream.fd, text) or 0
    stream.last = 10
    if count == len(text): return
    # An error is met again when the queue is written. The host has not sent these bytes, and gets no credit for them.
    stream.queue += text[count:]
    stream.taken -= len(text) - count
    watch_write(stream.fd, stream.writer)

# Takes what was read, and returns true, while it is the client's turn.
def read_ahead(stream, data):
    ahead = stream.ahead
    if not ahead.turn:
        ahead.sent += len(data)
        return False
    text = ahead.begun + data
    may_answer = not stream.queue and unanswered < 2  # nothing while the host's answer is late
    answers, start, end = b'', 0, text.find(b'\n')
    while end >= 0:
        line = text[start:end]
        entry = may_answer and len(ahead.kept) < KEPT_MAX and find_entry(ahead, line)
        ahead.first = False
        if not entry: break
        answers += entry[1]
        ahead.ids += entry[0].to_bytes(4, 'big')
        ahead.kept += line + b'\n'
        start = end + 1
        end = text.find(b'\n', start)
    if answers: tell_client(stream, answers)
    ahead.begun = text[start:]
    if end >= 0 or len(ahead.begun) > LINE_MAX: pass_kept(stream)
    return True

def find_entry(ahead, line):
    if len(line) > LINE_MAX: return None
    if line in ahead.once: return ahead.once.pop(line)
    if not known.match(line): return None
    for entry in table:
        if entry[3].match(line) and not (ahead.first and entry[2]): return entry

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

