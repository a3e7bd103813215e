//// Answering ahead. What is answered, and with what, is the host's table; nothing here knows what a line means.
// The greeting, and four for each entry: its id, `later` if it waits as the first command, its pattern, its answer.
static struct fields table;
static regex_t *patterns; static size_t entries;
// turn: nothing is owed to the client. sent: bytes that went to the host. kept, ids, begun: lines that were answered,
// their entries, and the beginning of the next. once: three fields for each answer that was sent along.
struct ahead { bool turn, is_first; uint32_t sent; struct bytes kept, ids, begun; struct fields once; };

static void set_table(const char *payload, size_t size) {
    for (size_t at = 0; at < entries; at++) regfree(&patterns[at]);
    free(patterns), free_fields(&table);
    table = split_fields(payload, size);
    entries = table.count ? (table.count - 1) / 4 : 0;
    patterns = allocate((entries + 1) * sizeof *patterns);
    for (uint32_t at = 0; at < entries; at++)
        if (regcomp(&patterns[at], table.list[4 * at + 3].data, REG_EXTENDED | REG_NOSUB)) fail("no pattern: %u", at);
}

// The host has not sent these bytes, and gets no credit for them.
static void tell_client(struct stream *stream, const char *text, size_t size) {
    give(stream, text, size);
    stream->taken -= (int64_t)size;
}

// Greets a client if there is a table; returns what OPEN says of it.
static const char *greet(struct stream *stream, const char *type) {
    if (!table.count || strcmp(type, "gpg-agent") != 0 || unanswered > 1) return "";
    stream->ahead = allocate(sizeof *stream->ahead);
    stream->ahead->turn = stream->ahead->is_first = true;
    tell_client(stream, table.list[0].data, table.list[0].size);
    return " greeted";
}

// Adds the answer to a line of the client's, which ends in a zero byte, and the entry's id; false: the line waits.
static bool answer_line(struct ahead *ahead, const char *line, size_t size, struct bytes *answers) {
    struct field *id = NULL, *answer = NULL;
    for (size_t at = 0; !id && at + 2 < ahead->once.count; at += 3) {
        struct field *once = &ahead->once.list[at];
        if (once[1].size != size || memcmp(once[1].data, line, size) != 0) continue;
        id = &once[0], answer = &once[2];
        once[1].size = LENGTH_MAX;    // no line is like it any more
    }
    for (size_t at = 0; !id && strlen(line) == size && at < entries; at++) {
        struct field *entry = &table.list[4 * at + 1];
        if (ahead->is_first && entry[1].size) continue;
        if (regexec(&patterns[at], line, 0, NULL, 0) == 0) id = &entry[0], answer = &entry[3];
    }
    if (!id) return false;
    uint32_t number = htonl((uint32_t)strtoul(id->data, NULL, 10));
    add(&ahead->ids, &number, sizeof number);
    add(answers, answer->data, answer->size);
    return true;
}

// Takes what was read, and returns true, while it is the client's turn.
static bool read_ahead(struct stream *stream, const char *data, size_t count) {
    struct ahead *ahead = stream->ahead;
    if (!ahead->turn) { ahead->sent += (uint32_t)count; return false; }
    bool may_answer = !stream->queue.size && unanswered < 2;    // nothing while the host's answer is late
    struct bytes answers = {0};
    char *lf;
    add(&ahead->begun, data, count);
    while ((lf = ahead->begun.size ? memchr(first(&ahead->begun), '\n', ahead->begun.size) : NULL)) {
        size_t size = (size_t)(lf - first(&ahead->begun));
        *lf = 0;
        may_answer = may_answer && size <= LINE_MAX && ahead->kept.size < KEPT_MAX
            && answer_line(ahead, first(&ahead->begun), size, &answers);
        *lf = '\n';
        ahead->is_first = false;
        if (!may_answer) break;
        add(&ahead->kept, first(&ahead->begun), size + 1);
        drop(&ahead->begun, size + 1);
    }
    if (answers.size) tell_client(stream, first(&answers), answers.size);
    release(&answers);
    if (lf || ahead->begun.size > LINE_MAX) pass_kept(stream);
    return true;
}
static void forget_kept(struct ahead *ahead) { release(&ahead->kept); release(&ahead->ids); release(&ahead->begun); }

// Sends what was kept to the host, from where everything comes until its next TURN.
static void pass_kept(struct stream *stream) {
    struct ahead *ahead = stream->ahead;
    if (!ahead || ahead->kept.size + ahead->begun.size == 0) return;
    if (ahead->ids.size) frame(TOLD, stream->id, first(&ahead->ids), ahead->ids.size);
    add(&ahead->kept, first(&ahead->begun), ahead->begun.size);
    frame(DATA, stream->id, first(&ahead->kept), ahead->kept.size);
    ahead->sent += (uint32_t)ahead->kept.size;
    ahead->turn = false;
    forget_kept(ahead);
}

// It is the client's turn if the host has answered everything that was sent.
static void take_turn(struct ahead *ahead, const char *payload, size_t count) {
    if (count > 4) { free_fields(&ahead->once); ahead->once = split_fields(payload + 4, count - 4); }
    if (get32(payload) == ahead->sent) ahead->turn = true;
}
static void end_ahead(struct ahead *ahead) {
    if (ahead) { forget_kept(ahead); free_fields(&ahead->once); }
    free(ahead);
}
