/*
 * The client that measures. Every mode prints its samples as doubles on standard output, microseconds
 * unless said otherwise; what goes wrong ends it with status 1.
 *
 *   client rtt PATH N              N round trips of NOP on one connection: nothing answers it but the
 *                                  agent
 *   client held PATH N             the same; then prints `done` and keeps the connection until standard
 *                                  input ends, so that its processes can be looked at
 *   client connect PATH N          N times: connect, greeting, BYE and its answer, close
 *   client sign PATH KEYGRIP N     N signatures, each on a connection of its own, as gpg makes them
 *   client get PATH BYTES          one answer of so many bytes (the trivial agent's GIVE)
 *   client put PATH BYTES          one inquiry block of so many bytes (its TAKE)
 *   client sessions PATH N         opens N sessions, a command on each, prints `open` once the first has its
 *                                  answer, keeps them until standard input ends, and then reads every answer
 *   client busy PATH STREAMS N STUCK   N round trips on each of so many connections at once; with STUCK,
 *                                  beside one that asked for a flood and does not read
 *   client pipe N -- COMMAND…      N echoes of one line through a command's standard input and output
 *   client exec SOCKET ID N        the same through an exec stream of an engine's API
 *   client time N -- COMMAND…      N runs of a command, wall time of each
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include "wire.h"

static const char COMMAND[] = "NOP\n";
/* Microseconds in which a flood fills every buffer on its way. */
#define FLOOD_SETTLES 300000
#define FLOOD "GIVE 1073741824\n"

static double *samples;
static long sample_count;

static void sample(double value) {
  if (sample_count % 4096 == 0) {
    samples = realloc(samples, (sample_count + 4096) * sizeof *samples);
    if (!samples) die("realloc");
  }
  samples[sample_count++] = value;
}

static void ask_ok(int fd, const char *command) {
  if (ask(fd, command)) return;
  errno = 0;
  die(command);
}

static int greeted(const char *path) {
  char last[4];
  int fd = connect_to(path, NULL);
  read_answer(fd, last);
  return fd;
}

/* Says on standard error that it is so far, and waits for the end of standard input. */
static void hold(const char *word) {
  char byte;
  fputs(word, stderr);
  while (read(0, &byte, 1) > 0) {}
}

static void rtt(char **argv) {
  int fd = greeted(argv[0]);
  for (long n = atol(argv[1]); n > 0; n--) {
    double start = now_us();
    ask(fd, COMMAND);
    sample(now_us() - start);
  }
}

static void held(char **argv) {
  rtt(argv);
  hold("done\n");
}

static void connects(char **argv) {
  for (long n = atol(argv[1]); n > 0; n--) {
    double start = now_us();
    int fd = greeted(argv[0]);
    ask_ok(fd, "BYE\n");
    close(fd);
    sample(now_us() - start);
  }
}

/* The twelve round trips of gpg 2.2. Those that a restricted socket refuses are answered with ERR. */
static void sign(char **argv) {
  char have[80], key[80];
  snprintf(have, sizeof have, "HAVEKEY %s\n", argv[1]);
  snprintf(key, sizeof key, "SIGKEY %s\n", argv[1]);
  const char *commands[] = {
      "RESET\n", "OPTION agent-awareness=2.1.0\n", "GETINFO restricted\n", "GETINFO version\n",
      "OPTION allow-pinentry-notify\n", "OPTION ttytype=dumb\n", have, "RESET\n", key,
      "SETKEYDESC A+signature\n",
      "SETHASH 8 E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\n",
  };
  for (long n = atol(argv[2]); n > 0; n--) {
    double start = now_us();
    int fd = greeted(argv[0]);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) ask(fd, commands[i]);
    ask_ok(fd, "PKSIGN\n");
    close(fd);
    sample(now_us() - start);
  }
}

static void get(char **argv) {
  char command[40], last[4];
  snprintf(command, sizeof command, "GIVE %ld\n", atol(argv[1]));
  int fd = greeted(argv[0]);
  double start = now_us();
  write_all(fd, command, strlen(command));
  if (read_answer(fd, last) + LINE_BYTES < (size_t)atol(argv[1])) die("the answer is too short");
  sample(now_us() - start);
}

static void put(char **argv) {
  char last[4];
  int fd = greeted(argv[0]);
  double start = now_us();
  write_all(fd, "TAKE\n", 5);
  read_answer(fd, last);
  long left = atol(argv[1]);
  for (; left > CHUNK_BYTES; left -= CHUNK_BYTES) write_all(fd, data_chunk(), CHUNK_BYTES);
  write_all(fd, data_chunk(), left / LINE_BYTES * LINE_BYTES);
  ask_ok(fd, "END\n");
  sample(now_us() - start);
}

/* Samples: seconds until all were open, connects that found the backlog full. */
static void sessions(char **argv) {
  long count = atol(argv[1]), retries = 0;
  int *fds = malloc(count * sizeof *fds);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  double start = now_us();
  char last[4];
  for (long i = 0; i < count; i++) fds[i] = connect_to(argv[0], &retries);
  for (long i = 0; i < count; i++) read_answer(fds[i], last);
  for (long i = 0; i < count; i++) write_all(fds[i], COMMAND, sizeof COMMAND - 1);
  read_answer(fds[0], last);
  sample((now_us() - start) / 1e6);
  sample(retries);
  hold("open\n");
  start = now_us();
  for (long i = 0; i < count; i++) {
    if (i > 0) read_answer(fds[i], last);
    close(fds[i]);
  }
  sample((now_us() - start) / 1e6);
}

struct busy {
  int fd;
  long left;
  double start;
};

static void send_busy(struct busy *stream) {
  stream->left--;
  stream->start = now_us();
  write_all(stream->fd, COMMAND, sizeof COMMAND - 1);
}

static void busy(char **argv) {
  long count = atol(argv[1]);
  if (atol(argv[3])) {
    int stuck = greeted(argv[0]);
    write_all(stuck, FLOOD, strlen(FLOOD));
    usleep(FLOOD_SETTLES);
  }
  struct busy *streams = calloc(count, sizeof *streams);
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  for (long i = 0; i < count; i++) {
    streams[i].fd = greeted(argv[0]);
    streams[i].left = atol(argv[2]);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &streams[i]};
    epoll_ctl(epoll, EPOLL_CTL_ADD, streams[i].fd, &event);
  }
  for (long i = 0; i < count; i++) send_busy(&streams[i]);
  for (long going = count; going > 0;) {
    struct epoll_event events[64];
    char last[4];
    int ready = epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < ready; i++) {
      struct busy *stream = events[i].data.ptr;
      read_answer(stream->fd, last);
      sample(now_us() - stream->start);
      if (stream->left > 0) send_busy(stream);
      else going--;
    }
  }
}

static void read_exactly(int fd, size_t count) {
  char buffer[256];
  while (count > 0) {
    ssize_t n = read(fd, buffer, count < sizeof buffer ? count : sizeof buffer);
    if (n <= 0) die("the echo ended");
    count -= n;
  }
}

static void echo(int to, int from, long n, size_t answer_bytes) {
  for (; n > 0; n--) {
    double start = now_us();
    write_all(to, COMMAND, sizeof COMMAND - 1);
    read_exactly(from, answer_bytes);
    sample(now_us() - start);
  }
}

static void pipe_echo(char **argv) {
  int to, from;
  pid_t child = run_piped(argv + 2, &to, &from);
  echo(to, from, 1, sizeof COMMAND - 1); /* the command has to start first */
  sample_count = 0;
  echo(to, from, atol(argv[0]), sizeof COMMAND - 1);
  close(to);
  waitpid(child, NULL, 0);
}

static void exec_echo(char **argv) {
  int fd = start_exec(argv[0], argv[1]);
  echo(fd, fd, atol(argv[2]), ENGINE_HEADER + sizeof COMMAND - 1);
}

static void time_runs(char **argv) {
  for (long n = atol(argv[0]); n > 0; n--) {
    int status;
    double start = now_us();
    pid_t child = fork();
    if (child < 0) die("fork");
    if (!child) {
      int null = open("/dev/null", O_RDWR);
      dup2(null, 0);
      dup2(null, 1);
      execvp(argv[2], argv + 2);
      die(argv[2]);
    }
    waitpid(child, &status, 0);
    sample(now_us() - start);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
      errno = 0;
      die("the command failed");
    }
  }
}

static const struct {
  const char *name;
  int arguments;
  void (*run)(char **argv);
} MODES[] = {
    {"rtt", 2, rtt},         {"held", 2, held}, {"connect", 2, connects}, {"sign", 3, sign},
    {"get", 2, get},         {"put", 2, put},   {"sessions", 2, sessions}, {"busy", 4, busy},
    {"pipe", 3, pipe_echo},  {"exec", 3, exec_echo}, {"time", 3, time_runs},
};

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  for (size_t i = 0; argc > 1 && i < sizeof MODES / sizeof *MODES; i++) {
    if (strcmp(argv[1], MODES[i].name) || argc - 2 < MODES[i].arguments) continue;
    MODES[i].run(argv + 2);
    write_all(1, samples, sample_count * sizeof *samples);
    return 0;
  }
  fputs("see the head of client.c\n", stderr);
  return 2;
}
