//// Streams.
// A stream is one client connection. queue: bytes its socket has not taken yet. may_send: bytes the host lets us
// send. may_get: bytes we let the host send. taken: bytes delivered, not yet granted back. ended: the client has
// sent its last byte. deaf: the client takes no more bytes; what it wrote before is still read. parked: it is not
// read while the host takes no more. open: the host has not closed it. got, in_line: something came from
// the host for it, which ended within a line. listener: has what it is told at the end. ahead: see ahead.c.
struct stream {
    uint32_t id; int fd; struct bytes queue;
    int64_t may_send, may_get, taken;
    bool ended, deaf, parked, open, got, in_line;
    struct listener *listener; struct ahead *ahead;
};
static struct stream *streams[STREAM_PLACES];    // those that are open, each at the place of its id
static uint32_t last_id, open_streams, parked_streams;
static bool accepting = true;

static void accept_from_now_on(bool is_on), pass_kept(struct stream *stream), end_ahead(struct ahead *ahead);
static bool read_ahead(struct stream *stream, const char *data, size_t count);
static handler client_readable, client_writable;
static struct stream *find_stream(uint32_t id) {
    struct stream *stream = streams[id % STREAM_PLACES];
    return stream && stream->id == id ? stream : NULL;
}
static void forget_stream(struct stream *stream) {
    streams[stream->id % STREAM_PLACES] = NULL;
    open_streams--, parked_streams -= stream->parked;
    stream->open = stream->parked = false;
}

// The host is not told of the end of a stream that it closed.
static void end_stream(struct stream *stream) {
    if (stream->open) { pass_kept(stream); forget_stream(stream); frame(CLOSE, stream->id, NULL, 0); }
    detach(stream->fd), release(&stream->queue);
    end_ahead(stream->ahead), free(stream);
    if (!accepting) accept_from_now_on(true);
}
static void grant(struct stream *stream) {
    uint32_t credit = htonl((uint32_t)stream->taken);
    frame(WINDOW, stream->id, &credit, sizeof credit);
    stream->may_get += stream->taken, stream->taken = 0;
}
static void client_readable(int fd, void *owner) {
    struct stream *stream = owner;
    if (out.size > OUT_HIGH) flush(1, NULL);
    if (out.size > OUT_HIGH) { parked_streams += stream->parked = true; return watch_read(fd, NULL, stream); }
    // Read behind the place of its header in what goes to the host: nothing is copied.
    size_t most = stream->may_send < READ_SIZE ? (size_t)stream->may_send : READ_SIZE;
    char *place = place_for(&out, HEADER + most);
    ssize_t count = read(fd, place + HEADER, most);
    if (count < 0 && again()) return;
    if (count < 0 || (!count && stream->deaf)) return end_stream(stream);
    stream->ended = !count, stream->may_send -= count;
    if (stream->ended || stream->may_send <= 0) watch_read(fd, NULL, stream);
    if (stream->ended) { pass_kept(stream); return frame(END, stream->id, NULL, 0); }
    if (stream->ahead && read_ahead(stream, place + HEADER, (size_t)count)) return;
    put_header(place, DATA, stream->id, (size_t)count);
    out.size += HEADER + (size_t)count;
}
static void unpark_streams(void) {
    for (size_t at = 0; parked_streams && at < STREAM_PLACES; at++) {
        if (!streams[at] || !streams[at]->parked) continue;
        watch_read(streams[at]->fd, client_readable, streams[at]);
        parked_streams -= streams[at]->parked, streams[at]->parked = false;
    }
}
static void client_writable(int fd, void *owner) {
    struct stream *stream = owner;
    ssize_t count = write(fd, first(&stream->queue), stream->queue.size);
    if (count < 0 && again()) return;
    if (count < 0 && stream->ended) return end_stream(stream);
    if ((stream->deaf = count < 0)) count = (ssize_t)stream->queue.size;
    drop(&stream->queue, (size_t)count), stream->taken += count;
    if (!stream->queue.size) watch_write(fd, NULL, stream);
    if (stream->open && stream->taken >= GRANT) grant(stream);
    else if (!stream->open && !stream->queue.size) end_stream(stream);
}

// Writes to a client; what its socket does not take is queued, and an error is met again when the queue is written.
static void give(struct stream *stream, const char *data, size_t count) {
    ssize_t taken = stream->deaf ? (ssize_t)count : stream->queue.size ? 0 : write(stream->fd, data, count);
    if (taken < 0) taken = 0;
    stream->taken += taken;
    if (count) { stream->got = true; stream->in_line = data[count - 1] != '\n'; }
    if ((size_t)taken == count) return;
    add(&stream->queue, data + taken, count - (size_t)taken);
    watch_write(stream->fd, client_writable, stream);
}
static void deliver(struct stream *stream, const char *data, size_t count) {
    stream->may_get -= (int64_t)count;
    if (stream->may_get < 0) return end_stream(stream);    // more than its credit
    give(stream, data, count);
    if (stream->taken >= GRANT) grant(stream);
}
