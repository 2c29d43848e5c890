/* cpu_tokens.c - some tokens of each sample taken out of all, and put back: rows are copied, a run of them per thread.
 */
#include <string.h>

#include "backend/cpu/cpu.h"

/* Some tokens [r, b, h], their positions, and all tokens [s, b, h] from position `first` on. */
typedef struct moved {
    tx_tensor some, all;
    const int32_t *position;
    int64_t first;
} moved;

/* The row of all that row i of some is; -1: all do not have it. */
static int64_t row_in(const moved *m, int64_t i)
{
    int64_t b = m->all.dim[1], at = m->position[i] - m->first;
    return at < 0 || at >= m->all.dim[0] ? -1 : at * b + i % b;
}

static void move(const tx_ctx *c, const moved *m, bool back)
{
    int64_t h = m->some.dim[2], n = m->some.dim[0] * m->some.dim[1];
    size_t bytes = (size_t)h * tx_dtype_size(m->some.dtype);
    int parts = tx__cpu_parts(c, n, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) {
            int64_t at = row_in(m, i);
            void *mine = tx__cpu_at(m->some, i * h);
            if (at < 0 && !back) memset(mine, 0, bytes);
            if (at < 0) continue;
            void *its = tx__cpu_at(m->all, at * h);
            memcpy(back ? its : mine, back ? mine : its, bytes);
        }
    }
}

tx_status tx__cpu_gather_tokens(tx_ctx *c, const tx_gather_tokens_args *a, void *scratch)
{
    (void)scratch;
    move(c, &(moved){ .some = a->y, .all = a->x, .position = a->position.data, .first = a->first }, false);
    return TX_OK;
}

tx_status tx__cpu_scatter_tokens(tx_ctx *c, const tx_scatter_tokens_args *a, void *scratch)
{
    (void)scratch;
    move(c, &(moved){ .some = a->x, .all = a->y, .position = a->position.data, .first = a->first }, true);
    return TX_OK;
}
