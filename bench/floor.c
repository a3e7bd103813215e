/*
 * The least that a bridge of this shape can do: the frames of the wire protocol carried by two small
 * programs in C, for one client at a time, with no keys, no credit, no checks and nothing observed. What
 * a path costs with these at its ends is what its processes and pipes cost by themselves.
 *
 *   floor serve PATH                 the target's end: listens at PATH, frames on standard input and output
 *   floor host AGENT -- COMMAND…     the host's end: runs COMMAND, connects to AGENT for its client
 *   floor exec AGENT SOCKET ID       the same over an exec stream of an engine's API
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
    } else if (peer >= 0 && stream == current) {
      if (frame[4] == DATA) write_all(peer, frame + HEADER, whole - HEADER);
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
      send_frame(to, n > 0 ? DATA : CLOSE, current, n > 0 ? n : 0);
    }
    if (ready[2].revents) {
      static const char TYPE[] = "gpg-agent";
      peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
      if (peer < 0) continue;
      memcpy(out + HEADER, TYPE, sizeof TYPE - 1);
      send_frame(to, OPEN, ++current, sizeof TYPE - 1);
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
  if (argc == 3 && !strcmp(argv[1], "serve")) serve(argv + 2);
  if (argc >= 5 && !strcmp(argv[1], "host")) host(argv + 2);
  if (argc == 5 && !strcmp(argv[1], "exec")) exec_stream(argv + 2);
  errno = EINVAL;
  die("see the head of floor.c");
}
