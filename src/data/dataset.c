/* dataset.c - the public reader, thin over indexed.h. */
#include "base/alloc.h"
#include "data/indexed.h"
#include "triax/data.h"

struct tx_dataset {
    tx_indexed ix;
};

tx_status tx_dataset_open(tx_dataset **out, const char *prefix)
{
    tx_dataset *ds;
    TX_TRY(tx_alloc(&ds, 1, sizeof *ds, "a dataset"));
    tx_status st = tx_indexed_open(&ds->ix, prefix);
    if (st)
        tx_free(ds);
    else
        *out = ds;
    return st;
}

void tx_dataset_close(tx_dataset *ds)
{
    if (!ds) return;
    tx_indexed_close(&ds->ix);
    tx_free(ds);
}

int64_t tx_dataset_documents(const tx_dataset *ds)
{
    return ds->ix.n_docs;
}

int64_t tx_dataset_tokens(const tx_dataset *ds)
{
    return ds->ix.n_tokens;
}

tx_status tx_dataset_read(const tx_dataset *ds, int64_t document, tx_ids *out)
{
    const tx_indexed *ix = &ds->ix;
    if (document < 0 || document >= ix->n_docs)
        return TX_FAIL(TX_ERR_ARG, "%s: has no document %lld, only 0 to %lld", ix->prefix, (long long)document,
                       (long long)ix->n_docs - 1);
    int64_t first = tx_indexed_doc_begin(ix, document), end = tx_indexed_doc_begin(ix, document + 1);
    size_t need = out->n;
    for (int64_t i = first; i < end; i++) need += (size_t)tx_indexed_size(ix, i); /* no more than the file holds */
    if (need > out->cap) {
        TX_TRY(tx_realloc(&out->id, need, sizeof *out->id, "a document"));
        out->cap = need;
    }
    size_t n = out->n;
    for (int64_t i = first; i < end; i++) {
        TX_TRY(tx_indexed_get(ix, out->id + n, i, 0, tx_indexed_size(ix, i)));
        n += (size_t)tx_indexed_size(ix, i);
    }
    out->n = n;
    return TX_OK;
}
