static struct bytes out, keys;    // bytes for the host not yet written, bytes for the stdin of the next program
static char received[4 + LENGTH_MAX + 4 * READ_SIZE];    // bytes from the host not yet parsed
static size_t received_end;
static bool too_many_keys, heard;    // heard: something came from the host in this tick
static unsigned unanswered;          // PINGs without anything from the host

//// Descriptors.
typedef void handler(int fd, void *owner);
static struct watched { handler *on_read, *on_write; void *owner; } watched[FD_MAX];
static int poller;

static bool again(void) { return errno == EAGAIN || errno == EINTR; }
static void nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }
static uint32_t events_of(int i) { return (watched[i].on_read ? EPOLLIN : 0) | (watched[i].on_write ? EPOLLOUT : 0); }

static void watch(int fd, handler *on_read, handler *on_write, void *owner) {
    uint32_t before = events_of(fd);
    watched[fd] = (struct watched){on_read, on_write, owner};
    struct epoll_event event = {.events = events_of(fd), .data.fd = fd};
    int change = !event.events ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (before != event.events && epoll_ctl(poller, change, fd, &event) != 0) broken("epoll");
}

// Calls code whenever a descriptor can be read, or no longer calls anything.
static void watch_read(int fd, handler *code, void *owner) { watch(fd, code, watched[fd].on_write, owner); }
static void watch_write(int fd, handler *code, void *owner) { watch(fd, watched[fd].on_read, code, owner); }
static void detach(int fd) { watch(fd, NULL, NULL, NULL); close(fd); }

// An earlier event of the same turn may have changed what is watched. An error or the other's end (neither EPOLLIN
// nor EPOLLOUT) counts as both.
static void dispatch(const struct epoll_event *event) {
    struct watched *at = &watched[event->data.fd];
    if (event->events & ~(uint32_t)EPOLLIN && at->on_write) at->on_write(event->data.fd, at->owner);
    if (event->events & ~(uint32_t)EPOLLOUT && at->on_read) at->on_read(event->data.fd, at->owner);
}

//// Frames to the host.
static void unpark_streams(void);
static uint32_t get32(const char *place) { uint32_t big; memcpy(&big, place, 4); return ntohl(big); }
static void trace(char way, uint8_t type, uint32_t id, size_t count) {    // but not what it carries
    if (tracing) dprintf(2, "frame %c %u %u %zu\n", way, type, id, count);
}
static void put_header(char *place, uint8_t type, uint32_t id, size_t count) {
    trace('>', type, id, count);
    uint32_t numbers[] = {htonl((uint32_t)(LENGTH_MIN + count)), htonl(id)};
    memcpy(place, &numbers[0], 4), place[4] = (char)type, memcpy(place + 5, &numbers[1], 4);
}
static void frame(uint8_t type, uint32_t id, const void *payload, size_t count) {
    put_header(place_for(&out, HEADER + count), type, id, count);
    out.size += HEADER, add(&out, payload, count);
}
static void flush(int fd, void *owner) {
    ssize_t count = write(1, first(&out), out.size);
    if (count < 0 && !again()) finish(0);
    if (count > 0) drop(&out, (size_t)count);
    if (out.size || watched[1].on_write) watch_write(1, out.size ? flush : NULL, owner);
    if (out.size <= OUT_HIGH) unpark_streams();
}

// Tells the host why the bridge ends, and ends.
static _Noreturn void fail(const char *format, uint32_t number) {
    char text[256];
    frame(ERROR, 0, text, (size_t)snprintf(text, sizeof text, format, number));
    fcntl(1, F_SETFL, fcntl(1, F_GETFL) & ~O_NONBLOCK);
    while (out.size) flush(1, NULL);
    finish(1);
}

//// Frames from the host.
static void host_sent(uint8_t type, uint32_t id, const char *payload, size_t count);

static void host_readable(int fd, void *owner) {
    ssize_t count = read(fd, received + received_end, sizeof received - received_end);
    if (count < 0 && again()) return;
    if (count <= 0) finish(0);
    heard = true;
    size_t at = 0, end = received_end + (size_t)count;
    while (end - at >= 4) {
        uint32_t length = get32(received + at);
        if (length < LENGTH_MIN || length > LENGTH_MAX)
            fail("the bridge broke: the host announced a frame of %u bytes. Start the bridge again.", length);
        if (end - at < 4 + length) break;
        host_sent((uint8_t)received[at + 4], get32(received + at + 5), received + at + HEADER, length - LENGTH_MIN);
        at += 4 + length;
    }
    if (at) memmove(received, received + at, end - at);
    received_end = end - at;
}
