//// Answering ahead. What is answered, and with what, is the host's table; nothing here knows what a line means.
// The greeting, and four for each entry: its id, `later` if it waits as the first command, its pattern, its answer. For
// clients of the ssh-agent: an id, how a message begins behind its length, the answer.
static struct fields table, binds;
static regex_t *patterns; static size_t entries;
// turn: nothing is owed to the client. sent: bytes that went to the host. kept, ids, begun: what was answered, the
// entries, and the beginning of the next. once: three fields for each answer that was sent along. ssh: messages.
struct ahead { bool turn, is_first, ssh; uint32_t sent; struct bytes kept, ids, begun; struct fields once; };

static void set_table(uint32_t place, const char *payload, size_t size) {
    if (place) { free_fields(&binds); binds = split_fields(payload, size); return; }
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

// Greets a client if there is a table, behind OPEN, which says so: the host has something to do meanwhile.
static void greet(struct stream *stream, const char *type) {
    bool ssh = !strcmp(type, "ssh-agent");
    bool is_on = unanswered < 2 && (ssh ? binds.count == 3 : table.count && !strcmp(type, "gpg-agent"));
    if (is_on) stream->ahead = allocate(sizeof *stream->ahead);
    if (is_on) *stream->ahead = (struct ahead){.turn = true, .is_first = true, .ssh = ssh};
    char text[TYPE_MAX + 16];
    int size = snprintf(text, sizeof text, "%s%s", type, is_on && !ssh ? " greeted" : "");
    frame(OPEN, stream->id, text, (size_t)size);
    if (is_on && !ssh) flush(1, NULL), tell_client(stream, table.list[0].data, table.list[0].size);
}

// Bytes of the client's first line or message, if it is whole, or too long a message; else 0.
static size_t whole(const struct ahead *ahead) {
    const char *data = first(&ahead->begun), *lf = ahead->ssh ? NULL : memchr(data, '\n', ahead->begun.size);
    size_t size = ahead->ssh && ahead->begun.size >= 4 ? 4 + (size_t)get32(data) : lf ? (size_t)(lf - data) + 1 : 0;
    return size <= ahead->begun.size || size > KEPT_MAX ? size : 0;
}

// Adds the answer to a line of the client's, which ends in a zero byte, and the entry's id; false: the line waits.
static bool answer_line(struct ahead *ahead, const char *line, size_t size, struct bytes *answers) {
    struct field *id = NULL, *answer = NULL, *bind = ahead->ssh && binds.count == 3 ? binds.list : NULL;
    if (bind && size >= 4 + bind[1].size && !memcmp(line + 4, bind[1].data, bind[1].size)) id = bind, answer = bind + 2;
    for (size_t at = 0; !id && at + 2 < ahead->once.count; at += 3) {
        struct field *once = &ahead->once.list[at];
        if (once[1].size != size || memcmp(once[1].data, line, size) != 0) continue;
        id = &once[0], answer = &once[2];
        once[1].size = LENGTH_MAX;    // no line is like it any more
    }
    for (size_t at = 0; !id && !ahead->ssh && strlen(line) == size && at < entries; at++) {
        struct field *entry = &table.list[4 * at + 1];
        const char *word = entry[2].data + strspn(entry[2].data, "^");    // compared first: matching takes long
        size_t letters = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        if ((ahead->is_first && entry[1].size) || strncmp(line, word, letters)) continue;
        if (regexec(&patterns[at], line, 0, NULL, 0) == 0) id = &entry[0], answer = &entry[3];
    }
    if (!id) return false;
    uint32_t number = htonl((uint32_t)strtoul(id->data, NULL, 10));
    add(&ahead->ids, &number, sizeof number), add(answers, answer->data, answer->size);
    return true;
}

// Takes what was read, and returns true, while it is the client's turn.
static bool read_ahead(struct stream *stream, const char *data, size_t count) {
    struct ahead *ahead = stream->ahead;
    if (!ahead->turn) { ahead->sent += (uint32_t)count; return false; }
    bool may_answer = !stream->queue.size && unanswered < 2;    // nothing while the host's answer is late
    struct bytes answers = {0}; size_t size, most = ahead->ssh ? KEPT_MAX : LINE_MAX + 1;
    add(&ahead->begun, data, count);
    while ((size = whole(ahead))) {
        char *line = first(&ahead->begun);
        if (!ahead->ssh) line[size - 1] = 0;
        may_answer = may_answer && size <= most && ahead->kept.size < KEPT_MAX
            && answer_line(ahead, line, ahead->ssh ? size : size - 1, &answers);
        if (!ahead->ssh) line[size - 1] = '\n';
        ahead->is_first = false;
        if (!may_answer) break;
        add(&ahead->kept, line, size);
        drop(&ahead->begun, size);
    }
    if (answers.size) tell_client(stream, first(&answers), answers.size);
    release(&answers);
    if (size || ahead->begun.size >= most) pass_kept(stream);
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
    ahead->sent += (uint32_t)ahead->kept.size, ahead->turn = false;
    forget_kept(ahead);
}

// It is the client's turn if the host has answered everything that was sent.
static void take_turn(struct ahead *ahead, const char *payload, size_t count) {
    if (count > 4) { free_fields(&ahead->once); ahead->once = split_fields(payload + 4, count - 4); }
    if (get32(payload) == ahead->sent) ahead->turn = true;
}
static void end_ahead(struct ahead *ahead) { if (ahead) forget_kept(ahead), free_fields(&ahead->once); free(ahead); }
