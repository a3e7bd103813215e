//// Listening.
// A listener keeps its place when it is released: clients that it accepted are told its words at the end, a greeting
// and the last ones. fd: -1 if it does not listen.
struct listener {
    char type[TYPE_MAX + 1], path[SOCKET_PATH_MAX + 1], words[2][WORDS_MAX + 1];
    int fd;
    struct identity identity, seen;
};
static struct listener listeners[LISTENERS_MAX];

// Gives a socket its path, if what is there is still what the host expects.
static int place(const char *temporary, const char *path, const char *expected) {
    if (!*expected) {
        if (link(temporary, path) == 0) return unlink(temporary) ? errno : 0;
        // These say that the file system has no hard links to sockets.
        bool has_none = errno == EPERM || errno == EACCES || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK;
        if (!has_none && errno != EINVAL) return errno;
    }
    if (strcmp(identity_at(path).text, expected) != 0) return EEXIST;
    return rename(temporary, path) ? errno : 0;
}
static void open_stream(struct listener *listener, int fd) {
    while (streams[++last_id % STREAM_PLACES]) continue;    // an id whose place is taken is left out
    struct stream *stream = streams[last_id % STREAM_PLACES] = allocate(sizeof *stream);
    *stream = (struct stream){.id = last_id, .fd = fd, .may_send = CREDIT, .may_get = CREDIT, .listener = listener};
    open_streams += stream->open = true;
    watch_read(fd, client_readable, stream);
    greet(stream, listener->type);
}

// A socket that is about to be closed is emptied.
static void accept_clients(struct listener *listener, int from, bool is_closing) {
    for (int left = ACCEPT_BATCH; is_closing || left > 0; left--) {
        if (!is_closing && open_streams >= max_streams) return accept_from_now_on(false);
        int fd = accept4(from, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) open_stream(listener, fd);
        // Without descriptors the clients wait in the backlog, until a stream ends.
        else if (errno == EMFILE || errno == ENFILE) return accept_from_now_on(false);
        else if (errno != EINTR && errno != ECONNABORTED) return;
    }
}
static void listener_readable(int fd, void *owner) { accept_clients(owner, fd, false); }

static void accept_from_now_on(bool is_on) {
    accepting = is_on;
    for (struct listener *each = listeners; each < listeners + LISTENERS_MAX; each++)
        if (*each->type && each->fd >= 0) watch_read(each->fd, is_on ? listener_readable : NULL, each);
}

// The clients that had connected before are accepted, for whoever listens there now.
static void remove_listener(struct listener listener, struct listener *heir) {
    if (!*listener.type || listener.fd < 0) return;
    if (!strcmp(identity_at(listener.path).text, listener.identity.text)) unlink(listener.path);
    accept_clients(heir, listener.fd, true);
    detach(listener.fd);
}
static int release_socket(struct call *call) {
    for (struct listener *each = listeners; each < listeners + LISTENERS_MAX; each++)
        if (strcmp(each->type, text_of(call, 0)) == 0) remove_listener(*each, each), each->fd = -1;
    return 0;
}

// The socket has its mode before it has its path.
static int bind_socket(struct call *call) {
    static const size_t most[] = {TYPE_MAX, SOCKET_PATH_MAX, SOCKET_PATH_MAX, 47, 9, WORDS_MAX, WORDS_MAX};
    for (int at = 0; at < 7; at++) if (call->arguments[at].size > most[at]) return ENAMETOOLONG;
    struct listener made = {.fd = -1}, *there = listeners;
    while (*there->type && strcmp(there->type, text_of(call, 0)) != 0)
        if (++there == listeners + LISTENERS_MAX) return ENOBUFS;
    if (!*text_of(call, 0)) return EINVAL;
    char *const texts[] = {made.type, made.path, made.words[0], made.words[1]};
    for (size_t at = 0; at < 4; at++) strcpy(texts[at], text_of(call, at < 2 ? at : at + 3));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, text_of(call, 2));
    made.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made.fd < 0) return errno;
    bool is_bound = bind(made.fd, (struct sockaddr *)&address, sizeof address) == 0;
    int error = !is_bound || chmod(text_of(call, 2), 0600) || listen(made.fd, number_of(call, 4)) ? errno : 0;
    if (!error) error = place(text_of(call, 2), made.path, text_of(call, 3));
    if (error && is_bound) unlink(text_of(call, 2));
    if (error) { close(made.fd); return error; }
    made.identity = made.seen = identity_at(made.path);
    struct listener old = *there;
    *there = made;
    accept_from_now_on(accepting);
    remove_listener(old, there);
    return 0;
}
