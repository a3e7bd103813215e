//// Files.
static char *made_dirs[MADE_MAX]; static int made_count;
// The device and inode of what is at a path, or an empty text.
struct identity { char text[48]; };
static struct identity identity_at(const char *path) {
    struct identity identity = {""};
    struct stat found;
    if (lstat(path, &found) != 0) return identity;
    snprintf(identity.text, sizeof identity.text, "%ju:%ju", (uintmax_t)found.st_dev, (uintmax_t)found.st_ino);
    return identity;
}
static int facts(struct call *call, int (*look)(const char *, struct stat *)) {
    struct stat found;
    if (look(text_of(call, 0), &found) != 0) return errno;
    int64_t age = time(NULL) - found.st_ctime;
    uint64_t numbers[] = {found.st_dev, found.st_ino, found.st_mode, found.st_uid, age < 0 ? 0 : (uint64_t)age};
    for (int at = 0; at < 5; at++) add_number(call, numbers[at]);
    return 0;
}
static int stat_path(struct call *call) { return facts(call, stat); }
static int lstat_path(struct call *call) { return facts(call, lstat); }
static int change_mode(struct call *call) { return chmod(text_of(call, 0), (mode_t)number_of(call, 1)) ? errno : 0; }

static int read_link(struct call *call) {
    char text[FILE_PATH_MAX];
    ssize_t size = readlink(text_of(call, 0), text, sizeof text);
    if (size >= 0) add_field(call, text, (size_t)size);
    return size < 0 ? errno : 0;
}
static int list_directory(struct call *call) {
    DIR *directory = opendir(text_of(call, 0));
    if (!directory) return errno;
    // A result that no frame can hold need not be complete.
    for (struct dirent *entry; call->result.size < LENGTH_MAX && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) add_text(call, entry->d_name);
    closedir(directory);
    return 0;
}
static int read_start(struct call *call) {
    // Without O_NONBLOCK the open of a pipe waits for its writer.
    int fd = open(text_of(call, 0), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno;
    static char text[REPLY_MAX];
    ssize_t count, size = 0;
    while ((count = read(fd, text + size, (size_t)(REPLY_MAX - size))) > 0) size += count;
    int error = count < 0 ? errno : 0;
    if (!error) add_field(call, text, (size_t)size);
    close(fd);
    return error;
}
static bool is_program(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

// The path of a program; an empty text if there is none.
static const char *which(const char *name) {
    static char path[FILE_PATH_MAX];
    const char *directories = getenv("PATH");
    if (strchr(name, '/')) return is_program(name) ? name : "";
    for (const char *at = directories && *directories ? directories : "/usr/bin:/bin"; *at;) {
        size_t size = strcspn(at, ":");
        int count = snprintf(path, sizeof path, "%.*s/%s", (int)size, at, name);
        if (*at == '/' && (size_t)count < sizeof path && is_program(path)) return path;
        at += size + (at[size] == ':');
    }
    return "";
}
static int find_program(struct call *call) {
    const char *path = which(text_of(call, 0));
    add_text(call, path);
    return *path ? 0 : ENOENT;
}
static int make_directory(struct call *call) {
    struct stat found;
    char *path = text_of(call, 0);
    for (char *end = path + strspn(path, "/"); *end; end += strspn(end, "/")) {
        char after = *(end += strcspn(end, "/"));
        *end = 0;
        int made = stat(path, &found) == 0 ? 1 : mkdir(path, 0700);
        if (made < 0 && errno != EEXIST) return errno;
        if (made == 0 && made_count < MADE_MAX) made_dirs[made_count++] = strdup(path);
        if (made == 0) chmod(path, 0700);
        *end = after;
    }
    return 0;
}
