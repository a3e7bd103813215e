/* What the measuring client, the trivial agent and the least bridge share: sockets, whole writes, Assuan answers. */
#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>
#include <stdint.h>

/* A data line of the usual length: `D `, 997 bytes, LF. */
#define LINE_BYTES 1000
#define CHUNK_LINES 64
#define CHUNK_BYTES (LINE_BYTES * CHUNK_LINES)

/* Prints why and ends with status 1: a measurement with a failed call in it is worth nothing. */
void die(const char *what) __attribute__((noreturn));

double now_us(void);

/* Connects, again and again while the backlog is full; `retries` counts those, and may be NULL. */
int connect_to(const char *path, long *retries);
int listen_at(const char *path);

void write_all(int fd, const void *bytes, size_t count);

/* Runs a command; `to` is its standard input, `from` its standard output. Returns its process id. */
int run_piped(char **argv, int *to, int *from);

/* Starts an exec that an engine has made, and returns its stream. */
int start_exec(const char *engine, const char *id);
/* Bytes that an engine puts before each piece of output: stream, three zeros, length. */
#define ENGINE_HEADER 8

/*
 * Reads one answer: everything up to a line that starts with OK, ERR or INQUIRE. The bytes before that
 * line are counted and dropped, so that an answer may have any size. Returns all bytes of it; what the
 * last line starts with is in `last`.
 */
size_t read_answer(int fd, char last[4]);

/* One command (with its LF) and its answer, whatever it is; says whether it ended in OK. */
int ask(int fd, const char *command);

/* CHUNK_LINES data lines. */
const char *data_chunk(void);

#endif
