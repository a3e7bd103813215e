//// Bytes in the order in which they came; those in front can be dropped.
struct bytes { char *data; size_t start, size, room; };

// Ends a server that can't go on.
static _Noreturn void broken(const char *what) { dprintf(2, "the socket server failed: %s\n", what); finish(1); }

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1000 * (int64_t)now.tv_sec + now.tv_nsec / 1000000;
}
// Memory that is all zero.
static void *allocate(size_t size) { void *memory = calloc(1, size); if (!memory) broken("memory"); return memory; }

static char *first(const struct bytes *bytes) { return bytes->data + bytes->start; }
static void release(struct bytes *bytes) { free(bytes->data); *bytes = (struct bytes){0}; }

// Where so many bytes can be written behind the others.
static char *place_for(struct bytes *bytes, size_t count) {
    if (bytes->start + bytes->size + count > bytes->room) {
        struct bytes larger = {.size = bytes->size, .room = bytes->room ? bytes->room : 4096};
        while (larger.room < bytes->size + count) larger.room *= 2;
        larger.data = allocate(larger.room);
        if (bytes->size) memcpy(larger.data, first(bytes), bytes->size);
        free(bytes->data);
        *bytes = larger;
    }
    return first(bytes) + bytes->size;
}
static void add(struct bytes *bytes, const void *data, size_t count) {
    if (count) memcpy(place_for(bytes, count), data, count);
    bytes->size += count;
}
static void drop(struct bytes *bytes, size_t count) {
    bytes->start += count, bytes->size -= count;
    if (!bytes->size) bytes->start = 0;
    if (!bytes->size && bytes->room > 2 * OUT_HIGH) release(bytes);    // much is needed seldom
}
