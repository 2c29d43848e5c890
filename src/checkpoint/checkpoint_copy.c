/* checkpoint_copy.c - a second copy of what a rank saves, in memory, so that saving can continue while the first one
 * changes. */
#include <string.h>

#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"

#define CHUNK ((int64_t)1 << 18) /* elements that one thread copies at a time */

static int64_t part_numel(const tx_params *ps, const tx_fragments *kept)
{
    return kept ? kept->numel : ps->numel;
}

int64_t tx_checkpoint_copy_numel(const tx_params *ps, const tx_fragments *kept, const tx_ckpt_part *part, int n_parts)
{
    int64_t n = 0;
    for (int i = 0; i < n_parts; i++) n += part_numel(tx__part_rows(&part[i], ps), tx__part_kept(&part[i], kept));
    return n;
}

static void copy_flat(float *to, const float *from, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t k = n - at < CHUNK ? n - at : CHUNK;
        memcpy(to + at, from + at, (size_t)k * sizeof *to);
    }
}

/* What pads is not saved, and `move` is not asked for it. */
static tx_status copy_moved(float *to, const tx_ckpt_part *from, int part_number, const tx_param *p,
                            const tx_fragment *s)
{
    int64_t real = tx_param_n_real(p), end = s->first + s->numel < real ? s->first + s->numel : real;
    for (int64_t at = s->first; at < end; at += TX_CKPT_WINDOW) {
        int64_t left = s->first + s->numel - at, n = left < TX_CKPT_WINDOW ? left : TX_CKPT_WINDOW;
        const tx_ckpt_window w = { part_number, s, at, n, to + (at - s->first) };
        TX_TRY(from->move(from->user, &w, false));
    }
    return TX_OK;
}

static tx_status copy_part(const tx_ckpt_part *copy, const tx_ckpt_part *from, int part_number, const tx_params *ps,
                           const tx_fragments *kept)
{
    for (int n = tx__fragment_count(ps, kept), k = 0; k < n; k++) {
        tx_fragment s = tx__fragment_at(ps, kept, k);
        const tx_param *p = &ps->param[s.row];
        float *y = tx__fragment_element(copy, ps, &s, s.first);
        if (!p->counted || !s.numel) continue;
        if (from->flat)
            copy_flat(y, tx__fragment_element(from, ps, &s, s.first), s.numel);
        else
            TX_TRY(copy_moved(y, from, part_number, p, &s));
    }
    return TX_OK;
}

tx_status tx_checkpoint_copy(tx_ckpt_part *copy, float *to, const tx_params *ps, const tx_fragments *kept,
                             const tx_ckpt_part *part, int n_parts)
{
    for (int i = 0; i < n_parts; i++) {
        const tx_params *rows = tx__part_rows(&part[i], ps);
        const tx_fragments *own = tx__part_kept(&part[i], kept);
        copy[i] = (tx_ckpt_part){
            .name = part[i].name, .flat = to, .whole = !own, .rows = part[i].rows, .kept = part[i].kept
        };
        TX_TRY(copy_part(&copy[i], &part[i], i, rows, own));
        to += part_numel(rows, own);
    }
    return TX_OK;
}
