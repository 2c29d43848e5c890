/* preprocess.c - the preprocess-data job: text to .bin/.idx. What upstream does in tools/preprocess_data.py.
 *
 *  Batches of records go round in a ring. Every thread takes what is most urgent: write the batch whose turn it is,
 * read the next one, encode one. Only the main thread reads, where signals arrive; one thread writes at a time, in
 * input order, so the files do not depend on the number of workers:
 *
 *      main      | read 1,2,3 | encode 1 | read 4 | write 1 | encode 3 | ...
 *      worker    |   encode 2            | encode 4         | write 2  | ...                                       */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "data/corpus_config.h"
#include "data/preprocess_output.h"
#include "data/sentences.h"
#include "data/tokenizer_config.h"
#include "triax/data.h"

#define BATCH_BYTES     ((size_t)256 << 10) /* of records */
#define BATCH_KEEP      (16 * BATCH_BYTES)  /* memory that a batch with a larger document does not keep */
#define BAD_LINES_SHOWN 10
#define LIVE_SECONDS    0.5 /* between two live lines */

/* A record in a batch. */
typedef struct slot {
    tx_record record; /* its data is in the batch, at offset */
    size_t offset;
    tx_status status;
    char *error; /* the sentence for it: errors are per thread, and reported in input order */
} slot;

typedef struct batch {
    /* read */
    tx_str bytes; /* the records */
    slot *slots;
    size_t n, cap;
    tx_corpus_position where; /* in the inputs, behind it */
    tx_status read_status;    /* an error of the reader comes after the records before it */
    char *read_error;
    /* encoded: ids of all records and keys back to back */
    bool encoded;
    tx_ids ids;
    size_t *sizes; /* of the items in ids: a document, or its sentences */
    size_t n_sizes, cap_sizes;
    size_t *n_items; /* [cap][n_keys] */
} batch;

typedef struct job {
    const tx_config *cfg;
    tx_tokenizer *tok;
    int32_t eod; /* -1: none is appended */
    tx_corpus *corpus;
    tx_json_keys keys;
    int n_workers;
    tx_output out;
    double start; /* after start-up */

    /* under the lock; batch number i is ring[i % n_ring], those from n_written on are in use */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    batch *ring;
    size_t n_ring, n_read, n_taken, n_written; /* taken: someone encodes it, or has */
    bool corpus_done, writing;
    tx_status status; /* what ended the job, and the sentence for it */
    char *error;

    /* of what is written; the writer's */
    int64_t n_docs, n_bytes, n_bad, n_empty;
    int64_t n_whole;   /* plain texts of several lines, each a document because --text-split was left out */
    const char *whole; /* the first of them; the corpus's */
    double last_live;
} job;

/* An error is kept for later, with its sentence. */
static tx_status keep_error(tx_status st, char **error)
{
    if (st && tx_memdup0(error, tx_last_error(), strlen(tx_last_error()), "an error message")) *error = NULL;
    return st;
}

static const char *kept(const char *error)
{
    return error ? error : "not enough memory for a message";
}

/* ---- reading ---- */

static void batch_clear(batch *b)
{
    for (size_t i = 0; i < b->n; i++) tx_free(b->slots[i].error);
    tx_free(b->read_error);
    b->read_error = NULL;
    b->read_status = TX_OK;
    b->encoded = false;
    b->n = b->bytes.len = b->ids.n = b->n_sizes = 0;
    if (b->bytes.cap > BATCH_KEEP) tx_str_free(&b->bytes);
    if (b->ids.cap > BATCH_KEEP) tx_ids_free(&b->ids);
}

static void batch_free(batch *b)
{
    batch_clear(b);
    tx_str_free(&b->bytes);
    tx_ids_free(&b->ids);
    tx_free(b->slots);
    tx_free(b->sizes);
    tx_free(b->n_items);
}

static tx_status batch_add(batch *b, const tx_record *r, int n_keys)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        TX_TRY(tx_realloc(&b->slots, cap, sizeof *b->slots, "a batch of documents"));
        TX_TRY(tx_realloc(&b->n_items, cap * (size_t)n_keys, sizeof *b->n_items, "a batch of documents"));
        b->cap = cap;
    }
    slot s = { .record = *r, .offset = b->bytes.len };
    TX_TRY(tx_str_append(&b->bytes, r->data, r->n));
    TX_TRY(tx_str_append(&b->bytes, "", 1));
    b->slots[b->n++] = s;
    return TX_OK;
}

static tx_status read_records(job *j, batch *b, bool *done)
{
    while (b->bytes.len < BATCH_BYTES) {
        tx_record r;
        bool more;
        TX_TRY(tx_corpus_next(j->corpus, &r, &more));
        *done = !more;
        if (!more) break;
        if (!r.json && j->keys.n > 1)
            return TX_FAIL(TX_ERR_ARG, "%s: is plain text, which has no members; give one --json-keys, not %d", r.file,
                           j->keys.n);
        TX_TRY(batch_add(b, &r, j->keys.n));
    }
    return TX_OK;
}

/* *done: it is the last one. */
static void read_batch(job *j, batch *b, bool *done)
{
    batch_clear(b);
    *done = false;
    b->read_status = keep_error(read_records(j, b, done), &b->read_error);
    *done |= b->read_status != TX_OK;
    b->where = tx_corpus_where(j->corpus);
    for (size_t i = 0; i < b->n; i++) /* only now do the bytes stay where they are */
        b->slots[i].record.data = b->bytes.data + b->slots[i].offset;
}

/* ---- tokenizing ---- */

/* Where the texts of a record go. */
typedef struct encode_to {
    const job *j;
    batch *b;
    size_t *n_items; /* [n_keys], of the record */
    int key;         /* the one that the last text was of */
} encode_to;

/* An item without ids is left out, as Megatron does. */
static tx_status encode_item(encode_to *to, const char *text, size_t n)
{
    batch *b = to->b;
    size_t before = b->ids.n;
    TX_TRY(tx_tokenizer_encode(to->j->tok, text, n, &b->ids));
    if (b->ids.n == before) return TX_OK;
    if (b->n_sizes == b->cap_sizes) {
        size_t cap = b->cap_sizes ? b->cap_sizes * 2 : 256;
        TX_TRY(tx_realloc(&b->sizes, cap, sizeof *b->sizes, "the sizes of a batch"));
        b->cap_sizes = cap;
    }
    b->sizes[b->n_sizes++] = b->ids.n - before;
    to->n_items[to->key]++;
    return TX_OK;
}

/* The end of a document's text under a key. A document without ids gets no EOD. */
static tx_status end_key(encode_to *to)
{
    batch *b = to->b;
    if (to->j->eod < 0 || !to->n_items[to->key]) return TX_OK;
    if (b->ids.n == b->ids.cap) {
        size_t cap = b->ids.cap + b->ids.cap / 2 + 16;
        TX_TRY(tx_realloc(&b->ids.id, cap, sizeof *b->ids.id, "token ids"));
        b->ids.cap = cap;
    }
    b->ids.id[b->ids.n++] = to->j->eod;
    b->sizes[b->n_sizes - 1]++;
    return TX_OK;
}

/* A tx_item_fn. What is a list already is not split again. */
static tx_status encode_text(void *user, int key, int64_t item, const char *text, size_t n)
{
    encode_to *to = user;
    const tx_config *cfg = to->j->cfg;
    size_t end, next;
    if (key != to->key) TX_TRY(end_key(to));
    to->key = key;
    if (!cfg->split_sentences || item >= 0) return encode_item(to, text, n);
    for (; tx__sentence_next(text, n, cfg->keep_newlines, &end, &next); text += next, n -= next)
        TX_TRY(encode_item(to, text, end));
    return TX_OK;
}

static tx_status encode_record(const job *j, batch *b, size_t i)
{
    encode_to to = { j, b, b->n_items + i * (size_t)j->keys.n, 0 };
    size_t n_bytes = (size_t)j->keys.n * sizeof *to.n_items, n_ids = b->ids.n, n_sizes = b->n_sizes;
    const tx_record *r = &b->slots[i].record;
    memset(to.n_items, 0, n_bytes);
    tx_status st = tx_record_items(r, j->keys.name, j->keys.n, encode_text, &to);
    if (!st) st = end_key(&to);
    if (!st) return TX_OK;
    memset(to.n_items, 0, n_bytes);
    b->ids.n = n_ids;
    b->n_sizes = n_sizes;
    /* the tokenizer does not know where its text comes from */
    return st == TX_ERR_FORMAT ? st : tx_fail_prefix(st, "%s: line %lld", r->file, (long long)r->line);
}

static void encode_batch(const job *j, batch *b)
{
    for (size_t i = 0; i < b->n; i++) b->slots[i].status = keep_error(encode_record(j, b, i), &b->slots[i].error);
}

/* ---- what the user sees ---- */

static void log_processed(const job *j)
{
    double s = tx_clock() - j->start, mb = (double)j->n_bytes / 1024 / 1024;
    if (s <= 0) s = 1e-9;
    tx_info("Processed %lld documents (%.6g docs/s, %.6g MB/s).", (long long)j->n_docs, (double)j->n_docs / s, mb / s);
}

static void show_live(job *j, const tx_corpus_position *w)
{
    double now = tx_clock(), s = now - j->start;
    if (now - j->last_live < LIVE_SECONDS || s <= 0 || !tx_log_wants(TX_LOG_PROGRESS)) return;
    j->last_live = now;
    char part[32] = "", left[48] = "";
    if (w->total && w->done) {
        double share = (double)w->done / (double)w->total;
        char rest[32];
        if (share > 1) share = 1; /* a file may grow */
        snprintf(part, sizeof part, " (%.0f %%)", 100 * share);
        snprintf(left, sizeof left, " | %s left", tx_duration_text(rest, s / share * (1 - share)));
    }
    tx_log(TX_LOG_PROGRESS, "%lld documents%s | %.1f MB/s | %.0f tokens/s%s", (long long)j->n_docs, part,
           (double)j->n_bytes / 1024 / 1024 / s, (double)tx__output_tokens(&j->out) / s, left);
}

/* ---- writing ---- */

static tx_status bad_line(job *j, const slot *s)
{
    if (s->status != TX_ERR_FORMAT) return TX_FAIL(s->status, "%s", kept(s->error));
    if (j->cfg->on_bad_line == TX_BAD_LINE_ERROR)
        return TX_FAIL(s->status, "%s, or leave such lines out with --on-bad-line skip", kept(s->error));
    if (++j->n_bad <= BAD_LINES_SHOWN) tx_warn("left out: %s", kept(s->error));
    return TX_OK;
}

/* Who has not said that a file is a document may have meant its lines. */
static void note_whole_file(job *j, const batch *b, const slot *s)
{
    const char *text = b->bytes.data + s->offset, *end = memchr(text, '\n', s->record.n);
    if (s->record.json || j->cfg->given.text_split || !end || end + 1 == text + s->record.n) return;
    if (!j->n_whole++) j->whole = s->record.file;
}

/* Megatron deals lines out to the parts in turn, bad ones too. */
static tx_status write_batch(job *j, const batch *b)
{
    bool live = tx_log_wants(TX_LOG_PROGRESS) && !j->cfg->given.preprocess_log_interval;
    int64_t interval = live ? 0 : j->cfg->preprocess_log_interval;
    const int32_t *ids = b->ids.id;
    const size_t *size = b->sizes, *n_items = b->n_items;
    for (size_t i = 0; i < b->n; i++) {
        const slot *s = &b->slots[i];
        int part = (int)(j->n_docs++ % j->out.n_parts);
        j->n_bytes += (int64_t)s->record.n;
        if (s->status) TX_TRY(bad_line(j, s));
        note_whole_file(j, b, s);
        for (int k = 0; k < j->keys.n; k++) {
            size_t n = *n_items++;
            j->n_empty += !n && !s->status;
            if (!n) continue;
            TX_TRY(tx__output_add(&j->out, k, part, ids, size, n));
            for (; n; n--) ids += *size++;
        }
        if (interval && j->n_docs % interval == 0) log_processed(j);
    }
    show_live(j, &b->where);
    if (b->read_status) return TX_FAIL(b->read_status, "%s", kept(b->read_error));
    return TX_OK;
}

/* ---- the threads ---- */

/* The first failure ends the job. */
static void end_with(job *j, tx_status st)
{
    if (!j->status) j->status = keep_error(st, &j->error);
}

/* Does what is most urgent, without the lock; false: there is nothing to do at present. */
static bool do_one(job *j, bool is_main)
{
    size_t ahead = j->n_read - j->n_taken;
    batch *b;
    if (!j->writing && j->n_written < j->n_taken && j->ring[j->n_written % j->n_ring].encoded) {
        b = &j->ring[j->n_written % j->n_ring];
        j->writing = true;
        pthread_mutex_unlock(&j->lock);
        tx_status st = write_batch(j, b);
        pthread_mutex_lock(&j->lock);
        end_with(j, st);
        j->writing = false;
        j->n_written++;
    } else if (is_main && !j->corpus_done && ahead <= (size_t)j->n_workers && j->n_read - j->n_written < j->n_ring) {
        bool done;
        b = &j->ring[j->n_read % j->n_ring];
        pthread_mutex_unlock(&j->lock);
        read_batch(j, b, &done);
        pthread_mutex_lock(&j->lock);
        j->corpus_done = done;
        j->n_read++;
    } else if (ahead) {
        b = &j->ring[j->n_taken++ % j->n_ring];
        pthread_mutex_unlock(&j->lock);
        encode_batch(j, b);
        pthread_mutex_lock(&j->lock);
        b->encoded = true;
    } else {
        return false;
    }
    pthread_cond_broadcast(&j->changed);
    return true;
}

static void work(job *j, bool is_main)
{
    pthread_mutex_lock(&j->lock);
    while (!j->status && !(j->corpus_done && j->n_written == j->n_read)) {
        if (is_main && tx_signals_seen())
            end_with(j, TX_ERR_IO);
        else if (!do_one(j, is_main))
            pthread_cond_wait(&j->changed, &j->lock);
    }
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
}

static tx_status run(job *j)
{
#pragma omp parallel num_threads(j->n_workers)
    {
        bool is_main = false;
#pragma omp master
        is_main = true;
        work(j, is_main);
    }
    if (tx_signals_seen()) return TX_FAIL(TX_ERR_IO, "stopped by a signal; nothing was written");
    return j->status ? TX_FAIL(j->status, "%s", kept(j->error)) : TX_OK;
}

/* ---- the job ---- */

static tx_status open_output(job *j)
{
    const tx_config *cfg = j->cfg;
    int n_parts = cfg->keep_sequential_samples ? 1 : (int)cfg->partitions;
    if (!cfg->output_prefix)
        return TX_FAIL(TX_ERR_ARG, "--output-prefix is missing: it begins the names of the files to write");
    const tx_output_spec spec = { .prefix = cfg->output_prefix,
                                  .level = cfg->split_sentences ? "sentence" : "document",
                                  .key = j->keys.name,
                                  .n_keys = j->keys.n,
                                  .n_parts = n_parts,
                                  .vocab_size = tx_tokenizer_vocab_size(j->tok) };
    TX_TRY(tx__output_open(&j->out, &spec));
    tx_info("Output prefix: %s", cfg->output_prefix);
    return TX_OK;
}

static tx_status start(job *j, const tx_config *cfg)
{
    double begin = tx_clock();
    j->cfg = cfg;
    j->eod = -1;
    j->n_workers = cfg->workers > 0 ? (int)cfg->workers : 1;
    j->keys = tx__json_keys_from_config(cfg);
    j->n_ring = 4 * (size_t)j->n_workers + 2;
    TX_TRY(tx_alloc(&j->ring, j->n_ring, sizeof *j->ring, "batches of documents"));
    if (!cfg->input.n) return TX_FAIL(TX_ERR_ARG, "--input is missing: give files, or - for standard input");
    TX_TRY(tx__corpus_from_config(cfg, &j->corpus));
    TX_TRY(tx__tokenizer_from_config(cfg, &j->tok));
    if (tx_tokenizer_special(j->tok, "[CLS]") >= 0 && !cfg->split_sentences)
        tx_warn("Bert tokenizer detected, are you sure you don't want to split sentences?");
    if (cfg->keep_newlines && !cfg->split_sentences)
        tx_warn("--keep-newlines means nothing without --split-sentences: documents keep their newlines");
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
    j->start = j->last_live = tx_clock();
    tx_info("Time to startup: %.6g", j->start - begin);
    return TX_OK;
}

static tx_status publish(job *j)
{
    log_processed(j);
    if (j->n_bad)
        tx_warn("%lld of %lld lines left out by --on-bad-line skip", (long long)j->n_bad, (long long)j->n_docs);
    if (j->n_empty) tx_warn("%lld texts are empty and left out, as Megatron does", (long long)j->n_empty);
    if (j->n_whole)
        tx_warn(
            "%s%s: plain text of several lines is one document, the whole file, so --split cannot divide it; "
            "--text-split line or blank-line makes documents of its lines or paragraphs, --text-split file says that "
            "it is meant",
            j->whole, j->n_whole > 1 ? " and others" : "");
    if (j->n_docs && j->n_bad == j->n_docs)
        return TX_FAIL(TX_ERR_FORMAT, "%s: every line was left out, so there is nothing to write; give another --input",
                       j->cfg->input.item[0]);
    for (int k = 0; k < j->keys.n; k++)
        if (!tx__output_docs(&j->out, k))
            tx_warn(
                "%s: there is no text under \"%s\": its dataset is empty, as Megatron's is, and cannot be trained on",
                j->cfg->input.item[0], j->keys.name[k]);
    return tx__output_publish(&j->out);
}

tx_status tx_preprocess_data(const tx_config *cfg)
{
    job j = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    tx_status st;
    tx_signals_hold(false);
    TX_GOTO(start(&j, cfg));
    TX_GOTO(run(&j));
    TX_GOTO(publish(&j));
out:
    tx__output_discard(&j.out);
    tx_signals_release();
    for (size_t i = 0; j.ring && i < j.n_ring; i++) batch_free(&j.ring[i]);
    tx_free(j.ring);
    tx_free(j.error);
    tx_corpus_close(j.corpus);
    tx_tokenizer_close(j.tok);
    return st;
}
