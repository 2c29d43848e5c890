/* train_tokenizer_job.c - the train-tokenizer job: text to a vocabulary's files.
 *
 *  Two batches of text take turns: while the threads count the words of one, one of them first reads the other. Each
 *  thread counts into a table of its own, which goes into the common one when it has grown, so that memory is that of
 *  the distinct words of the whole text and little more. What is learned does not depend on who counted what. */
#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "data/corpus_config.h"
#include "token/tokenizer_kinds.h"
#include "triax/data.h"

#define BATCH_BYTES      ((size_t)1 << 20) /* of text, for each thread */
#define PART_BYTES       ((size_t)1 << 18) /* longer plain texts are cut, so that threads share them */
#define OWN_WORDS        (1 << 18)         /* of a thread */
#define BAD_LINES_SHOWN  10
#define SECONDS_PER_LINE 30 /* in the log; the live line comes more often */

typedef struct item {
    tx_record record;
    size_t offset; /* of its bytes in the batch */
    tx_status status;
    char *error; /* the sentence for it: errors are per thread, and reported in input order */
} item;

typedef struct batch {
    tx_str bytes; /* each text with a NUL behind it */
    item *item;
    size_t n, cap;
    tx_status read_status; /* an error of the reader comes after the texts before it */
    char *read_error;
} batch;

typedef struct job {
    const tx_config *cfg;
    tx_json_keys keys;
    tx_corpus *corpus;
    tx_record rest; /* of a plain text that is cut */
    bool corpus_done;
    int n_workers;
    tx_vocab_trainer *all, **own; /* [n_workers] */
    batch batch[2];
    int64_t n_docs, n_bytes, n_bad;
    double start, shown, logged;
} job;

/* ---- reading ---- */

/* An error is kept for later, with its sentence. */
static tx_status keep_error(tx_status st, char **error)
{
    if (st && tx_memdup0(error, tx_last_error(), strlen(tx_last_error()), "an error message")) *error = NULL;
    return st;
}

static void batch_clear(batch *b)
{
    for (size_t i = 0; i < b->n; i++) tx_free(b->item[i].error);
    tx_free(b->read_error);
    b->read_error = NULL;
    b->read_status = TX_OK;
    b->n = b->bytes.len = 0;
}

static void batch_free(batch *b)
{
    batch_clear(b);
    tx_str_free(&b->bytes);
    tx_free(b->item);
}

static tx_status batch_add(batch *b, const tx_record *r)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        TX_TRY(tx_realloc(&b->item, cap, sizeof *b->item, "a batch of documents"));
        b->cap = cap;
    }
    item x = { .record = *r, .offset = b->bytes.len };
    TX_TRY(tx_str_append(&b->bytes, r->data, r->n));
    TX_TRY(tx_str_append(&b->bytes, "", 1));
    b->item[b->n++] = x;
    return TX_OK;
}

/* Bytes of the first part of a plain text. Between a visible ASCII character and a blank or line end, words end in
 * every tokenizer, whatever comes before and after. */
static size_t part_length(const tx_record *r)
{
    if (r->json) return r->n;
    for (size_t i = PART_BYTES; i < r->n; i++)
        if ((r->data[i] == ' ' || r->data[i] == '\n') && r->data[i - 1] > ' ' && r->data[i - 1] < 0x7F) return i;
    return r->n;
}

static tx_status add_part(job *j, batch *b)
{
    tx_record part = j->rest;
    part.n = part_length(&j->rest);
    TX_TRY(batch_add(b, &part));
    for (size_t i = 0; i < part.n && part.n < j->rest.n; i++) j->rest.line += part.data[i] == '\n';
    j->rest.data += part.n;
    j->rest.n -= part.n;
    j->n_bytes += (int64_t)part.n;
    return TX_OK;
}

static tx_status read_texts(job *j, batch *b)
{
    size_t limit = BATCH_BYTES * (size_t)j->n_workers;
    while (b->bytes.len < limit) {
        bool more;
        if (!j->rest.n) {
            TX_TRY(tx_corpus_next(j->corpus, &j->rest, &more));
            j->corpus_done = !more;
            if (!more) return TX_OK;
            j->n_docs++;
        }
        TX_TRY(add_part(j, b));
    }
    return TX_OK;
}

static void read_batch(job *j, batch *b)
{
    batch_clear(b);
    if (!j->corpus_done) b->read_status = keep_error(read_texts(j, b), &b->read_error);
    if (b->read_status) j->corpus_done = true;
    for (size_t i = 0; i < b->n; i++) b->item[i].record.data = b->bytes.data + b->item[i].offset; /* stays now */
}

/* ---- counting ---- */

/* A tx_item_fn. */
static tx_status feed_text(void *user, int key, int64_t number, const char *text, size_t n)
{
    (void)key;
    (void)number;
    return tx_vocab_trainer_feed(user, text, n);
}

static tx_status count_text(job *j, const tx_record *r)
{
    tx_vocab_trainer *own = j->own[omp_get_thread_num()];
    tx_status st = TX_OK;
    TX_TRY(tx_record_items(r, j->keys.name, j->keys.n, feed_text, own));
    if (tx_vocab_trainer_words(own) < OWN_WORDS) return TX_OK;
#pragma omp critical(tx_vocab_trainer)
    st = tx_vocab_trainer_absorb(j->all, own);
    return st;
}

/* Counts `now` and meanwhile fills `next`. */
static void run_batch(job *j, batch *now, batch *next)
{
#pragma omp parallel num_threads(j->n_workers)
    {
#pragma omp master
        read_batch(j, next);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < now->n; i++)
            now->item[i].status = keep_error(count_text(j, &now->item[i].record), &now->item[i].error);
    }
}

/* ---- what became of it ---- */

static tx_status check_batch(job *j, const batch *b)
{
    bool skip = j->cfg->on_bad_line == TX_BAD_LINE_SKIP;
    for (size_t i = 0; i < b->n; i++) {
        const item *x = &b->item[i];
        const char *error = x->error ? x->error : "not enough memory for a message";
        if (!x->status) continue;
        if (x->status != TX_ERR_FORMAT) return TX_FAIL(x->status, "%s", error);
        if (!skip) return TX_FAIL(x->status, "%s, or leave such lines out with --on-bad-line skip", error);
        if (++j->n_bad <= BAD_LINES_SHOWN) tx_warn("left out: %s", error);
    }
    if (b->read_status) return TX_FAIL(b->read_status, "%s", b->read_error ? b->read_error : "cannot read the input");
    return TX_OK;
}

static void show_progress(job *j)
{
    double now = tx_clock(), mb = (double)j->n_bytes / 1024 / 1024;
    if (now - j->shown < TX_PROGRESS_SECONDS) return;
    j->shown = now;
    tx_log(TX_LOG_PROGRESS, "reading: %.0f MB | %.1f MB/s", mb, mb / (now - j->start));
    if (now - j->logged < SECONDS_PER_LINE) return;
    j->logged = now;
    tx_info("Read %lld documents, %.0f MB (%.1f MB/s)", (long long)j->n_docs, mb, mb / (now - j->start));
}

static tx_status count_corpus(job *j)
{
    j->start = j->logged = tx_clock();
    read_batch(j, &j->batch[0]);
    for (int now = 0; j->batch[now].n || j->batch[now].read_status; now = !now) {
        run_batch(j, &j->batch[now], &j->batch[!now]);
        TX_TRY(check_batch(j, &j->batch[now]));
        show_progress(j);
    }
    if (!j->n_docs)
        return TX_FAIL(TX_ERR_FORMAT, "%s%s: no document to learn from: the input is empty", j->cfg->input.item[0],
                       j->cfg->input.n > 1 ? " and the other inputs" : "");
    for (int i = 0; i < j->n_workers; i++) TX_TRY(tx_vocab_trainer_absorb(j->all, j->own[i]));
    if (j->n_bad) tx_warn("%lld lines left out by --on-bad-line skip", (long long)j->n_bad);
    double s = tx_clock() - j->start, mb = (double)j->n_bytes / 1024 / 1024;
    tx_info("Read %lld documents, %.1f MB, with %lld distinct words in %.1f s (%.1f MB/s)", (long long)j->n_docs, mb,
            (long long)tx_vocab_trainer_words(j->all), s, mb / (s > 0 ? s : 1e-9));
    return TX_OK;
}

/* ---- the job ---- */

static tx_vocab_opts options(const tx_config *cfg)
{
    return (tx_vocab_opts){ .kind = tx_tokenizer_vocab_kind(cfg->train_tokenizer_type),
                            .vocab_size = (int32_t)cfg->train_vocab_size,
                            .min_frequency = cfg->min_frequency,
                            .limit_alphabet = (int32_t)cfg->limit_alphabet,
                            .special = (const char *const *)cfg->special_tokens.item,
                            .n_special = cfg->special_tokens.n };
}

static tx_status start(job *j)
{
    const tx_config *cfg = j->cfg;
    tx_vocab_opts o = options(cfg);
    if (!cfg->input.n) return TX_FAIL(TX_ERR_ARG, "--input is missing: give files, or - for standard input");
    if (!cfg->output_dir) return TX_FAIL(TX_ERR_ARG, "--output-dir is missing: the vocabulary's files go there");
    int64_t workers = cfg->workers ? cfg->workers : cfg->threads;
    j->n_workers = workers > 0 ? (int)workers : omp_get_max_threads();
    j->keys = tx__json_keys_from_config(cfg);
    TX_TRY(tx_vocab_trainer_create(&j->all, &o));
    TX_TRY(tx_alloc(&j->own, (size_t)j->n_workers, sizeof *j->own, "trainers"));
    for (int i = 0; i < j->n_workers; i++) TX_TRY(tx_vocab_trainer_create(&j->own[i], &o));
    TX_TRY(tx__corpus_from_config(cfg, &j->corpus));
    return tx_make_dirs(cfg->output_dir); /* not after hours of reading */
}

/* What reading took is given back before learning. */
static void stop_reading(job *j)
{
    for (int i = 0; i < 2; i++) batch_free(&j->batch[i]);
    for (int i = 0; j->own && i < j->n_workers; i++) tx_vocab_trainer_free(j->own[i]);
    tx_free(j->own);
    tx_corpus_close(j->corpus);
    memset(j->batch, 0, sizeof j->batch);
    j->own = NULL;
    j->corpus = NULL;
}

tx_status tx_train_tokenizer(const tx_config *cfg)
{
    tx_status st;
    job j = { .cfg = cfg };
    TX_GOTO(start(&j));
    TX_GOTO(count_corpus(&j));
    stop_reading(&j);
    double begin = tx_clock();
    TX_GOTO(tx_vocab_trainer_finish(j.all));
    tx_info("Learned a vocabulary of %d tokens in %.1f s", tx_vocab_trainer_size(j.all), tx_clock() - begin);
    TX_GOTO(tx_vocab_trainer_save(j.all, cfg->output_dir));
    const tx_tokenizer_traits files = tx_tokenizer_traits_of(cfg->train_tokenizer_type);
    tx_info("Wrote %s/%s%s%s and tokenizer.json", cfg->output_dir,
            files.vocab_file ? files.vocab_file : files.model_file, files.merge_file ? ", " : "",
            files.merge_file ? files.merge_file : "");
out:
    stop_reading(&j);
    tx_vocab_trainer_free(j.all);
    return st;
}
