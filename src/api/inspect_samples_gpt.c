/* inspect_samples_gpt.c - samples of a GPT: stretches of documents, end to end. */
#include "api/inspect_samples.h"
#include "base/alloc.h"

/* The stretches of sample i into v->piece; they lie in dataset *k of the blend. */
static tx_status read_pieces(tx__sample_view *v, int64_t i, int *k, int64_t *n)
{
    *k = tx_blend_find(v->blend, i, &i);
    const tx_gpt_dataset *ds = v->blend->dataset[*k].gpt;
    *n = tx_gpt_dataset_pieces(ds, v->piece, v->cap, i);
    if (*n <= v->cap) return TX_OK;
    TX_TRY(tx_realloc(&v->piece, (size_t)*n, sizeof *v->piece, "the documents of a sample"));
    v->cap = *n;
    tx_gpt_dataset_pieces(ds, v->piece, v->cap, i);
    return TX_OK;
}

tx_status tx__put_gpt_sample(tx__sample_view *v, tx_str *out, int64_t i)
{
    int64_t s = v->cfg->seq_length, n;
    int32_t eod = v->tok ? tx_tokenizer_eod(v->tok) : -1;
    int dataset;
    TX_TRY(read_pieces(v, i, &dataset, &n));
    TX_TRY(tx_blend_get(v->blend, v->tokens, i));
    TX_TRY(tx__put_sample_begin(v, out, i, dataset));
    TX_TRY(tx_str_puts(out, "\"pieces\":["));
    for (int64_t k = 0; k < n; k++)
        TX_TRY(tx_str_printf(out, "%s{\"document\":%lld,\"offset\":%lld,\"tokens\":%lld}", k ? "," : "",
                             (long long)v->piece[k].item, (long long)v->piece[k].offset,
                             (long long)v->piece[k].n_tokens));
    TX_TRY(tx_str_puts(out, "],"));
    TX_TRY(tx__put_ids(out, "tokens", v->tokens, s + 1));
    TX_TRY(tx_str_puts(out, ",\"loss_mask\":["));
    for (int64_t k = 0; k < s; k++)
        TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", !(v->cfg->eod_mask_loss && v->tokens[k] == eod)));
    TX_TRY(tx_str_puts(out, "],\"position_ids\":["));
    for (int64_t k = 0, begin = 0; k < s; k++) {
        TX_TRY(tx_str_printf(out, "%s%lld", k ? "," : "", (long long)(k - begin)));
        if (v->cfg->reset_position_ids && v->tokens[k] == eod) begin = k + 1;
    }
    TX_TRY(tx_str_puts(out, "]"));
    if (v->tok) {
        TX_TRY(tx_str_puts(out, ",\"text\":"));
        TX_TRY(tx__report_decode(out, v->tok, v->tokens, (size_t)s + 1));
    }
    return tx_str_puts(out, "}");
}

tx_status tx__count_gpt_tokens(tx__sample_view *v, double *read, int64_t first)
{
    int64_t len = v->blend->n_samples, n;
    int dataset;
    for (int64_t i = 0; i < v->wanted; i++) {
        TX_TRY(read_pieces(v, i % len, &dataset, &n)); /* evaluation begins again at the end */
        for (int64_t k = 0; k < n; k++) read[v->piece[k].item - first] += (double)(v->piece[k].n_tokens - (k == n - 1));
    }
    return TX_OK;
}
