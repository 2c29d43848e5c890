/* base_weights.c - reading a model's weights where a checkpoint has no adapters. */
#include "train/base_weights.h"

#include "base/alloc.h"
#include "base/log.h"
#include "zero/zero_parts.h"

bool tx__trainer_begins_adapters(const tx_trainer *t, const tx_source *from)
{
    return t->cfg->lora_rank && !from->has_adapters;
}

/* The fragments of what a table without adapters has.   @row [all->n] of all rows their place in it; -1: it has none */
static tx_status keep_base(const tx_fragments *all, const int *row, tx_fragments *out)
{
    TX_TRY(tx_alloc(&out->fragment, (size_t)all->n + 1, sizeof *out->fragment, "the weights' fragments"));
    out->numel = all->numel;
    for (int i = 0; i < all->n; i++) {
        tx_fragment f = all->fragment[i];
        if (row[f.row] < 0) continue;
        f.row = row[f.row];
        out->fragment[out->n++] = f;
    }
    return TX_OK;
}

/* The table's rows get the places that they have in the run's. */
static void place_base(const tx_params *all, tx_params *base, int *row)
{
    for (int i = 0; i < all->n; i++) row[i] = -1;
    for (int i = 0; i < base->n; i++) {
        const tx_param *p = tx_params_find(all, base->param[i].name);
        TX_ASSERT(p);
        row[p - all->param] = i;
        base->param[i].offset = p->offset;
    }
    base->numel = all->numel;
}

tx_status tx__trainer_read_base(tx_trainer *t, tx_source *from, const tx_ckpt_part *part)
{
    const tx_params *all = &t->model->params;
    const tx_fragments *kept = tx_zero_kept(&t->zero);
    tx_config cfg = *t->cfg;
    tx_fragments base_kept = { 0 };
    tx_model *m = NULL;
    int *row = NULL;
    tx_status st;
    cfg.lora_rank = 0;
    TX_GOTO(tx_alloc(&row, (size_t)all->n + 1, sizeof *row, "the weights' fragments"));
    TX_GOTO(t->model->type->create(&m, &cfg, t->model->vocab_size, t->grid));
    place_base(all, &m->params, row);
    if (kept) TX_GOTO(keep_base(kept, row, &base_kept));
    if (!t->grid->rank) tx_info(" %s has no adapters: they begin as new ones", from->path);
    TX_GOTO(tx_source_read(from, m, kept ? &base_kept : NULL, part, 1));
out:
    if (m) m->type->destroy(m);
    tx_free(base_kept.fragment);
    tx_free(row);
    return st;
}
