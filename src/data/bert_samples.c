/* bert_samples.c - BERT's samples: sentences of one document, cut down to a length and masked. */
#include <string.h>

#include "data/bert_dataset.h"
#include "data/json_quote.h"
#include "data/samples.h"

static tx_status open_dataset(void **out, const tx_dataset_request *from)
{
    const tx_config *cfg = from->cfg;
    const tx_data_group *g = from->group;
    tx_bert_data_opts o = {
        .path = from->set->path,
        .split = g->divided ? cfg->split : NULL,
        .range = from->set->range,
        .range_for = g->split,
        .seq_length = cfg->seq_length,
        .seed = cfg->seed,
        .tok = from->tok,
        .vocab_size = from->vocab_size,
        .index_path = cfg->train_idx_path,
        .mask_prob = cfg->mask_prob,
        .short_seq_prob = cfg->short_seq_prob,
        .max_ngrams = (int)cfg->bert_max_ngrams,
        .always_masked = cfg->bert_mask_type == TX_BERT_MASK_T5,
        .binary_head = cfg->bert_binary_head,
    };
    tx_bert_data *data;
    memcpy(o.n_samples, from->n_samples, sizeof o.n_samples);
    TX_TRY(tx_bert_data_open(&data, &o));
    *out = data;
    return TX_OK;
}

static void close_dataset(void *data)
{
    tx_bert_data_close(data);
}

static const void *split_of(const void *data, tx_split k)
{
    return tx_bert_data_split(data, k);
}

static int64_t documents(const void *data)
{
    return tx_bert_data_documents(data);
}

static const tx_indexed *file(const void *set)
{
    return tx_bert_dataset_file(set);
}

static int64_t len(const void *set)
{
    return tx_bert_dataset_len(set);
}

static tx_status get(const void *set, int32_t *scratch, int32_t *row, int64_t i)
{
    return tx_bert_dataset_get_row(set, scratch, row, i);
}

/* Whole sentences, before they are cut down. */
static int64_t pieces(const void *set, tx_sample_piece *piece, int64_t cap, int64_t i)
{
    const tx_indexed *ix = tx_bert_dataset_file(set);
    tx_bert_row row = tx_bert_dataset_row(set, i);
    int64_t document = tx_indexed_doc_of(ix, row.first);
    for (int64_t k = 0; k < row.n_sentences && k < cap; k++)
        piece[k] = (tx_sample_piece){ .item = row.first + k,
                                      .document = document,
                                      .n_tokens = tx_indexed_size(ix, row.first + k) };
    return row.n_sentences;
}

static tx_status show_masked(tx_str *out, tx_bert_ids ids)
{
    const char *gap = "";
    TX_TRY(tx_str_puts(out, ",\"masked\":["));
    for (int32_t p = 0; p < *ids.n_tokens; p++) {
        if (ids.labels[p] < 0) continue;
        TX_TRY(tx_str_printf(out, "%s{\"position\":%d,\"label\":%d}", gap, p, ids.labels[p]));
        gap = ",";
    }
    return tx_str_puts(out, "]");
}

static tx_status show(tx_str *out, const tx_sample_view *v)
{
    int64_t s = v->cfg->seq_length, n_tokens = 0;
    tx_bert_ids ids = tx_bert_ids_of((int32_t *)v->row, s);
    tx_bert_row row = tx_bert_dataset_row(v->set, v->i);
    for (int64_t k = 0; k < v->n_pieces; k++) n_tokens += v->piece[k].n_tokens;
    TX_TRY(tx_str_printf(out, "\"document\":%lld,\"first_sentence\":%lld,\"sentences\":%d,\"target_length\":%d,",
                         (long long)v->piece->document, (long long)row.first, row.n_sentences, row.target));
    TX_TRY(tx_str_printf(out, "\"is_random\":%d,\"truncated\":%d,\"padding\":%lld,", *ids.is_random,
                         n_tokens > row.target, (long long)(s - *ids.n_tokens)));
    TX_TRY(tx_samples_put_ids(out, "tokens", ids.tokens, s));
    TX_TRY(tx_str_puts(out, ","));
    TX_TRY(tx_samples_put_ids(out, "types", ids.types, s));
    TX_TRY(show_masked(out, ids));
    TX_TRY(tx_str_puts(out, ",\"text\":"));
    return tx_json_quote_ids(out, v->tok, ids.tokens, (size_t)*ids.n_tokens);
}

const tx_samples tx_bert_samples = {
    .name = "BERT",
    .needs_tokenizer = true,
    .sentences = true,
    .masked = true,
    .n_scratch = 3,
    .row_len = tx_bert_row_len,
    .open = open_dataset,
    .close = close_dataset,
    .split = split_of,
    .documents = documents,
    .file = file,
    .len = len,
    .get = get,
    .pieces = pieces,
    .show = show,
};
