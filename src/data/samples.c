/* samples.c - the kinds of samples, and what is the same for all of them. */
#include "data/samples.h"

const tx_samples *tx_samples_of(const tx_config *cfg)
{
    static const tx_samples *const of_model[] = {
#define X(model, word, type, samples, ...) [model] = &tx_##samples##_samples,
        TX_MODELS(X)
#undef X
    };
    if (cfg->finetune_data.n) return &tx_finetune_samples;
    return of_model[cfg->model_type ? cfg->model_type : TX_MODEL_GPT];
}

bool tx_samples_need_tokenizer(const tx_config *cfg)
{
    return tx_samples_of(cfg)->needs_tokenizer || cfg->fim_data;
}

/* The item that a document begins with. */
static int64_t document_begin(const tx_samples *kind, const tx_indexed *ix, int64_t document)
{
    return kind->sentences ? tx_indexed_doc_begin(ix, document) : document;
}

int64_t tx_samples_documents(const tx_samples *kind, const tx_indexed *ix)
{
    return kind->sentences ? ix->n_docs : ix->n_items;
}

int64_t tx_samples_document_size(const tx_samples *kind, const tx_indexed *ix, int64_t document)
{
    int64_t n = 0;
    for (int64_t i = document_begin(kind, ix, document); i < document_begin(kind, ix, document + 1); i++)
        n += tx_indexed_size(ix, i);
    return n;
}

tx_status tx_samples_put_ids(tx_str *out, const char *name, const int32_t *x, int64_t n)
{
    TX_TRY(tx_str_printf(out, "\"%s\":[", name));
    for (int64_t k = 0; k < n; k++) TX_TRY(tx_str_printf(out, "%s%d", k ? "," : "", x[k]));
    return tx_str_puts(out, "]");
}
