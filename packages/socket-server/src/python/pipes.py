# A way past what carries stdin and stdout, joined to server.py when it is sent: docs/protocol.md has the exchange. The
# host opens two pipes of this process from outside, if the same kernel runs both and lets it.
ANSWER_WITHIN = 90  # seconds

def offer_pipes(token):
    from_host, to_target = os.pipe()
    from_target, to_host = os.pipe()
    os.write(to_host, b'%d\n' % token)
    os.write(1, b'PIPES %d:%d %d:%d\n' % tuple(n for fd in (to_target, from_target) for n in (fd, os.fstat(fd).st_ino)))
    # Whatever carries stdin may have died without a word; nothing has been made yet.
    answer = select.select([0], [], [], ANSWER_WITHIN)[0] and os.read(0, 1)
    if not answer: os._exit(0)
    if answer == b'y':
        # The old ones stay open for as long as this process runs: whoever has their other ends sees its end by them.
        os.dup(0), os.dup(1)
        os.dup2(from_host, 0), os.dup2(to_host, 1)
    for fd in (from_host, to_target, from_target, to_host): os.close(fd)

