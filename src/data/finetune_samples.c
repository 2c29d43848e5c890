/* finetune_samples.c - samples of a GPT that is fine-tuned: rows of conversations, which do not see each other. */
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/log.h"
#include "data/finetune_dataset.h"
#include "data/json_quote.h"
#include "data/keyed_order.h"

/* A file is of one split. */
typedef struct finetune_data {
    tx_indexed ix;
    tx_split split;
    int64_t s, seed, vocab_size;
    int32_t eod;
} finetune_data;

enum { WORDS = sizeof(tx_finetune_place) / sizeof(int32_t) };

static int64_t row_len(int64_t s)
{
    return s * WORDS;
}

/* ---------------------------------------------------------------- opening */

/* The items of row i: *begin to *end. */
static void items_of(const finetune_data *d, int64_t i, int64_t *begin, int64_t *end)
{
    *begin = tx_indexed_doc_begin(&d->ix, i);
    *end = tx_indexed_doc_begin(&d->ix, i + 1);
}

static tx_status check_rows(const finetune_data *d)
{
    for (int64_t i = 0; i < d->ix.n_docs; i++) {
        int64_t n = 0, begin, end;
        items_of(d, i, &begin, &end);
        for (int64_t k = begin; k < end; k++) n += tx_indexed_size(&d->ix, k);
        if (n > d->s)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s: row %lld has %lld tokens, more than --seq-length %lld: remove both files", d->ix.prefix,
                           (long long)i, (long long)n, (long long)d->s);
    }
    return TX_OK;
}

static void close_dataset(void *data)
{
    finetune_data *d = data;
    if (d) tx_indexed_close(&d->ix);
    tx_free(d);
}

static tx_status open_dataset(void **out, const tx_dataset_request *from)
{
    const tx_config *cfg = from->cfg;
    finetune_data *d;
    tx_status st;
    TX_TRY(tx_alloc(&d, 1, sizeof *d, "a dataset"));
    *d = (finetune_data){ .split = from->group->split,
                          .s = cfg->seq_length,
                          .seed = cfg->seed,
                          .vocab_size = from->vocab_size,
                          .eod = from->eod < 0 ? 0 : from->eod };
    TX_GOTO(tx_indexed_open(&d->ix, from->set->path));
    TX_GOTO(check_rows(d));
    tx_info(" > %s: %lld conversations in %lld rows, in another order each epoch", tx_split_name(d->split),
            (long long)d->ix.n_items, (long long)d->ix.n_docs);
    *out = d;
    return TX_OK;
out:
    close_dataset(d);
    return st;
}

static const void *split_of(const void *data, tx_split k)
{
    const finetune_data *d = data;
    return d->split == k && d->ix.n_docs ? d : NULL;
}

static int64_t documents(const void *data)
{
    return ((const finetune_data *)data)->ix.n_docs;
}

/* ---------------------------------------------------------------- reading */

static const tx_indexed *file(const void *set)
{
    return &((const finetune_data *)set)->ix;
}

static int64_t len(const void *set)
{
    return file(set)->n_docs;
}

static uint64_t id(const void *set)
{
    const finetune_data *d = set;
    int64_t about[] = { d->ix.n_items, d->ix.n_docs, d->ix.n_tokens, d->s, d->seed };
    return XXH3_64bits_withSeed(d->ix.sizes, (size_t)d->ix.n_items * 4, XXH3_64bits(about, sizeof about));
}

/* The row that sample i is. */
static int64_t row_of(const finetune_data *d, int64_t i)
{
    int64_t n = d->ix.n_docs;
    return tx_keyed_order((uint64_t)d->seed, (uint32_t)(i / n), n, i % n);
}

/* Conversation `item` from row[0] on.   @scratch [its tokens] */
static tx_status get_item(const finetune_data *d, tx_finetune_place *row, int32_t *scratch, int64_t item)
{
    int64_t n = tx_indexed_size(&d->ix, item);
    TX_TRY(tx_indexed_get(&d->ix, scratch, item, 0, n));
    if (d->vocab_size) TX_TRY(tx_indexed_check_vocab(&d->ix, scratch, item, 0, n, 2 * d->vocab_size));
    for (int64_t i = 0; i < n; i++) {
        bool counts = i + 1 < n && scratch[i + 1] & 1;
        row[i] = (tx_finetune_place){ scratch[i] >> 1, counts ? scratch[i + 1] >> 1 : -1, (int32_t)i };
    }
    return TX_OK;
}

static tx_status get(const void *set, int32_t *scratch, int32_t *row, int64_t i)
{
    const finetune_data *d = set;
    tx_finetune_place *place = (tx_finetune_place *)row;
    int64_t begin, end, at = 0;
    items_of(d, row_of(d, i), &begin, &end);
    for (int64_t k = begin; k < end; at += tx_indexed_size(&d->ix, k++)) TX_TRY(get_item(d, place + at, scratch, k));
    for (int32_t k = 0; at < d->s; at++) place[at] = (tx_finetune_place){ d->eod, -1, k++ };
    return TX_OK;
}

static int64_t pieces(const void *set, tx_sample_piece *piece, int64_t cap, int64_t i)
{
    const finetune_data *d = set;
    int64_t row = row_of(d, i), begin, end;
    items_of(d, row, &begin, &end);
    for (int64_t k = begin; k < end && k - begin < cap; k++)
        piece[k - begin] =
            (tx_sample_piece){ .item = k, .document = row, .offset = 0, .n_tokens = tx_indexed_size(&d->ix, k) };
    return end - begin;
}

/* ---------------------------------------------------------------- inspect-samples */

static tx_status put_places(tx_str *out, const tx_finetune_place *place, int64_t s)
{
    TX_TRY(tx_str_puts(out, "\"tokens\":["));
    for (int64_t k = 0; k < s; k++) TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", place[k].id));
    TX_TRY(tx_str_puts(out, "],\"labels\":["));
    for (int64_t k = 0; k < s; k++) TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", place[k].label));
    TX_TRY(tx_str_puts(out, "],\"position_ids\":["));
    for (int64_t k = 0; k < s; k++) TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", place[k].position));
    return tx_str_puts(out, "]");
}

/* Each conversation's text, and of it the answers. */
static tx_status put_texts(tx_str *out, const tx_sample_view *v)
{
    const tx_finetune_place *place = (const tx_finetune_place *)v->row;
    tx_ids ids = { 0 };
    tx_status st = tx_alloc(&ids.id, 2 * (size_t)v->cfg->seq_length, sizeof *ids.id, "a sample");
    for (int64_t p = 0; p < v->n_pieces && !st; place += v->piece[p++].n_tokens) {
        int32_t *answer = ids.id + v->cfg->seq_length;
        int64_t n = v->piece[p].n_tokens;
        size_t n_answer = 0;
        for (int64_t k = 0; k < n; k++) {
            ids.id[k] = place[k].id;
            if (place[k].label >= 0) answer[n_answer++] = place[k].label;
        }
        TX_GOTO(tx_str_puts(out, p ? ",{\"text\":" : "{\"text\":"));
        TX_GOTO(tx_json_quote_ids(out, v->tok, ids.id, (size_t)n));
        TX_GOTO(tx_str_puts(out, ",\"answers\":"));
        TX_GOTO(tx_json_quote_ids(out, v->tok, answer, n_answer));
        TX_GOTO(tx_str_puts(out, "}"));
    }
out:
    tx_ids_free(&ids);
    return st;
}

static tx_status show(tx_str *out, const tx_sample_view *v)
{
    TX_TRY(put_places(out, (const tx_finetune_place *)v->row, v->cfg->seq_length));
    if (!v->tok) return TX_OK;
    TX_TRY(tx_str_puts(out, ",\"conversations\":["));
    TX_TRY(put_texts(out, v));
    return tx_str_puts(out, "]");
}

const tx_samples tx_finetune_samples = {
    .name = "fine-tuned GPT",
    .sentences = true,
    .n_scratch = 1,
    .row_len = row_len,
    .open = open_dataset,
    .close = close_dataset,
    .split = split_of,
    .documents = documents,
    .file = file,
    .len = len,
    .id = id,
    .get = get,
    .pieces = pieces,
    .show = show,
};
