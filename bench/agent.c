/*
 * A trivial agent in the place of gpg-agent's extra socket: it costs next to nothing, so that what is
 * measured is the way to it, and it can be asked for any amount of data. A thread for each connection.
 *
 *   agent PATH
 *
 *   GETINFO restricted   OK
 *   GETINFO pid          D <pid>, OK
 *   GIVE <bytes>         about so many bytes of data lines, OK
 *   TAKE                 INQUIRE DATA; takes a block of any size, OK
 *   anything else        OK
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

/* The other end may leave at any time, and that is no failure here. */
static int send_all(int fd, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return 0;
    bytes += n;
    count -= n;
  }
  return 1;
}

static int say(int fd, const char *text) { return send_all(fd, text, strlen(text)); }

static int give(int fd, long bytes) {
  for (; bytes > CHUNK_BYTES; bytes -= CHUNK_BYTES) {
    if (!send_all(fd, data_chunk(), CHUNK_BYTES)) return 0;
  }
  return send_all(fd, data_chunk(), bytes / LINE_BYTES * LINE_BYTES) && say(fd, "OK\n");
}

/* Reads a block up to its END, a line of its own that nothing follows. */
static int take(int fd, char *buffer, size_t size) {
  char tail[5] = "";
  if (!say(fd, "INQUIRE DATA\n")) return 0;
  for (;;) {
    ssize_t n = read(fd, buffer, size);
    if (n <= 0) return 0;
    if (n >= 5) memcpy(tail, buffer + n - 5, 5);
    else {
      memmove(tail, tail + n, 5 - n);
      memcpy(tail + 5 - n, buffer, n);
    }
    if (!memcmp(tail, "\nEND\n", 5)) return say(fd, "OK\n");
  }
}

static void *serve(void *argument) {
  int fd = (int)(intptr_t)argument;
  char line[256], pid[40];
  size_t filled = 0;
  char *block = NULL;
  snprintf(pid, sizeof pid, "D %d\nOK\n", (int)getpid());
  int going = say(fd, "OK Pleased to meet you\n");
  while (going) {
    ssize_t n = read(fd, line + filled, sizeof line - filled - 1);
    if (n <= 0) break;
    filled += n;
    line[filled] = 0;
    for (char *end; going && (end = strchr(line, '\n'));) {
      *end = 0;
      if (!strcmp(line, "GETINFO pid")) going = say(fd, pid);
      else if (!strncmp(line, "GIVE ", 5)) going = give(fd, atol(line + 5));
      else if (!strcmp(line, "TAKE")) {
        if (!block) block = malloc(CHUNK_BYTES);
        going = take(fd, block, CHUNK_BYTES);
      } else if (!strcmp(line, "BYE")) {
        say(fd, "OK closing connection\n");
        going = 0;
      } else going = say(fd, "OK\n");
      filled -= end + 1 - line;
      memmove(line, end + 1, filled + 1);
    }
  }
  free(block);
  close(fd);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  signal(SIGPIPE, SIG_IGN);
  int listener = listen_at(argv[1]);
  data_chunk();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  puts("ready");
  fflush(stdout);
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) continue;
    pthread_t thread;
    if (pthread_create(&thread, &attributes, serve, (void *)(intptr_t)fd)) close(fd);
  }
}
