/* prompts.c - reads lines, JSON lines and ids as prompts. */
#include "api/prompts.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define PROMPTS_MAX ((size_t)1 << 30) /* bytes of a file */

void tx__prompts_free(tx_prompts *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        tx_free(p->item[i].text);
        tx_ids_free(&p->item[i].ids);
    }
    tx_free(p->item);
    *p = (tx_prompts){ 0 };
}

/* Room for one more, zeroed. */
static tx_status grow(tx_prompts *p, tx_prompt **out)
{
    if (p->n == p->cap) {
        int64_t cap = p->cap ? 2 * p->cap : 16;
        TX_TRY(tx_realloc(&p->item, (size_t)cap, sizeof *p->item, "the prompts"));
        p->cap = cap;
    }
    *out = &p->item[p->n++];
    **out = (tx_prompt){ 0 };
    return TX_OK;
}

static tx_status set_text(tx_prompt *one, const char *text, size_t n)
{
    tx_bytes shown = { 0 };
    TX_TRY(tx_text_replace_invalid(text, n, &shown));
    tx_status st = tx_memdup0(&one->text, shown.data ? shown.data : "", shown.n, "a prompt");
    one->n_text = shown.n;
    tx_bytes_free(&shown);
    return st;
}

tx_status tx__prompts_add(tx_prompts *p, const tx_tokenizer *tok, const char *text, size_t n)
{
    tx_prompt *one;
    TX_TRY(grow(p, &one));
    TX_TRY(set_text(one, text, n));
    if (!tok) return TX_OK;
    TX_TRY(tx_tokenizer_encode(tok, text, n, &one->ids));
    if (one->ids.n) return TX_OK;
    int32_t eod = tx_tokenizer_eod(tok);
    if (eod < 0)
        return TX_FAIL(TX_ERR_ARG, "prompt %lld is empty, and the vocabulary has no <|endoftext|> to start from",
                       (long long)p->n);
    TX_TRY(tx_realloc(&one->ids.id, 1, sizeof *one->ids.id, "a prompt"));
    one->ids.id[0] = eod;
    one->ids.n = one->ids.cap = 1;
    return TX_OK;
}

/* ---- files ---- */

static tx_status read_stdin(tx_str *out)
{
    char buf[65536];
    for (;;) {
        ssize_t n = TX_RETRY(read(STDIN_FILENO, buf, sizeof buf));
        if (n < 0) return TX_FAIL(TX_ERR_IO, "standard input: %s", strerror(errno));
        if (n == 0) return TX_OK;
        if (out->len + (size_t)n > PROMPTS_MAX)
            return TX_FAIL(TX_ERR_ARG, "standard input: more than 1 GiB of prompts");
        TX_TRY(tx_str_append(out, buf, (size_t)n));
    }
}

/* A reader of one line; `user` is the caller's. */
typedef tx_status line_fn(void *user, const char *line, size_t n);

typedef struct reading {
    tx_prompts *p;
    const tx_tokenizer *tok;
    int64_t vocab_size;
    bool with_end; /* lines keep "\n" */
} reading;

static tx_status each_line(const char *path, reading *r, line_fn *take)
{
    tx_str file = { 0 };
    bool standard = !strcmp(path, "-");
    tx_status st = standard ? read_stdin(&file) : tx_file_read(path, PROMPTS_MAX, &file);
    long long number = 1;
    for (size_t at = 0; at < file.len && !st; number++) {
        const char *end = memchr(file.data + at, '\n', file.len - at);
        size_t n = end ? (size_t)(end - file.data) - at : file.len - at, next = at + n + 1;
        if (r->with_end && end)
            n++;
        else if (n && file.data[at + n - 1] == '\r')
            n--;
        st = take(r, file.data + at, n);
        if (st) tx_fail_prefix(st, "%s:%lld", standard ? "standard input" : path, number);
        at = next;
    }
    tx_str_free(&file);
    return st;
}

static tx_status take_text(void *user, const char *line, size_t n)
{
    reading *r = user;
    return tx__prompts_add(r->p, r->tok, line, n);
}

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

static tx_status parse(const char *line, size_t n, json_t **out)
{
    json_error_t e;
    *out = tx_json_load(line, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &e);
    if (!*out) return TX_FAIL(TX_ERR_FORMAT, "no JSON: %s at column %d", e.text, e.column);
    return TX_OK;
}

static tx_status take_json(void *user, const char *line, size_t n)
{
    reading *r = user;
    json_t *value;
    tx_status st;
    if (is_blank(line, n)) return TX_OK;
    TX_TRY(parse(line, n, &value));
    json_t *prompt = json_object_get(value, "prompt"), *text = json_object_get(value, "text"), *one = value;
    if (json_is_object(value)) one = prompt ? prompt : text;
    if (prompt && text)
        st = TX_FAIL(TX_ERR_FORMAT, "both \"prompt\" and \"text\": leave one of them out");
    else if (!json_is_string(one))
        st = TX_FAIL(TX_ERR_FORMAT, "neither a string nor an object whose \"prompt\" or \"text\" is one");
    else
        st = tx__prompts_add(r->p, r->tok, json_string_value(one), json_string_length(one));
    json_decref(value);
    return st;
}

static tx_status set_ids(tx_prompt *one, const json_t *list, int64_t vocab_size)
{
    size_t n = json_array_size(list);
    if (!n) return TX_FAIL(TX_ERR_FORMAT, "neither a list of token ids nor an object whose \"tokens\" is one");
    TX_TRY(tx_realloc(&one->ids.id, n, sizeof *one->ids.id, "a prompt"));
    one->ids.cap = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= vocab_size)
            return TX_FAIL(TX_ERR_FORMAT, "item %zu is no token id: whole numbers from 0 to %lld", i + 1,
                           (long long)vocab_size - 1);
        one->ids.id[one->ids.n++] = (int32_t)json_integer_value(id);
    }
    return TX_OK;
}

static tx_status take_ids(void *user, const char *line, size_t n)
{
    reading *r = user;
    json_t *value;
    tx_prompt *one;
    tx_bytes text = { 0 };
    tx_status st;
    if (is_blank(line, n)) return TX_OK;
    TX_TRY(parse(line, n, &value));
    TX_GOTO(grow(r->p, &one));
    TX_GOTO(set_ids(one, json_is_object(value) ? json_object_get(value, "tokens") : value, r->vocab_size));
    int64_t known = tx_tokenizer_vocab_size(r->tok); /* the model may have more, that are no text */
    int32_t last = -1;
    for (size_t i = 0; i < one->ids.n; i++) {
        int32_t id = one->ids.id[i];
        if (id >= known) continue;
        if (last < 0)
            TX_GOTO(tx_tokenizer_decode(r->tok, &id, 1, &text));
        else
            TX_GOTO(tx_tokenizer_decode_next(r->tok, last, id, &text));
        last = id;
    }
    st = set_text(one, text.data ? text.data : "", text.n);
out:
    tx_bytes_free(&text);
    json_decref(value);
    return st;
}

bool tx__prompts_named(const tx_config *cfg)
{
    return cfg->prompt.n || cfg->prompt_file || cfg->prompt_jsonl || cfg->prompt_tokens;
}

tx_status tx__prompts_read(tx_prompts *p, const tx_config *cfg, const tx_tokenizer *tok, int64_t vocab_size)
{
    reading r = { .p = p, .tok = tok, .vocab_size = vocab_size };
    for (int i = 0; i < cfg->prompt.n; i++)
        TX_TRY(tx__prompts_add(p, tok, cfg->prompt.item[i], strlen(cfg->prompt.item[i])));
    const char *lines = tx__prompts_named(cfg) ? cfg->prompt_file : "-";
    if (lines) TX_TRY(each_line(lines, &r, take_text));
    if (cfg->prompt_jsonl) TX_TRY(each_line(cfg->prompt_jsonl, &r, take_json));
    if (cfg->prompt_tokens) TX_TRY(each_line(cfg->prompt_tokens, &r, take_ids));
    const char *file = cfg->prompt_file ? cfg->prompt_file : cfg->prompt_jsonl ? cfg->prompt_jsonl : cfg->prompt_tokens;
    if (p->n == 0 && file && strcmp(file, "-") != 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds no prompt; each line is one", file);
    if (p->n == 0)
        return TX_FAIL(TX_ERR_ARG, "there is no prompt: give --prompt TEXT, --prompt-file FILE, or lines on standard "
                                   "input");
    return TX_OK;
}

tx_status tx__prompts_read_lines(tx_prompts *p, const char *path, const tx_tokenizer *tok)
{
    reading r = { .p = p, .tok = tok, .with_end = true };
    TX_TRY(each_line(path, &r, take_text));
    if (p->n == 0) return TX_FAIL(TX_ERR_ARG, "%s is empty: it has no line to continue", path);
    return TX_OK;
}
