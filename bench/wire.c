#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
  exit(1);
}

double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static struct sockaddr_un address_of(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    die(path);
  }
  strcpy(address.sun_path, path);
  return address;
}

int connect_to(const char *path, long *retries) {
  struct sockaddr_un address = address_of(path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
    if (errno != EAGAIN && errno != EINTR) die(path);
    if (retries) ++*retries;
    usleep(1000);
  }
  return fd;
}

int listen_at(const char *path) {
  struct sockaddr_un address = address_of(path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unlink(path);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4096) < 0) die(path);
  return fd;
}

void write_all(int fd, const void *bytes, size_t count) {
  for (const char *at = bytes; count > 0;) {
    ssize_t n = write(fd, at, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) die("write");
    at += n;
    count -= n;
  }
}

int run_piped(char **argv, int *to, int *from) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) die("pipe");
  int child = fork();
  if (child < 0) die("fork");
  if (!child) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execvp(argv[0], argv);
    die(argv[0]);
  }
  close(in[0]);
  close(out[1]);
  *to = in[1];
  *from = out[0];
  return child;
}

int start_exec(const char *engine, const char *id) {
  static const char BODY[] = "{\"Detach\":false,\"Tty\":false}";
  char request[512], answer[2048];
  int fd = connect_to(engine, NULL);
  snprintf(request, sizeof request,
           "POST /exec/%s/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
           "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
           id, sizeof BODY - 1, BODY);
  write_all(fd, request, strlen(request));
  size_t filled = 0;
  do {
    ssize_t n = read(fd, answer + filled, 1);
    if (n <= 0 || ++filled >= sizeof answer - 1) die("no exec stream");
    answer[filled] = 0;
  } while (!strstr(answer, "\r\n\r\n"));
  return fd;
}

static int ends_answer(const char *line) {
  return !strncmp(line, "OK", 2) || !strncmp(line, "ERR", 3) || !strncmp(line, "INQ", 3);
}

size_t read_answer(int fd, char last[4]) {
  static char buffer[256 * 1024];
  size_t total = 0, kept = 0; /* `kept` is the start of a line that is not complete yet */
  for (;;) {
    ssize_t n = read(fd, buffer + kept, sizeof buffer - kept - 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = ECONNRESET;
      die("read");
    }
    total += n;
    size_t filled = kept + n;
    buffer[filled] = 0;
    char *line = memrchr(buffer, '\n', filled);
    if (!line) {
      kept = filled;
      continue;
    }
    if (line == buffer + filled - 1) {
      char *before = memrchr(buffer, '\n', filled - 1);
      char *start = before ? before + 1 : buffer;
      if (ends_answer(start)) {
        memcpy(last, start, 3);
        last[3] = 0;
        return total;
      }
      kept = 0;
      continue;
    }
    kept = buffer + filled - (line + 1);
    memmove(buffer, line + 1, kept);
  }
}

int ask(int fd, const char *command) {
  char last[4];
  write_all(fd, command, strlen(command));
  read_answer(fd, last);
  return !strncmp(last, "OK", 2);
}

const char *data_chunk(void) {
  static char chunk[CHUNK_BYTES];
  if (!chunk[0]) {
    memset(chunk, 'x', sizeof chunk);
    for (char *line = chunk; line < chunk + sizeof chunk; line += LINE_BYTES) {
      memcpy(line, "D ", 2);
      line[LINE_BYTES - 1] = '\n';
    }
  }
  return chunk;
}
