/* gpt_samples.c - GPT's samples: stretches of documents, end to end, s + 1 tokens of them. The last one is a label
 * only, and the first of the next sample. */
#include <string.h>

#include "data/gpt_dataset.h"
#include "data/json_quote.h"
#include "data/samples.h"

static int64_t row_len(int64_t s)
{
    return s + 1;
}

static tx_status open_dataset(void **out, const tx_dataset_request *from)
{
    const tx_config *cfg = from->cfg;
    const tx_data_group *g = from->group;
    const char *const index[] = { cfg->train_doc_idx_path, cfg->train_sample_idx_path, cfg->train_shuffle_idx_path };
    tx_gpt_data_opts o = {
        .path = from->set->path,
        .mock = g->mock,
        .eod = from->eod,
        .split = g->divided ? cfg->split : NULL,
        .range = from->set->range,
        .range_for = g->split,
        .seq_length = cfg->seq_length,
        .seed = cfg->seed,
        .rule = cfg->data_order == TX_DATA_ORDER_BIGSCIENCE ? TX_EPOCH_BIGSCIENCE : TX_EPOCH_MICROSOFT,
        .keyed = cfg->data_order == TX_DATA_ORDER_KEYED,
        .exact_epochs = cfg->train_data_exact_num_epochs,
        .index_path = index[0] ? index : NULL,
        .vocab_size = from->vocab_size,
        .fim = cfg->fim_data ? cfg : NULL,
        .tok = from->tok,
    };
    tx_gpt_data *data;
    memcpy(o.n_samples, from->n_samples, sizeof o.n_samples);
    TX_TRY(tx_gpt_data_open(&data, &o));
    *out = data;
    return TX_OK;
}

static void close_dataset(void *data)
{
    tx_gpt_data_close(data);
}

static const void *split_of(const void *data, tx_split k)
{
    return tx_gpt_data_split(data, k);
}

static int64_t documents(const void *data)
{
    return tx_gpt_data_documents(data);
}

static const tx_indexed *file(const void *set)
{
    return tx_gpt_dataset_file(set);
}

static int64_t len(const void *set)
{
    return tx_gpt_dataset_len(set);
}

static uint64_t id(const void *set)
{
    return tx_gpt_dataset_id(set);
}

static tx_status get(const void *set, int32_t *scratch, int32_t *row, int64_t i)
{
    (void)scratch;
    return tx_gpt_dataset_get(set, row, i);
}

static int64_t pieces(const void *set, tx_sample_piece *piece, int64_t cap, int64_t i)
{
    return tx_gpt_dataset_pieces(set, piece, cap, i);
}

static tx_status show(tx_str *out, const tx_sample_view *v)
{
    int64_t s = v->cfg->seq_length;
    int32_t eod = v->tok ? tx_tokenizer_eod(v->tok) : -1;
    TX_TRY(tx_str_puts(out, "\"pieces\":["));
    for (int64_t k = 0; k < v->n_pieces; k++)
        TX_TRY(tx_str_printf(out, "%s{\"document\":%lld,\"offset\":%lld,\"tokens\":%lld}", k ? "," : "",
                             (long long)v->piece[k].document, (long long)v->piece[k].offset,
                             (long long)v->piece[k].n_tokens));
    TX_TRY(tx_str_puts(out, "],"));
    TX_TRY(tx_samples_put_ids(out, "tokens", v->row, s + 1));
    TX_TRY(tx_str_puts(out, ",\"loss_mask\":["));
    for (int64_t k = 0; k < s; k++)
        TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", !(v->cfg->eod_mask_loss && v->row[k] == eod)));
    TX_TRY(tx_str_puts(out, "],\"position_ids\":["));
    for (int64_t k = 0, begin = 0; k < s; k++) {
        TX_TRY(tx_str_printf(out, "%s%lld", k ? "," : "", (long long)(k - begin)));
        if (v->cfg->reset_position_ids && v->row[k] == eod) begin = k + 1;
    }
    TX_TRY(tx_str_puts(out, "]"));
    if (!v->tok) return TX_OK;
    TX_TRY(tx_str_puts(out, ",\"text\":"));
    return tx_json_quote_ids(out, v->tok, v->row, (size_t)s + 1);
}

const tx_samples tx_gpt_samples = {
    .name = "GPT",
    .n_shared = 1,
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
