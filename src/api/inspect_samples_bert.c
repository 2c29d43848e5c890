/* inspect_samples_bert.c - samples of a BERT: sentences of one document, cut down and masked. */
#include "api/inspect_samples.h"

tx_status tx__put_bert_sample(tx__sample_view *v, tx_str *out, int64_t i)
{
    int64_t own;
    int k = tx_blend_find(v->blend, i, &own);
    const tx_bert_dataset *ds = v->blend->dataset[k].bert;
    const tx_bert_sample *s = &v->bert;
    const char *gap = "";
    tx_bert_row row = tx_bert_dataset_row(ds, own);
    TX_TRY(tx_bert_dataset_get(ds, &v->bert, own));
    TX_TRY(tx__put_sample_begin(v, out, i, k));
    TX_TRY(tx_str_printf(out, "\"document\":%lld,\"first_sentence\":%lld,\"sentences\":%d,\"target_length\":%d,",
                         (long long)tx_indexed_doc_of(tx_bert_dataset_file(ds), row.first), (long long)row.first,
                         row.n_sentences, row.target));
    TX_TRY(tx_str_printf(out, "\"is_random\":%d,\"truncated\":%d,\"padding\":%lld,", s->is_random, s->truncated,
                         (long long)(v->cfg->seq_length - s->n_tokens)));
    TX_TRY(tx__put_ids(out, "tokens", s->tokens, v->cfg->seq_length));
    TX_TRY(tx_str_puts(out, ","));
    TX_TRY(tx__put_ids(out, "types", s->types, v->cfg->seq_length));
    TX_TRY(tx_str_puts(out, ",\"masked\":["));
    for (int32_t p = 0; p < s->n_tokens; p++) {
        if (s->labels[p] < 0) continue;
        TX_TRY(tx_str_printf(out, "%s{\"position\":%d,\"label\":%d}", gap, p, s->labels[p]));
        gap = ",";
    }
    TX_TRY(tx_str_puts(out, "],\"text\":"));
    TX_TRY(tx__report_decode(out, v->tok, s->tokens, (size_t)s->n_tokens));
    return tx_str_puts(out, "}");
}

void tx__count_bert_tokens(tx__sample_view *v, double *read, int64_t first)
{
    int64_t len = v->blend->n_samples, own;
    for (int64_t i = 0; i < v->wanted; i++) {
        const tx_bert_dataset *ds = v->blend->dataset[tx_blend_find(v->blend, i % len, &own)].bert;
        const tx_indexed *ix = tx_bert_dataset_file(ds);
        tx_bert_row row = tx_bert_dataset_row(ds, own);
        double *n = &read[tx_indexed_doc_of(ix, row.first) - first];
        for (int64_t k = row.first; k < row.first + row.n_sentences; k++) *n += tx_indexed_size(ix, k);
    }
}
