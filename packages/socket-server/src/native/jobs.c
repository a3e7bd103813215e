//// Jobs: programs that run and listeners that are asked, while everything else goes on.
// A job writes its input to fds[0] and reads its texts from the others to their end; -1 is closed. Its check returns
// what an operation does. pid: of a program. count, lines: a listener is asked until so many bytes and lines came.
struct job {
    struct call call; int (*check)(struct job *job, bool is_late);
    int64_t deadline; int fds[3], status, count, lines; pid_t pid; bool has_status;
    struct bytes input, texts[3]; struct job *next;
};
static struct job *jobs;

static void close_job(struct job *job, int at) { if (job->fds[at] >= 0) detach(job->fds[at]); job->fds[at] = -1; }

static void job_readable(int fd, void *owner) {
    struct job *job = owner;
    int index = fd == job->fds[1] ? 1 : 2;
    struct bytes *text = &job->texts[index];
    ssize_t count = read(fd, place_for(text, READ_SIZE), READ_SIZE);
    if (count < 0 && again()) return;
    if (count <= 0) return close_job(job, index);
    text->size += (size_t)count;
    if (text->size > STDOUT_MAX) drop(text, text->size - STDOUT_MAX);
}
static void job_writable(int fd, void *owner) {
    struct job *job = owner;
    ssize_t count = write(fd, first(&job->input), job->input.size);
    if (count < 0 && again()) return;
    drop(&job->input, count < 0 ? job->input.size : (size_t)count);
    if (!job->input.size) close_job(job, 0);
}
static struct job *start_job(struct call *call, int64_t milliseconds, int writer, int reader, int second_reader) {
    struct job *job = allocate(sizeof *job);
    *job = (struct job){.call.number = call->number, .deadline = now_ms() + milliseconds, .next = jobs,
                        .fds = {writer, reader, second_reader}};
    for (int index = 0; index < 3 && job->fds[index] >= 0; index++) {
        nonblocking(job->fds[index]);
        watch(job->fds[index], index ? job_readable : NULL, index ? NULL : job_writable, job);
    }
    return jobs = job;
}
static bool is_running(const struct job *job) { return job->pid && !job->has_status; }
static void reap(void) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (struct job *job = jobs; job; job = job->next)
            if (job->pid == pid) job->has_status = true, job->status = status;
}
static void check_jobs(void) {
    reap();
    for (struct job **place = &jobs; *place;) {
        struct job *job = *place;
        if (!settle(&job->call, job->check(job, now_ms() >= job->deadline))) { place = &job->next; continue; }
        *place = job->next;
        for (int index = 0; index < 3; index++) { close_job(job, index); release(&job->texts[index]); }
        release(&job->input); free(job);
    }
}
static int check_program(struct job *job, bool is_late) {
    if (is_late) { kill(-job->pid, SIGKILL); return ETIMEDOUT; }
    if (is_running(job) || job->fds[1] >= 0 || job->fds[2] >= 0) return LATER;
    int status = WIFSIGNALED(job->status) ? 128 + WTERMSIG(job->status) : WEXITSTATUS(job->status);
    if (job->texts[2].size > STDERR_MAX) drop(&job->texts[2], job->texts[2].size - STDERR_MAX);
    add_number(&job->call, (unsigned)status);
    for (int index = 1; index < 3; index++) add_field(&job->call, first(&job->texts[index]), job->texts[index].size);
    return 0;
}
static _Noreturn void become(const char *program, char **argv, const int *fds) {
    setpgid(0, 0);    // it and what it runs end together
    umask(user_umask), signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &user_signals, NULL);
    setenv("LC_ALL", "C", 1);
    if (dup2(fds[0], 0) == 0 && dup2(fds[3], 1) == 1 && dup2(fds[5], 2) == 2) execv(program, argv);
    _exit(127);
}
static int run_program(struct call *call) {
    const char *program = which(text_of(call, 1));
    int fds[6] = {-1, -1, -1, -1, -1, -1}, error = too_many_keys ? ENOBUFS : *program ? 0 : ENOENT;
    struct bytes input = keys;
    keys = (struct bytes){0}, too_many_keys = false;
    for (int index = 0; !error && index < 6; index += 2) if (pipe2(fds + index, O_CLOEXEC) != 0) error = errno;
    char **argv = allocate(call->count * sizeof *argv);    // the place of the seconds is for the null behind
    for (size_t index = 1; index < call->count; index++) argv[index - 1] = text_of(call, index);
    pid_t pid = error ? -1 : fork();
    if (pid == 0) become(program, argv, fds);
    if (!error && pid < 0) error = errno;
    free(argv);
    // The program's ends, and without a program all.
    for (int index = 0; index < 6; index++)
        if (fds[index] >= 0 && (error || index == 0 || index == 3 || index == 5)) close(fds[index]);
    if (error) { release(&input); return error; }
    setpgid(pid, pid);
    struct job *job = start_job(call, 1000 * (int64_t)number_of(call, 0), fds[1], fds[2], fds[4]);
    job->check = check_program, job->pid = pid, job->input = input;
    return LATER;
}
static int check_listener(struct job *job, bool is_late) {
    const char *reply = first(&job->texts[1]);
    int size = job->texts[1].size < REPLY_MAX ? (int)job->texts[1].size : REPLY_MAX, lines = 0;
    for (int at = 0; at < size; at++) lines += reply[at] == '\n';
    bool is_enough = size == REPLY_MAX || (size >= job->count && lines >= job->lines);
    if (!is_enough && job->fds[1] >= 0 && !is_late) return LATER;
    add_text(&job->call, is_enough ? "enough" : job->fds[1] < 0 ? "closed" : "timeout");
    add_field(&job->call, reply, (size_t)size);
    return 0;
}
static int ask_listener(struct call *call) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (call->arguments[0].size > SOCKET_PATH_MAX) return ENAMETOOLONG;
    strcpy(address.sun_path, text_of(call, 0));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int reader = connect(fd, (struct sockaddr *)&address, sizeof address) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (reader < 0) { int error = errno; close(fd); return error; }
    struct job *job = start_job(call, number_of(call, 1), fd, reader, -1);
    job->check = check_listener, job->count = number_of(call, 2), job->lines = number_of(call, 3);
    add(&job->input, text_of(call, 4), call->arguments[4].size);
    return LATER;
}
