//// Operations.
// Their arguments: n is a number, t text without a zero byte (a path), b any bytes. A program has more of t.
static const struct { const char *name, *letters; int (*code)(struct call *call); } operations[] = {
    {"stat", "t", stat_path}, {"lstat", "t", lstat_path}, {"readlink", "t", read_link}, {"list", "t", list_directory},
    {"read", "t", read_start}, {"which", "t", find_program}, {"run", "nt", run_program}, {"mkdir", "t", make_directory},
    {"chmod", "tn", change_mode}, {"ask", "tnnnb", ask_listener}, {"bind", "ttttntt", bind_socket},
    {"release", "t", release_socket},
};

static bool fits(char letter, const struct field *field) {
    if (letter == 'n') return field->size && field->size < 10 && strspn(field->data, "0123456789") == field->size;
    return letter == 'b' || strlen(field->data) == field->size;
}
static int carry_out(struct call *call) {
    if (!call->count--) return EINVAL;
    const struct field name = *call->arguments++;
    size_t at = 0, letters;
    while (strlen(operations[at].name) != name.size || memcmp(operations[at].name, name.data, name.size))
        if (++at == sizeof operations / sizeof *operations) return ENOSYS;
    letters = strlen(operations[at].letters);
    if (operations[at].code == run_program ? call->count < letters : call->count != letters) return EINVAL;
    for (size_t index = 0; index < call->count; index++)
        if (!fits(index < letters ? operations[at].letters[index] : 't', &call->arguments[index])) return EINVAL;
    return operations[at].code(call);
}
static void call_operation(uint32_t number, const char *payload, size_t size) {
    struct fields fields = split_fields(payload, size);
    struct call call = {.number = number, .arguments = fields.list, .count = fields.count};
    settle(&call, carry_out(&call)), free_fields(&fields);
}
static void host_sent(uint8_t type, uint32_t id, const char *payload, size_t count) {
    struct stream *stream = find_stream(id);
    trace('<', type, id, count);
    if (type == DATA && stream) deliver(stream, payload, count);
    else if (type == CLOSE && stream) {
        forget_stream(stream);
        watch_read(stream->fd, NULL, stream);
        if (!stream->queue.size) end_stream(stream);
    } else if (type == WINDOW && stream && count == 4) {
        stream->may_send += get32(payload);
        if (!stream->ended && !stream->parked) watch_read(stream->fd, client_readable, stream);
    } else if (type == PING) frame(PONG, 0, NULL, 0);
    else if (type == TABLE) set_table(id, payload, count);
    else if (type == TURN && stream && stream->ahead && count >= 4) take_turn(stream->ahead, payload, count);
    else if (type == CALL) call_operation(id, payload, count);
    else if (type == PUBKEY && !too_many_keys) {
        if ((too_many_keys = keys.size + count > KEYS_MAX)) release(&keys); else add(&keys, payload, count);
    }
}
