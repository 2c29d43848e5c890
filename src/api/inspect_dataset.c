/* inspect_dataset.c - inspect for a .bin/.idx pair: counts, lengths, the first documents, and whether every id is one.
 */
#include "api/report.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/indexed.h"
#include "data/json_quote.h"
#include "data/tokenizer_config.h"

#define CHUNK     65536 /* ids checked at a time */
#define SHOWN_IDS 1000  /* of a document's text */
#define N_BUCKETS 64

/* ---- lengths of documents ---- */

static int64_t doc_tokens(const tx_indexed *ix, int64_t d)
{
    int64_t n = 0, end = tx_indexed_doc_begin(ix, d + 1);
    for (int64_t i = tx_indexed_doc_begin(ix, d); i < end; i++) n += tx_indexed_size(ix, i);
    return n;
}

/* 0: empty; b > 0: 2^(b-1) to 2^b - 1 tokens. */
static int bucket_of(int64_t n)
{
    int b = 0;
    for (; n; n >>= 1) b++;
    return b;
}

/* The smallest length that half of the documents do not exceed, without a list of lengths: by counting, again and
 * again. */
static int64_t median(const tx_indexed *ix, int64_t lo, int64_t hi)
{
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2, below = 0;
        for (int64_t d = 0; d < ix->n_docs; d++) below += doc_tokens(ix, d) <= mid;
        if (below >= (ix->n_docs + 1) / 2)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static tx_status show_lengths(tx__report *r, const tx_indexed *ix)
{
    int64_t count[N_BUCKETS] = { 0 }, lo = INT64_MAX, hi = 0;
    int first = 0, last = N_BUCKETS - 1;
    if (!ix->n_docs) return TX_OK;
    for (int64_t d = 0; d < ix->n_docs; d++) {
        int64_t n = doc_tokens(ix, d);
        lo = n < lo ? n : lo;
        hi = n > hi ? n : hi;
        count[bucket_of(n)]++;
    }
    TX_TRY(tx__report_line(r, "tokens in a document: smallest %lld, median %lld, largest %lld", (long long)lo,
                           (long long)median(ix, lo, hi), (long long)hi));
    while (!count[first]) first++;
    while (!count[last]) last--;
    TX_TRY(tx__report_line(r, "%23s   documents", "tokens"));
    for (int b = first; b <= last; b++)
        TX_TRY(
            tx__report_line(r, "%11lld-%-11lld %11lld", b ? 1LL << (b - 1) : 0LL, (1LL << b) - 1, (long long)count[b]));
    return TX_OK;
}

/* ---- ids ---- */

/* Every id of the file is read: the least, the greatest, and that all are in the vocabulary. */
static tx_status check_ids(tx__report *r, const tx_indexed *ix, int32_t *ids, int64_t vocab_size)
{
    int32_t lo = INT32_MAX, hi = INT32_MIN, bad_id = 0;
    int64_t n_bad = 0, bad_item = 0, bad_at = 0;
    double shown = tx_clock();
    for (int64_t i = 0; i < ix->n_items; i++) {
        int64_t size = tx_indexed_size(ix, i);
        for (int64_t at = 0; at < size; at += CHUNK) {
            int64_t n = size - at < CHUNK ? size - at : CHUNK;
            TX_TRY(tx_indexed_get(ix, ids, i, at, n));
            for (int64_t k = 0; k < n; k++) {
                lo = ids[k] < lo ? ids[k] : lo;
                hi = ids[k] > hi ? ids[k] : hi;
                bool bad = ids[k] < 0 || ids[k] >= vocab_size;
                if (bad && !n_bad) bad_id = ids[k], bad_item = i, bad_at = at + k;
                n_bad += bad;
            }
        }
        if ((i & 0xffff) || tx_clock() - shown < 1) continue;
        shown = tx_clock();
        tx_log(TX_LOG_PROGRESS, "reading ids: %lld/%lld items", (long long)i, (long long)ix->n_items);
    }
    if (ix->n_tokens) TX_TRY(tx__report_line(r, "ids: %d to %d", lo, hi));
    if (!n_bad) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s: %lld of %lld token ids are outside the vocabulary of %lld entries, the first of them %d at "
                   "position %lld of document %lld; give the vocabulary that the dataset was made with, or repeat "
                   "preprocess-data",
                   ix->prefix, (long long)n_bad, (long long)ix->n_tokens, (long long)vocab_size, bad_id,
                   (long long)bad_at, (long long)tx_indexed_doc_of(ix, bad_item));
}

/* ---- text ---- */

static tx_status show_document(tx__report *r, const tx_indexed *ix, const tx_tokenizer *tok, int32_t *ids, int64_t d)
{
    int64_t n = doc_tokens(ix, d), have = 0, end = tx_indexed_doc_begin(ix, d + 1);
    for (int64_t i = tx_indexed_doc_begin(ix, d); i < end && have < SHOWN_IDS; i++) {
        int64_t size = tx_indexed_size(ix, i), k = size < SHOWN_IDS - have ? size : SHOWN_IDS - have;
        TX_TRY(tx_indexed_get(ix, ids + have, i, 0, k));
        have += k;
    }
    tx_str text = { 0 };
    tx_status st = tx_json_quote_ids(&text, tok, ids, (size_t)have);
    if (!st && have == n)
        st = tx__report_line(r, "document %lld, %lld tokens: %s", (long long)d, (long long)n, text.data);
    if (!st && have < n)
        st = tx__report_line(r, "document %lld, %lld tokens, the first %lld of them: %s", (long long)d, (long long)n,
                             (long long)have, text.data);
    tx_str_free(&text);
    return st;
}

tx_status tx__inspect_dataset(tx__report *r, const tx_config *cfg, const char *prefix)
{
    tx_indexed ix = { 0 };
    tx_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    tx_status st;
    if (tx__tokenizer_is_given(cfg)) TX_GOTO(tx__tokenizer_from_config(cfg, &tok));
    TX_GOTO(tx_indexed_open(&ix, prefix));
    TX_GOTO(tx_alloc(&ids, CHUNK, sizeof *ids, "token ids"));
    TX_GOTO(tx__report_line(r, "%s: a dataset", prefix));
    TX_GOTO(tx__report_line(r, "documents: %lld", (long long)ix.n_docs));
    TX_GOTO(tx__report_line(r, "items: %lld", (long long)ix.n_items));
    TX_GOTO(tx__report_line(r, "tokens: %lld", (long long)ix.n_tokens));
    TX_GOTO(tx__report_line(r, "type: %s", tx_indexed_dtype_name(&ix)));
    TX_GOTO(show_lengths(r, &ix));
    TX_GOTO(check_ids(r, &ix, ids, tok ? tx_tokenizer_vocab_size(tok) : (int64_t)INT32_MAX + 1));
    TX_GOTO(tx__report_line(r, "checked: the index and the ids%s", tok ? ", all of which the vocabulary has" : ""));
    for (int64_t d = 0; tok && d < cfg->documents && d < ix.n_docs; d++) TX_GOTO(show_document(r, &ix, tok, ids, d));
out:
    tx_free(ids);
    tx_indexed_close(&ix);
    tx_tokenizer_close(tok);
    return st;
}
