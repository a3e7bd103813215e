/*
 * The least that a bridge of this shape can do: the frames of the wire protocol carried by two small
 * programs in C, for one client at a time, with no keys, no credit, no checks and nothing observed. What
 * a path costs with these at its ends is what its processes and pipes cost by themselves.
 *
 *   floor serve PATH [ahead]              the target's end: listens at PATH, frames on standard input and output
 *   floor host AGENT -- COMMAND…          the host's end: runs COMMAND, connects to AGENT for its client
 *   floor exec AGENT SOCKET ID [ahead]    the same over an exec stream of an engine's API
 *
 * With `ahead` both answer ahead: the target's end tells gpg what it asks and sets before it needs a key, and sends
 * those lines along with the next that waits; the host's end has them answered before it sends that one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

enum { DATA = 1, OPEN = 2, CLOSE = 3 };
#define HEADER 9
#define ROOM (64 * 1024)

static char out[HEADER + ROOM];
static int ahead;

/* Sends a frame whose payload is in `out` already, behind the place of its header. */
static void send_frame(int fd, int type, uint32_t stream, size_t length) {
  uint32_t counted = 5 + length;
  for (int i = 0; i < 4; i++) {
    out[i] = counted >> (24 - 8 * i);
    out[5 + i] = stream >> (24 - 8 * i);
  }
  out[4] = type;
  write_all(fd, out, HEADER + length);
}

/* Bytes that came in and are no whole frame yet. An engine puts 8 bytes before each piece of output. */
struct input {
  int fd, engine;
  size_t filled, piece;
  unsigned char bytes[2 * ROOM];
};

static uint32_t number_at(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static void fill(struct input *in) {
  unsigned char chunk[ROOM];
  ssize_t n = read(in->fd, in->engine ? chunk : in->bytes + in->filled,
                   in->engine ? sizeof chunk : sizeof in->bytes - in->filled);
  if (n <= 0) _exit(0); /* the other end has left */
  if (!in->engine) {
    in->filled += n;
    return;
  }
  for (ssize_t at = 0; at < n;) {
    if (in->piece == 0) {
      if (n - at < ENGINE_HEADER) die("an exec stream in pieces");
      in->piece = number_at(chunk + at + 4);
      at += ENGINE_HEADER;
    }
    size_t take = in->piece < (size_t)(n - at) ? in->piece : (size_t)(n - at);
    memcpy(in->bytes + in->filled, chunk + at, take);
    in->filled += take;
    in->piece -= take;
    at += take;
  }
}

/* Lines of the client that were answered here, and the beginning of the next. */
static char kept[ROOM];
static size_t kept_bytes;

/* What a client is told, or NULL if its line waits for the host. */
static const char *told(const char *line) {
  static const char *const SET[] = {"RESET", "OPTION ", "GETINFO restricted", "SIGKEY ", "SETKEYDESC ", "SETHASH "};
  if (!strncmp(line, "GETINFO version", 15)) return "D 9.9\nOK\n";
  for (size_t i = 0; i < sizeof SET / sizeof *SET; i++) {
    if (!strncmp(line, SET[i], strlen(SET[i]))) return "OK\n";
  }
  return NULL;
}

/* Takes what a client sent, from `out`; returns how many bytes go to the host, again in `out`. */
static size_t take_ahead(int client, size_t length) {
  if (kept_bytes + length >= sizeof kept) die("too much for one who answers ahead");
  memcpy(kept + kept_bytes, out + HEADER, length);
  kept_bytes += length;
  kept[kept_bytes] = 0;
  if (kept[kept_bytes - 1] != '\n') return 0;
  char *before = memrchr(kept, '\n', kept_bytes - 1);
  const char *answer = told(before ? before + 1 : kept);
  if (answer) {
    write_all(client, answer, strlen(answer));
    return 0;
  }
  size_t sent = kept_bytes;
  memcpy(out + HEADER, kept, sent);
  kept_bytes = 0;
  return sent;
}

/* Reads so many answers of an agent, the greeting among them, and drops them. */
static void drop_answers(int agent, int count) {
  char bytes[4096], first = 0;
  while (count > 0) {
    ssize_t n = read(agent, bytes, sizeof bytes);
    if (n <= 0) die("the agent");
    for (ssize_t i = 0; i < n; i++) {
      if (!first) first = bytes[i];
      if (bytes[i] != '\n') continue;
      if (first == 'O' || first == 'E') count--; /* OK or ERR */
      first = 0;
    }
  }
}

/* Sends lines to the agent, the last one when those before it were answered. */
static void send_lines(int agent, const char *lines, size_t length) {
  const char *before = memrchr(lines, '\n', length - 1);
  size_t told_bytes = before ? before + 1 - lines : 0;
  int count = 0;
  for (size_t i = 0; i < told_bytes; i++) count += lines[i] == '\n';
  if (count) write_all(agent, lines, told_bytes);
  drop_answers(agent, count);
  write_all(agent, lines + told_bytes, length - told_bytes);
}

/* What is connected now, and the number of its stream. */
static int peer = -1;
static uint32_t current;

static void drop_peer(void) {
  close(peer);
  peer = -1;
}

/* Handles the whole frames; `agent` is where OPEN connects to. */
static void handle(struct input *in, const char *agent) {
  size_t at = 0;
  while (in->filled - at >= HEADER) {
    unsigned char *frame = in->bytes + at;
    size_t whole = 4 + number_at(frame);
    if (in->filled - at < whole) break;
    uint32_t stream = number_at(frame + 5);
    if (frame[4] == OPEN && agent) {
      peer = connect_to(agent, NULL);
      current = stream;
      if (ahead) drop_answers(peer, 1);
    } else if (peer >= 0 && stream == current) {
      if (frame[4] == DATA && agent && ahead) send_lines(peer, (char *)frame + HEADER, whole - HEADER);
      else if (frame[4] == DATA) write_all(peer, frame + HEADER, whole - HEADER);
      else if (frame[4] == CLOSE) drop_peer();
    }
    at += whole;
  }
  in->filled -= at;
  memmove(in->bytes, in->bytes + at, in->filled);
}

/* Passes on between the carrier and one peer; new ones come from `listener`, or from OPEN. */
static void carry(struct input *in, int to, int listener, const char *agent) {
  for (;;) {
    struct pollfd ready[3] = {{in->fd, POLLIN, 0}, {peer, POLLIN, 0}, {peer < 0 ? listener : -1, POLLIN, 0}};
    if (poll(ready, 3, -1) < 0) continue;
    if (ready[0].revents) {
      fill(in);
      handle(in, agent);
    }
    if (ready[1].revents && peer >= 0) {
      ssize_t n = read(peer, out + HEADER, ROOM);
      if (n <= 0) drop_peer();
      else if (ahead && !agent && !(n = take_ahead(peer, n))) continue;
      send_frame(to, n > 0 ? DATA : CLOSE, current, n > 0 ? n : 0);
    }
    if (ready[2].revents) {
      static const char TYPE[] = "gpg-agent";
      peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
      if (peer < 0) continue;
      memcpy(out + HEADER, TYPE, sizeof TYPE - 1);
      send_frame(to, OPEN, ++current, sizeof TYPE - 1);
      kept_bytes = 0;
      if (ahead) write_all(peer, "OK\n", 3);
    }
  }
}

static struct input carrier;

static void serve(char **argv) {
  int listener = listen_at(argv[0]);
  carry(&carrier, 1, listener, NULL);
}

static void host(char **argv) {
  int to;
  run_piped(argv + 2, &to, &carrier.fd);
  carry(&carrier, to, -1, argv[0]);
}

static void exec_stream(char **argv) {
  carrier.fd = start_exec(argv[1], argv[2]);
  carrier.engine = 1;
  carry(&carrier, carrier.fd, -1, argv[0]);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  ahead = !strcmp(argv[argc - 1], "ahead");
  argc -= ahead;
  if (argc == 3 && !strcmp(argv[1], "serve")) serve(argv + 2);
  if (argc >= 5 && !strcmp(argv[1], "host")) host(argv + 2);
  if (argc == 5 && !strcmp(argv[1], "exec")) exec_stream(argv + 2);
  errno = EINVAL;
  die("see the head of floor.c");
}
