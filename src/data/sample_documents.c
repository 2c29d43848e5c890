/* sample_documents.c - from samples to the documents they were cut from. */
#include "data/sample_documents.h"

#include <stdlib.h>

#include "base/alloc.h"

tx_status tx_sample_pieces_read(tx_sample_pieces *p, const tx_blend *b, int64_t i)
{
    p->dataset = tx_blend_find(b, i, &i);
    const tx_sample_set *s = &b->dataset[p->dataset];
    p->n = s->kind->pieces(s->set, p->piece, p->cap, i);
    if (p->n <= p->cap) return TX_OK;
    TX_TRY(tx_realloc(&p->piece, (size_t)p->n, sizeof *p->piece, "the documents of a sample"));
    p->cap = p->n;
    s->kind->pieces(s->set, p->piece, p->cap, i);
    return TX_OK;
}

void tx_sample_pieces_free(tx_sample_pieces *p)
{
    tx_free(p->piece);
    *p = (tx_sample_pieces){ 0 };
}

typedef struct document {
    int dataset;
    int64_t number;
} document;

static int by_place(const void *a, const void *b)
{
    const document *x = a, *y = b;
    if (x->dataset != y->dataset) return (x->dataset > y->dataset) - (x->dataset < y->dataset);
    return (x->number > y->number) - (x->number < y->number);
}

/* Appends the documents of sample i. */
static tx_status add_documents(document **d, int64_t *used, tx_sample_pieces *p, const tx_blend *b, int64_t i)
{
    TX_TRY(tx_sample_pieces_read(p, b, i));
    TX_TRY(tx_realloc(d, (size_t)(*used + p->n), sizeof **d, "the documents of a sample"));
    for (int64_t k = 0; k < p->n; k++) (*d)[(*used)++] = (document){ p->dataset, p->piece[k].document };
    return TX_OK;
}

/* All documents of the samples, sorted, each once. */
static tx_status collect(document **out, int64_t *n_out, const tx_blend *b, const int64_t *sample, int64_t n)
{
    tx_sample_pieces p = { 0 };
    document *d = NULL;
    int64_t used = 0, kept = 0;
    tx_status st = TX_OK;
    for (int64_t i = 0; i < n; i++) TX_GOTO(add_documents(&d, &used, &p, b, sample[i]));
    if (used) qsort(d, (size_t)used, sizeof *d, by_place);
    for (int64_t i = 0; i < used; i++)
        if (!kept || by_place(&d[i], &d[kept - 1])) d[kept++] = d[i];
out:
    tx_sample_pieces_free(&p);
    if (st) tx_free(d);
    *out = st ? NULL : d;
    *n_out = kept;
    return st;
}

/* The n documents of one dataset, n > 0. */
static tx_status put_dataset(tx_str *out, const tx_blend *b, const document *d, int64_t n)
{
    int64_t i = 0;
    TX_TRY(tx_str_puts(out, n > 1 ? "documents " : "document "));
    for (int shown = 0; i < n && shown < TX_DOCUMENTS_SHOWN; shown++) {
        int64_t first = d[i].number, last = first;
        for (i++; i < n && d[i].number == last + 1; i++) last++;
        TX_TRY(tx_str_printf(out, "%s%lld", shown ? ", " : "", (long long)first));
        if (last > first) TX_TRY(tx_str_printf(out, "%s%lld", last > first + 1 ? "-" : ", ", (long long)last));
    }
    if (i < n) TX_TRY(tx_str_printf(out, " and %lld more", (long long)(n - i)));
    return tx_str_printf(out, " of %.255s", tx_blend_path(b, d->dataset));
}

tx_status tx_sample_documents(tx_str *out, const tx_blend *b, const int64_t *sample, int64_t n)
{
    document *d;
    int64_t n_all;
    TX_TRY(collect(&d, &n_all, b, sample, n));
    tx_status st = TX_OK;
    int shown = 0;
    for (int64_t i = 0, same; i < n_all && !st; i += same, shown++) {
        for (same = 1; i + same < n_all && d[i + same].dataset == d[i].dataset;) same++;
        if (shown == TX_DATASETS_SHOWN) {
            st = tx_str_puts(out, "; and of more datasets");
            break;
        }
        if (shown) st = tx_str_puts(out, "; ");
        if (!st) st = put_dataset(out, b, d + i, same);
    }
    tx_free(d);
    return st;
}
