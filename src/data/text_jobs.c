/* text_jobs.c - the jobs tokenize and detokenize. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/corpus_config.h"
#include "data/tokenizer_config.h"
#include "triax/data.h"

typedef struct stream {
    tx_tokenizer *tok;
    tx_ids ids;
    tx_bytes bytes;
    tx_str line;
} stream;

/* Not through stdio: whoever reads the other end of a pipe gets each line at once. */
static tx_status write_line(const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(STDOUT_FILENO, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return TX_FAIL(TX_ERR_IO, "standard output: cannot write: %s", strerror(errno));
        p += k;
        n -= (size_t)k;
    }
    return TX_OK;
}

/* A tx_item_fn. The sentences of a list are tokenized one by one, as preprocess-data does. */
static tx_status tokenize_text(void *user, int key, int64_t item, const char *text, size_t n)
{
    (void)key;
    (void)item;
    stream *s = user;
    return tx_tokenizer_encode(s->tok, text, n, &s->ids);
}

static tx_status tokenize_record(stream *s, const tx_record *r, tx_json_keys keys)
{
    s->ids.n = 0;
    s->line.len = 0;
    tx_status st = tx_record_items(r, keys.name, keys.n, tokenize_text, s);
    if (st) return st == TX_ERR_ARG ? tx_fail_prefix(st, "%s: line %lld", r->file, (long long)r->line) : st;
    TX_TRY(tx_str_puts(&s->line, "["));
    for (size_t i = 0; i < s->ids.n; i++) TX_TRY(tx_str_printf(&s->line, i ? ", %d" : "%d", s->ids.id[i]));
    TX_TRY(tx_str_puts(&s->line, "]\n"));
    return write_line(s->line.data, s->line.len);
}

/* The ids of a line like "[1, 2, 3]". */
static tx_status parse_ids(stream *s, const tx_record *r)
{
    json_error_t e;
    tx_status st = TX_OK;
    json_t *a = json_loadb(r->data, r->n, 0, &e);
    size_t n = json_array_size(a);
    if (!json_is_array(a)) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: is not a JSON array of token ids such as [31373, 995]", r->file,
                     (long long)r->line);
        goto out;
    }
    if (n > s->ids.cap) {
        TX_GOTO(tx_realloc(&s->ids.id, n, sizeof *s->ids.id, "token ids"));
        s->ids.cap = n;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(a, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id > INT32_MAX) {
            st = TX_FAIL(TX_ERR_FORMAT, "%s: line %lld: entry %zu is not a token id, a whole number of at least 0",
                         r->file, (long long)r->line, i + 1);
            goto out;
        }
        s->ids.id[i] = (int32_t)id;
    }
    s->ids.n = n;
out:
    json_decref(a);
    return st;
}

static tx_status detokenize_record(stream *s, const tx_record *r, tx_json_keys keys)
{
    (void)keys;
    TX_TRY(parse_ids(s, r));
    s->bytes.n = 0;
    tx_status st = tx_tokenizer_decode(s->tok, s->ids.id, s->ids.n, &s->bytes);
    if (st) return tx_fail_prefix(st, "%s: line %lld", r->file, (long long)r->line);
    s->line.len = 0;
    TX_TRY(tx_str_append(&s->line, s->bytes.data, s->bytes.n));
    TX_TRY(tx_str_puts(&s->line, "\n"));
    return write_line(s->line.data, s->line.len);
}

static tx_status run_stream(const tx_config *cfg, tx_status (*one)(stream *s, const tx_record *r, tx_json_keys keys))
{
    stream s = { 0 };
    tx_corpus *corpus = NULL;
    tx_status st;
    TX_GOTO(tx__tokenizer_from_config(cfg, &s.tok));
    TX_GOTO(tx__corpus_from_config(cfg, &corpus));
    for (;;) {
        tx_record r;
        bool more;
        TX_GOTO(tx_corpus_next(corpus, &r, &more));
        if (!more) break;
        TX_GOTO(one(&s, &r, tx__json_keys_from_config(cfg)));
    }
out:
    tx_corpus_close(corpus);
    tx_tokenizer_close(s.tok);
    tx_ids_free(&s.ids);
    tx_bytes_free(&s.bytes);
    tx_str_free(&s.line);
    return st;
}

tx_status tx_tokenize_stream(const tx_config *cfg)
{
    return run_stream(cfg, tokenize_record);
}

tx_status tx_detokenize_stream(const tx_config *cfg)
{
    return run_stream(cfg, detokenize_record);
}
