/* merge_adapters.c - W += scale B A, which source.h declares. */
#include "convert/source.h"

#include <string.h>

#include "base/alloc.h"
#include "model/transformer.h"

/* Rows of W that B has; sums in double, rounded once.   @b [rows, r]   @a [r, columns] */
static void add_product(const tx_lora *l, float *w, const float *b, const float *a, const int64_t size[3])
{
    int64_t rows = size[0], r = size[1], columns = size[2];
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        float *to = w + tx_lora_row(l, i) * columns;
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < r; k++) sum += (double)b[i * r + k] * (double)a[k * columns + j];
            to[j] = (float)((double)to[j] + l->scale * sum);
        }
    }
}

tx_status tx__merge_adapters(tx_source *src, const tx_param *p, float *whole)
{
    const tx_model *m = src->merges;
    const tx_transformer *t = (const tx_transformer *)m;
    for (int i = 0, layer; i < m->params.n; i++) {
        const tx_param *a = &m->params.param[i], *b = a + 1;
        char beside[TX_PARAM_NAME_MAX];
        int target = tx_lora_target_of(a->name, &layer);
        if (target < 0 || strstr(a->name, ".lora_B.")) continue;
        tx_lora_beside(beside, target, layer);
        if (strcmp(beside, p->name) != 0) continue;
        float *x;
        int64_t n = tx_param_whole_numel(a);
        const int64_t size[3] = { b->whole[0], b->whole[1], a->whole[1] };
        TX_TRY(tx_alloc(&x, (size_t)(n + tx_param_whole_numel(b)), sizeof *x, "an adapter"));
        tx_status st = src->type->read(src, m, 0, a, x);
        if (!st) st = src->type->read(src, m, 0, b, x + n);
        if (!st) add_product(&t->block[layer].lora[target], whole, x + n, x, size);
        tx_free(x);
        TX_TRY(st);
    }
    return TX_OK;
}
