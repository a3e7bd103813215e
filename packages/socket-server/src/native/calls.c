//// Calls: what the host asks for and its results.
struct field { char *data; size_t size; };    // a zero byte follows
struct fields { struct field *list; size_t count; char *copy; };
struct call { uint32_t number; size_t count; struct field *arguments; struct bytes result; };
enum { LATER = -1 };    // what an operation returns whose job answers, instead of 0 or an error number

#define E(name) {name, #name}
static const struct { int number; const char *name; } errors[] = {
    E(EPERM), E(ENOENT), E(EIO), E(ENXIO), E(E2BIG), E(EAGAIN), E(ENOMEM), E(EACCES), E(EBUSY), E(EEXIST), E(EXDEV),
    E(ENOTDIR), E(EISDIR), E(EINVAL), E(ENFILE), E(EMFILE), E(ENOSPC), E(EROFS), E(EPIPE), E(ENAMETOOLONG), E(ENOSYS),
    E(ELOOP), E(ENOTEMPTY), E(ENOTSOCK), E(EMSGSIZE), E(EPROTOTYPE), E(EOPNOTSUPP), E(EADDRINUSE), E(ENOBUFS),
    E(ECONNRESET), E(ETIMEDOUT), E(ECONNREFUSED), E(ESTALE), E(EDQUOT),
};

static void free_fields(struct fields *fields) { free(fields->list); free(fields->copy); *fields = (struct fields){0}; }
// The fields of a payload; none if it is not made of fields alone.
static struct fields split_fields(const char *payload, size_t size) {
    struct fields fields = {.list = allocate((size / 4 + 1) * sizeof *fields.list), .copy = allocate(size + 1)};
    char *at = memcpy(fields.copy, payload, size), *end = at + size;
    while (end - at >= 4 && get32(at) <= (size_t)(end - at) - 4) {
        struct field field = fields.list[fields.count++] = (struct field){at + 4, get32(at)};
        *at = 0;    // behind the field before
        at = field.data + field.size;
    }
    if (at != end) fields.count = 0;
    return fields;
}
static void add_field(struct call *call, const void *data, size_t size) {
    uint32_t length = htonl((uint32_t)size);
    add(&call->result, &length, sizeof length);
    add(&call->result, data, size);
}
static void add_text(struct call *call, const char *text) { add_field(call, text, strlen(text)); }
static void add_number(struct call *call, uint64_t number) {
    char text[24];
    add_field(call, text, (size_t)snprintf(text, sizeof text, "%ju", (uintmax_t)number));
}

// Sends the result unless it comes later.
static bool settle(struct call *call, int error) {
    if (error == LATER) return false;
    struct call answer = {0};
    if (!error && call->result.size > LENGTH_MAX - LENGTH_MIN - 6) error = EMSGSIZE;
    const char *name = error ? "EIO" : "ok";
    for (size_t at = sizeof errors / sizeof *errors; at--;) if (errors[at].number == error) name = errors[at].name;
    add_text(&answer, name);
    if (error) add_text(&answer, strerror(error));
    else add(&answer.result, first(&call->result), call->result.size);
    frame(RESULT, call->number, first(&answer.result), answer.result.size);
    release(&answer.result), release(&call->result);
    return true;
}

// Arguments: text without a zero byte, and a number of nine digits at most.
static char *text_of(struct call *call, size_t index) { return call->arguments[index].data; }
static int number_of(struct call *call, size_t index) { return (int)strtol(text_of(call, index), NULL, 10); }
