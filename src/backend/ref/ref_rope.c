/* ref_rope.c - rotary positions. arXiv:2104.09864 */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_rope(tx_ctx *c, const tx_rope_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t d = a->x.dim[4], half = a->n_rot / 2, rows = tx_numel(a->x) / d, each = rows / a->x.dim[0];
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = tx_row_offset(a->x, row), i_b = row % each / (a->x.dim[2] * a->x.dim[3]);
        int64_t first = a->past.n.data ? ((const int32_t *)a->past.n.data)[i_b] : a->first;
        double longer = tx_rope_longer(a, tx_rope_length(a, first, i_b));
        for (int64_t i = 0; i < half; i++) {
            int64_t position = a->position.data ? ((const int32_t *)a->position.data)[row / each * a->x.dim[1] + i_b]
                                                : first + row / each;
            double angle = (double)position * tx_rope_frequency(a, i, longer), scale = a->scale > 0 ? a->scale : 1;
            double cosine = scale * cos(angle), sine = scale * (a->inverse ? -sin(angle) : sin(angle));
            int64_t at_x = at + (a->interleaved ? 2 * i : i), at_y = a->interleaved ? at_x + 1 : at + half + i;
            double x = tx__ref_load(a->x, at_x), y = tx__ref_load(a->x, at_y);
            tx__ref_store(a->x, at_x, x * cosine - y * sine);
            tx__ref_store(a->x, at_y, y * cosine + x * sine);
        }
    }
    return TX_OK;
}
