/* inspect_samples_gpt.c - samples of a GPT: stretches of documents, end to end. */
#include "api/inspect_samples.h"

tx_status tx__put_gpt_sample(tx__sample_view *v, tx_str *out, int64_t i)
{
    int64_t s = v->cfg->seq_length;
    int32_t eod = v->tok ? tx_tokenizer_eod(v->tok) : -1;
    const tx_sample_pieces *p = &v->pieces;
    TX_TRY(tx_sample_pieces_read(&v->pieces, v->blend, i));
    TX_TRY(tx_blend_get(v->blend, NULL, v->tokens, i));
    TX_TRY(tx__put_sample_begin(v, out, i, p->dataset));
    TX_TRY(tx_str_puts(out, "\"pieces\":["));
    for (int64_t k = 0; k < p->n; k++)
        TX_TRY(tx_str_printf(out, "%s{\"document\":%lld,\"offset\":%lld,\"tokens\":%lld}", k ? "," : "",
                             (long long)p->piece[k].item, (long long)p->piece[k].offset,
                             (long long)p->piece[k].n_tokens));
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
    int64_t len = v->blend->n_samples;
    const tx_sample_pieces *p = &v->pieces;
    for (int64_t i = 0; i < v->wanted; i++) {
        TX_TRY(tx_sample_pieces_read(&v->pieces, v->blend, i % len)); /* evaluation begins again at the end */
        for (int64_t k = 0; k < p->n; k++)
            read[p->piece[k].item - first] += (double)(p->piece[k].n_tokens - (k == p->n - 1));
    }
    return TX_OK;
}
