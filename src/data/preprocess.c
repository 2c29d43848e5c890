/* preprocess.c - the preprocess-data job: text to .bin/.idx. What upstream does in tools/preprocess_data.py.
 *
 *  Two batches of records take turns. While the workers tokenize one, the main thread reads the other and then helps;
 *  afterwards it writes the finished one, in input order, so the files do not depend on the number of workers:
 *
 *      main      | read 1 | read 2, encode 1 | write 1 | read 3, encode 2 | write 2 | ...
 *      workers   |        |         encode 1 |         |         encode 2 |         | ...                          */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/corpus_config.h"
#include "data/indexed.h"
#include "data/tokenizer_config.h"
#include "triax/data.h"

#define BATCH_BYTES     ((size_t)256 << 10) /* of records, for each worker */
#define BAD_LINES_SHOWN 10

/* A record in a batch, and what became of it. */
typedef struct slot {
    tx_record record;
    size_t offset; /* of its bytes in the batch */
    tx_ids *ids;   /* [n_keys], in the batch */
    tx_status status;
    char *error; /* the sentence for it: errors are per thread, and reported in input order */
} slot;

typedef struct batch {
    tx_str bytes; /* the records, each with a NUL behind it */
    slot *slots;
    tx_ids *ids; /* [cap][n_keys] */
    size_t n, cap;
    tx_status read_status; /* an error of the reader comes after the records before it */
    char *read_error;
} batch;

typedef struct job {
    const tx_config *cfg;
    tx_tokenizer *tok;
    int32_t eod; /* -1: none is appended */
    tx_corpus *corpus;
    bool corpus_done;
    tx_json_keys keys;
    int n_workers;
    tx_indexed_builder **builder; /* [n_keys] */
    batch batch[2];
    int64_t n_docs, n_bytes, n_bad, n_empty;
    double start; /* after start-up */
} job;

/* ---- reading ---- */

static void batch_clear(batch *b, int n_keys)
{
    for (size_t i = 0; i < b->n; i++) {
        tx_free(b->slots[i].error);
        for (int k = 0; k < n_keys; k++) tx_ids_free(&b->ids[i * (size_t)n_keys + (size_t)k]);
    }
    tx_free(b->read_error);
    b->read_error = NULL;
    b->read_status = TX_OK;
    b->n = b->bytes.len = 0;
}

static void batch_free(batch *b, int n_keys)
{
    batch_clear(b, n_keys);
    tx_str_free(&b->bytes);
    tx_free(b->slots);
    tx_free(b->ids);
}

static tx_status batch_add(batch *b, const tx_record *r, int n_keys)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        TX_TRY(tx_realloc(&b->slots, cap, sizeof *b->slots, "a batch of documents"));
        TX_TRY(tx_realloc(&b->ids, cap * (size_t)n_keys, sizeof *b->ids, "a batch of documents"));
        b->cap = cap;
    }
    slot s = { .record = *r, .offset = b->bytes.len };
    TX_TRY(tx_str_append(&b->bytes, r->data, r->n));
    TX_TRY(tx_str_append(&b->bytes, "", 1));
    memset(b->ids + b->n * (size_t)n_keys, 0, (size_t)n_keys * sizeof *b->ids);
    b->slots[b->n++] = s;
    return TX_OK;
}

/* An error is kept for later, with its sentence. */
static tx_status keep_error(tx_status st, char **error)
{
    if (st && tx_memdup0(error, tx_last_error(), strlen(tx_last_error()), "an error message")) *error = NULL;
    return st;
}

static tx_status read_records(job *j, batch *b)
{
    size_t limit = BATCH_BYTES * (size_t)j->n_workers;
    while (b->bytes.len < limit) {
        tx_record r;
        bool more;
        TX_TRY(tx_corpus_next(j->corpus, &r, &more));
        if (!more) {
            j->corpus_done = true;
            break;
        }
        if (!r.json && j->keys.n > 1)
            return TX_FAIL(TX_ERR_ARG, "%s: is plain text, which has no members; give one --json-keys, not %d", r.file,
                           j->keys.n);
        TX_TRY(batch_add(b, &r, j->keys.n));
    }
    return TX_OK;
}

static void read_batch(job *j, batch *b)
{
    batch_clear(b, j->keys.n);
    if (!j->corpus_done) b->read_status = keep_error(read_records(j, b), &b->read_error);
    if (b->read_status) j->corpus_done = true;
    for (size_t i = 0; i < b->n; i++) { /* only now do the arrays stay where they are */
        b->slots[i].record.data = b->bytes.data + b->slots[i].offset;
        b->slots[i].ids = b->ids + i * (size_t)j->keys.n;
    }
}

/* ---- tokenizing ---- */

typedef struct encode_to {
    const job *j;
    tx_ids *ids;
} encode_to;

/* A tx_text_fn. An empty text stays empty: Megatron appends no EOD to it. */
static tx_status encode_text(void *user, int key, const char *text, size_t n)
{
    const encode_to *to = user;
    tx_ids *ids = &to->ids[key];
    TX_TRY(tx_tokenizer_encode(to->j->tok, text, n, ids));
    if (to->j->eod < 0 || !ids->n) return TX_OK;
    if (ids->n == ids->cap) {
        TX_TRY(tx_realloc(&ids->id, ids->n + 1, sizeof *ids->id, "token ids"));
        ids->cap = ids->n + 1;
    }
    ids->id[ids->n++] = to->j->eod;
    return TX_OK;
}

static void encode_slot(const job *j, slot *s)
{
    encode_to to = { j, s->ids };
    s->status = tx_record_texts(&s->record, j->keys.name, j->keys.n, encode_text, &to);
    if (s->status && s->status != TX_ERR_FORMAT) /* the tokenizer does not know where its text comes from */
        s->status = tx_fail_prefix(s->status, "%s: line %lld", s->record.file, (long long)s->record.line);
    keep_error(s->status, &s->error);
}

/* Encodes `now` and meanwhile fills `next`. */
static void run_batch(job *j, batch *now, batch *next)
{
#pragma omp parallel num_threads(j->n_workers)
    {
#pragma omp master
        read_batch(j, next);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < now->n; i++) encode_slot(j, &now->slots[i]);
    }
}

/* ---- writing ---- */

static tx_status bad_line(job *j, const slot *s)
{
    const char *error = s->error ? s->error : "not enough memory for a message";
    if (s->status != TX_ERR_FORMAT) return TX_FAIL(s->status, "%s", error);
    if (!j->cfg->on_bad_line || strcmp(j->cfg->on_bad_line, "skip") != 0)
        return TX_FAIL(s->status, "%s, or leave such lines out with --on-bad-line skip", error);
    if (++j->n_bad <= BAD_LINES_SHOWN) tx_warn("left out: %s", error);
    return TX_OK;
}

static void log_progress(const job *j)
{
    double s = tx_clock() - j->start, mb = (double)j->n_bytes / 1024 / 1024;
    if (s <= 0) s = 1e-9;
    tx_info("Processed %lld documents (%.6g docs/s, %.6g MB/s).", (long long)j->n_docs, (double)j->n_docs / s, mb / s);
}

static tx_status write_batch(job *j, const batch *b)
{
    int64_t interval = j->cfg->preprocess_log_interval;
    for (size_t i = 0; i < b->n; i++) {
        const slot *s = &b->slots[i];
        j->n_docs++;
        j->n_bytes += (int64_t)s->record.n;
        if (s->status) TX_TRY(bad_line(j, s));
        for (int k = 0; k < j->keys.n && !s->status; k++) {
            j->n_empty += !s->ids[k].n;
            if (!s->ids[k].n) continue;
            TX_TRY(tx_indexed_add_item(j->builder[k], s->ids[k].id, (int64_t)s->ids[k].n));
            TX_TRY(tx_indexed_end_document(j->builder[k]));
        }
        if (interval && j->n_docs % interval == 0) log_progress(j);
    }
    if (b->read_status) return TX_FAIL(b->read_status, "%s", b->read_error ? b->read_error : "cannot read the input");
    return TX_OK;
}

/* ---- the job ---- */

static tx_status open_output(job *j)
{
    const char *prefix = j->cfg->output_prefix;
    tx_str name = { 0 };
    tx_status st;
    if (!prefix) return TX_FAIL(TX_ERR_ARG, "--output-prefix is missing: it begins the names of the files to write");
    TX_TRY(tx_alloc(&j->builder, (size_t)j->keys.n, sizeof *j->builder, "datasets"));
    for (int k = 0; k < j->keys.n; k++) {
        for (int i = 0; i < k; i++)
            if (!strcmp(j->keys.name[i], j->keys.name[k]))
                return TX_FAIL(TX_ERR_ARG, "--json-keys names \"%s\" twice", j->keys.name[k]);
        if (strchr(j->keys.name[k], '/'))
            return TX_FAIL(TX_ERR_ARG,
                           "--json-keys \"%s\": a key becomes part of a file's name and cannot have a slash",
                           j->keys.name[k]);
    }
    for (int k = 0; k < j->keys.n; k++) {
        name.len = 0;
        TX_GOTO(tx_str_printf(&name, "%s_%s_document", prefix, j->keys.name[k]));
        TX_GOTO(tx_indexed_create(&j->builder[k], name.data, tx_tokenizer_vocab_size(j->tok)));
    }
    tx_info("Output prefix: %s", prefix);
    st = TX_OK;
out:
    tx_str_free(&name);
    return st;
}

static tx_status start(job *j, const tx_config *cfg)
{
    double begin = tx_clock();
    j->cfg = cfg;
    j->eod = -1;
    j->n_workers = cfg->workers > 0 ? (int)cfg->workers : 1;
    j->keys = tx__json_keys_from_config(cfg);
    if (!cfg->input.n) return TX_FAIL(TX_ERR_ARG, "--input is missing: give files, or - for standard input");
    TX_TRY(tx__corpus_from_config(cfg, &j->corpus));
    TX_TRY(tx__tokenizer_from_config(cfg, &j->tok));
    if (tx_tokenizer_special(j->tok, "[CLS]") >= 0)
        tx_warn("Bert tokenizer detected, are you sure you don't want to split sentences?");
    tx_info("Vocab size: %d", tx_tokenizer_vocab_size(j->tok));
    if (cfg->append_eod) {
        j->eod = tx_tokenizer_eod(j->tok);
        if (j->eod < 0)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: has no <|endoftext|>, which --append-eod needs; add it or leave the flag out",
                           cfg->tokenizer_model ? cfg->tokenizer_model
                           : cfg->vocab_file    ? cfg->vocab_file
                                                : "the vocabulary");
    }
    TX_TRY(open_output(j));
    j->start = tx_clock();
    tx_info("Time to startup: %.6g", j->start - begin);
    return TX_OK;
}

static tx_status publish(job *j)
{
    log_progress(j);
    if (j->n_bad)
        tx_warn("%lld of %lld lines left out by --on-bad-line skip", (long long)j->n_bad, (long long)j->n_docs);
    if (j->n_empty) tx_warn("%lld texts are empty and left out, as Megatron does", (long long)j->n_empty);
    for (int k = 0; k < j->keys.n; k++) {
        if (!tx_indexed_builder_docs(j->builder[k]))
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: every text under \"%s\" is empty or was left out, so there is no dataset to "
                           "write; give another --input",
                           j->cfg->input.item[0], j->keys.name[k]);
        TX_TRY(tx_indexed_seal(j->builder[k]));
    }
    for (int k = 0; k < j->keys.n; k++) TX_TRY(tx_indexed_commit(j->builder[k]));
    return TX_OK;
}

tx_status tx_preprocess_data(const tx_config *cfg)
{
    job j = { 0 };
    tx_status st;
    TX_GOTO(start(&j, cfg));
    read_batch(&j, &j.batch[0]);
    for (int now = 0; j.batch[now].n || j.batch[now].read_status; now = !now) {
        run_batch(&j, &j.batch[now], &j.batch[!now]);
        TX_GOTO(write_batch(&j, &j.batch[now]));
    }
    st = publish(&j);
out:
    for (int i = 0; i < 2; i++) batch_free(&j.batch[i], j.keys.n);
    for (int k = 0; j.builder && k < j.keys.n; k++) tx_indexed_destroy(j.builder[k]);
    tx_free(j.builder);
    tx_corpus_close(j.corpus);
    tx_tokenizer_close(j.tok);
    return st;
}
