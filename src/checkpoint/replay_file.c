/* replay_file.c - writes and reads replay files. */
#include "checkpoint/replay_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "checkpoint/json_text.h"
#include "config/config.h"

#define FORMAT    "triax replay 1"
#define MAX_BYTES ((size_t)64 << 20)
#define MAX_FLAGS 100000
#define MAX_TEXT  4096
#define GPT       tx_command_id_word(TX_COMMAND_PRETRAIN_GPT) /* where a file names no command */

/* ---- writing ---- */

static tx_status put_member(tx_str *out, const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a replay file");
    tx_status st = tx_str_printf(out, "  \"%s\": %s,\n", name, text);
    free(text);
    return st;
}

static tx_status put_number(tx_str *out, const char *name, int64_t value)
{
    return tx_str_printf(out, "  \"%s\": %lld,\n", name, (long long)value);
}

static tx_status put_ids(tx_str *out, const tx_replay_file *r)
{
    TX_TRY(tx_str_puts(out, "  \"ids\": [\n"));
    for (int64_t i = 0; i < r->n_rows; i++) {
        for (int64_t k = 0; k < r->row; k++)
            TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "    [", r->id[i * r->row + k]));
        TX_TRY(tx_str_puts(out, i + 1 < r->n_rows ? "],\n" : "]\n"));
    }
    return tx_str_puts(out, "  ]\n}\n");
}

tx_status tx_replay_file_write(const tx_replay_file *r, const char *path)
{
    tx_str out = { 0 };
    tx_status st;
    TX_GOTO(tx_str_puts(&out, "{\n  \"format\": \"" FORMAT "\",\n"));
    TX_GOTO(put_number(&out, "iteration", r->iteration));
    TX_GOTO(put_number(&out, "consumed_train_samples", r->consumed_train_samples));
    TX_GOTO(put_number(&out, "skipped_before", r->skipped_before));
    TX_GOTO(put_number(&out, "vocab_size", r->vocab_size));
    TX_GOTO(put_number(&out, "eod", r->eod));
    TX_GOTO(put_member(&out, "found", r->found));
    TX_GOTO(put_member(&out, "documents", r->documents));
    TX_GOTO(tx_str_printf(&out, "  \"command\": \"%s\",\n", r->command ? r->command : GPT));
    TX_GOTO(put_member(&out, "flags", r->flags));
    TX_GOTO(put_number(&out, "first_micro_batch", r->first_micro));
    TX_GOTO(put_ids(&out, r));
    if (out.len > MAX_BYTES)
        st = TX_FAIL(TX_ERR_ARG, "%s: one micro-batch takes %zu bytes there, more than the %zu that are read again",
                     path, out.len, MAX_BYTES);
    else
        st = tx_file_publish(path, out.data, out.len);
out:
    tx_str_free(&out);
    return st;
}

/* ---- reading ---- */

static tx_status bad(const char *path, const char *member)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s: no replay file of triax: \"%s\" is missing or is nothing that it can be", path,
                   member);
}

static tx_status get_number(int64_t *out, const json_t *root, const char *path, const char *name, int64_t lo,
                            int64_t hi)
{
    const json_t *v = json_object_get(root, name);
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi) return bad(path, name);
    *out = json_integer_value(v);
    return TX_OK;
}

static bool is_text(const json_t *v)
{
    return json_is_string(v) && tx__is_printable(json_string_value(v), MAX_TEXT);
}

static tx_status get_text(json_t **out, const json_t *root, const char *path, const char *name)
{
    json_t *v = json_object_get(root, name);
    if (!is_text(v)) return bad(path, name);
    *out = json_incref(v);
    return TX_OK;
}

/* Files of before there were two have none. */
static tx_status get_command(tx_replay_file *r, const json_t *root, const char *path)
{
    const json_t *v = json_object_get(root, "command");
    const char *text = json_string_value(v);
    const tx_command *c = tx_command_find(text ? text : v ? "" : GPT);
    bool trains = c && c->load == TX_LOAD_RESUMES && c->id != TX_COMMAND_ENGINE;
    r->command = trains ? c->name : NULL;
    return r->command ? TX_OK : bad(path, "command");
}

static tx_status get_flags(tx_replay_file *r, const json_t *root, const char *path)
{
    json_t *v = json_object_get(root, "flags");
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > MAX_FLAGS) return bad(path, "flags");
    for (size_t i = 0; i < n; i++)
        if (!is_text(json_array_get(v, i))) return bad(path, "flags");
    r->flags = json_incref(v);
    return TX_OK;
}

static tx_status get_ids(tx_replay_file *r, const json_t *root, const char *path)
{
    const json_t *rows = json_object_get(root, "ids");
    bool gpt =
        tx_command_find(r->command)->id == TX_COMMAND_PRETRAIN_GPT; /* a BERT's row holds labels and counts, too */
    int64_t lo = gpt ? 0 : -1, end = gpt ? r->vocab_size : INT32_MAX;
    size_t n = json_array_size(rows), width = json_array_size(json_array_get(rows, 0));
    if (n < 1 || width < 2) return bad(path, "ids");
    for (size_t i = 0; i < n; i++) /* the file bounds n * width once all rows are that wide */
        if (json_array_size(json_array_get(rows, i)) != width) return bad(path, "ids");
    TX_TRY(tx_alloc(&r->id, n * width, sizeof *r->id, "the ids of a replay file"));
    r->n_rows = (int64_t)n;
    r->row = (int64_t)width;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++) {
            const json_t *v = json_array_get(json_array_get(rows, i), k);
            if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) >= end)
                return bad(path, "ids");
            r->id[i * width + k] = (int32_t)json_integer_value(v);
        }
    return TX_OK;
}

static tx_status get_all(tx_replay_file *r, const json_t *root, const char *path)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    int64_t eod;
    if (!format || strcmp(format, FORMAT)) return bad(path, "format");
    TX_TRY(get_number(&r->iteration, root, path, "iteration", 1, (int64_t)1e9));
    TX_TRY(get_number(&r->consumed_train_samples, root, path, "consumed_train_samples", 0, (int64_t)1e15));
    TX_TRY(get_number(&r->skipped_before, root, path, "skipped_before", 0, r->iteration - 1));
    TX_TRY(get_number(&r->vocab_size, root, path, "vocab_size", 1, INT32_MAX));
    TX_TRY(get_number(&eod, root, path, "eod", -1, r->vocab_size - 1));
    r->eod = (int32_t)eod;
    TX_TRY(get_text(&r->found, root, path, "found"));
    TX_TRY(get_text(&r->documents, root, path, "documents"));
    TX_TRY(get_command(r, root, path));
    TX_TRY(get_flags(r, root, path));
    TX_TRY(get_number(&r->first_micro, root, path, "first_micro_batch", 0, (int64_t)1e9));
    return get_ids(r, root, path);
}

tx_status tx_replay_file_read(tx_replay_file *out, const char *path)
{
    json_t *root;
    *out = (tx_replay_file){ 0 };
    TX_TRY(tx__json_load(&root, path, MAX_BYTES));
    tx_status st = get_all(out, root, path);
    json_decref(root);
    if (st) tx_replay_file_free(out);
    return st;
}

void tx_replay_file_free(tx_replay_file *r)
{
    json_decref(r->flags);
    json_decref(r->found);
    json_decref(r->documents);
    tx_free(r->id);
    *r = (tx_replay_file){ 0 };
}
