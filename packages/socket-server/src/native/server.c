// The socket server for Linux targets that have no language to run it in: a static program. The loader of launch.ts
// writes it to a file that has no name any more and runs it, with the settings as arguments and frames on stdin and
// stdout. server.pl and main.ts behave the same. What is done in a target is decided on the host:
// docs/protocol.md has the frames and the operations.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Frame: uint32 length of what follows, uint8 type, uint32 stream, payload.
enum { VERSION = 4, HEADER = 9, LENGTH_MIN = 5, LENGTH_MAX = 1048576 };
enum { DATA = 1, OPEN = 2, CLOSE = 3, PUBKEY = 4, READY = 5, ERROR = 6, WINDOW = 7, END = 8 };    // EOF is C's
enum { PING = 9, PONG = 10, CALL = 11, RESULT = 12, CHANGED = 13, TABLE = 14, TOLD = 15, TURN = 16 };
// Bytes: credit at the start, and delivered before it is given back; read at once (a frame with them fills a
// pipe); unsent for the host when clients are no longer read.
enum { CREDIT = 262144, GRANT = 131072, READ_SIZE = 65527, OUT_HIGH = 262144 };
// Bytes kept for a program's stdin, of its output, and of a file or a listener's reply.
enum { KEYS_MAX = 67108864, STDOUT_MAX = 262144, STDERR_MAX = 16384, REPLY_MAX = 65536 };
// Bytes of a socket's path, clients accepted in one turn at most, milliseconds between looks at jobs, and for an end.
enum { SOCKET_PATH_MAX = 107, ACCEPT_BATCH = 64, PAUSE = 50, ENDING = 1000 };
// Descriptors, places for streams, sockets, directories that are removed at the end, and events handled in one turn;
// bytes of a socket type, of the words of a socket, and of a path that is no socket's.
enum { FD_MAX = 8192, STREAM_PLACES = 16384, LISTENERS_MAX = 8, MADE_MAX = 64, EVENTS_MAX = 64 };
enum { TYPE_MAX = 31, WORDS_MAX = 511, FILE_PATH_MAX = 4096 };
// Bytes of a line that is answered ahead, and of those that were and have not gone to the host.
enum { LINE_MAX = 1000, KEPT_MAX = 8192 };

static unsigned spoken, max_streams, tracing, tick_ms, max_unanswered, idle_ticks;    // the settings
static mode_t user_umask; static sigset_t user_signals;    // of the programs that are run
static _Noreturn void finish(int status);
#include "bytes.c"
#include "frames.c"
#include "streams.c"
#include "calls.c"
#include "files.c"
#include "jobs.c"
#include "ahead.c"
#include "listen.c"
#include "operations.c"

//// Start and end.
static volatile sig_atomic_t stop_signal;

static void ready(void) {
    if (spoken != VERSION) fail("the host speaks version %u, this server 4", spoken);
    const char *home = getenv("HOME");
    struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
    char path[] = "/proc/sys/kernel/random/boot_id", text[128];
    struct call boot = {.arguments = &(struct field){path, sizeof path - 1}};
    struct bytes json = {0};
    static const char start[] = "{\"version\":%d,\"runtime\":\"native\",\"system\":\"linux\",\"uid\":%u,\"home\":\"";
    add(&json, text, (size_t)snprintf(text, sizeof text, start, VERSION, geteuid()));
    for (const char *at = user ? user->pw_dir : home && *home ? home : "/"; *at; at++) {
        bool is_odd = (uint8_t)*at < ' ' || strchr("\"\\\x7f", *at);
        add(&json, text, (size_t)snprintf(text, sizeof text, is_odd ? "\\u%04x" : "%c", *at));
    }
    // A field is the length of the text and the text, which has 36 letters and the end of a line.
    const char *id = read_start(&boot) == 0 && boot.result.size == 4 + 36 + 1 ? first(&boot.result) + 4 : "";
    add(&json, text, (size_t)snprintf(text, sizeof text, *id ? "\",\"boot\":\"%.36s\"}" : "\"%s}", id));
    frame(READY, 0, first(&json), json.size);
    release(&boot.result); release(&json);
}

// Whether a client has left. What it still writes is read: else an error would come before what it was told.
static bool has_left(const struct stream *stream) {
    ssize_t count;
    while ((count = read(stream->fd, received, sizeof received)) > 0) continue;
    return count == 0 || !again();
}

// Removes what is ours and ends. Clients are told so: between two lines, behind a greeting if they had none.
static void finish(int status) {
    static int endings;
    if (endings++) _exit(status);
    for (struct listener *each = listeners; each < listeners + LISTENERS_MAX; each++) remove_listener(*each, each);
    while (made_count) rmdir(made_dirs[--made_count]);    // one that is in use by now stays
    close(1);
    for (size_t at = 0; at < STREAM_PLACES; at++) {
        struct stream *stream = streams[at];
        if (!stream) continue;
        for (int which = stream->got; which < 2 && !stream->in_line; which++)
            add(&stream->queue, stream->listener->words[which], strlen(stream->listener->words[which]));
        if (write(stream->fd, first(&stream->queue), stream->queue.size) >= 0) shutdown(stream->fd, SHUT_WR);
    }
    for (struct job *job = jobs; job; job = job->next) if (is_running(job)) kill(-job->pid, SIGTERM);
    bool is_waiting = true;
    for (int left = ENDING; is_waiting && left > 0; left -= PAUSE) {
        is_waiting = false;
        reap();
        for (struct job *job = jobs; job; job = job->next) is_waiting |= is_running(job);
        for (size_t at = 0; at < STREAM_PLACES; at++) is_waiting |= streams[at] && !has_left(streams[at]);
        if (is_waiting) usleep(1000 * PAUSE);
    }
    for (struct job *job = jobs; job; job = job->next) if (is_running(job)) kill(-job->pid, SIGKILL);
    _exit(status);
}

// What is done from time to time; returns when the next time is. The host is told of something else at a socket's path,
// once for each thing that appears there, and asked whether it is there. Ticks are counted, not seconds: it does not
// count as silent while this process stands still, and is asked before it is given up.
static int64_t tick(void) {
    static unsigned quiet;    // ticks without a byte of the host
    // Descriptors that were missing may be there again.
    if (!accepting && open_streams < max_streams) accept_from_now_on(true);
    for (struct listener *each = listeners; each < listeners + LISTENERS_MAX; each++) {
        struct identity there = identity_at(each->path);
        bool is_news = strcmp(there.text, each->seen.text) && strcmp(there.text, each->identity.text);
        if (is_news && *each->type && each->fd >= 0) frame(CHANGED, 0, each->type, strlen(each->type));
        each->seen = there;
    }
    if (heard) unanswered = quiet = heard = false;
    if (open_streams || jobs || out.size || ++quiet >= idle_ticks) {
        if (unanswered++ >= max_unanswered) finish(1);
        frame(PING, 0, NULL, 0);
        quiet = 0;
    }
    return now_ms() + tick_ms;
}
static void serve(void) {
    struct epoll_event events[EVENTS_MAX];
    int64_t next_tick = tick();
    while (!stop_signal) {
        int64_t wait = next_tick - now_ms();
        if (jobs && wait > PAUSE) wait = PAUSE;
        int count = epoll_pwait(poller, events, EVENTS_MAX, wait > 0 ? (int)wait : 0, &user_signals);
        // What comes from the host is looked at before a client is.
        for (int at = 0; at < 2 * count; at++)
            if ((events[at % count].data.fd == 0) == (at < count)) dispatch(&events[at % count]);
        if (jobs || count <= 0) check_jobs();
        if (now_ms() >= next_tick) next_tick = tick();
        if (out.size) flush(1, NULL);
    }
    finish(128 + stop_signal);
}
static void on_signal(int number) { if (number != SIGCHLD) stop_signal = number; }
int main(int argc, char **argv) {
    // All settings are numbers, which percent-encoding leaves as they are.
    const char *const names[] = {"protocol=", "max-streams=", "trace=", "tick-ms=", "max-unanswered=", "idle-ticks="};
    unsigned *const values[] = {&spoken, &max_streams, &tracing, &tick_ms, &max_unanswered, &idle_ticks};
    for (int at = 0; at < 6 * argc; at++) {
        size_t size = strlen(names[at % 6]);
        if (!strncmp(argv[at / 6], names[at % 6], size)) *values[at % 6] = (unsigned)atoi(argv[at / 6] + size);
    }
    close(4);    // by which the loader ran this program
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){FD_MAX, FD_MAX});    // fails where there are fewer
    user_umask = umask(0177);
    // Signals are let in only while events are waited for: none comes between a look at what it set and the wait.
    static const int caught[] = {SIGTERM, SIGHUP, SIGINT, SIGCHLD};
    sigset_t all;
    sigfillset(&all), sigprocmask(SIG_BLOCK, &all, &user_signals);
    for (int at = 0; at < 4; at++) sigaction(caught[at], &(struct sigaction){.sa_handler = on_signal}, NULL);
    signal(SIGPIPE, SIG_IGN);
    poller = epoll_create1(EPOLL_CLOEXEC), nonblocking(1), nonblocking(2);
    watch_read(0, host_readable, NULL);
    ready(), flush(1, NULL);
    serve();
}
