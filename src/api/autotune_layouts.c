/* autotune_layouts.c - the layouts that may be measured: all that fit, each with what it should take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/autotune.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "predict/predict.h"
#include "predict/search.h"

enum { MOST_PLANNED = 5000 }; /* layouts that are all predicted; of more the search finds the best */

/* ---- a layout as options and as text ---- */

tx_status tx__tuning_config(tx_config **out, const tx__tuning_job *j, const tx__tuned *l)
{
    if (l->as_given) return tx_config_with(out, j->cfg, "");
    tx_config base = tx_without_layout(j->cfg);
    base.global_batch_size = l->global_batch;
    base.given.global_batch_size = true; /* else it would follow from the layout */
    return tx_choice_config(out, &base, &l->is);
}

tx_status tx__tuning_words(tx_str *out, const tx__tuned *l)
{
    TX_TRY(tx_choice_words(out, &l->is));
    return l->as_given ? tx_str_puts(out, ", the flags as given") : TX_OK;
}

/* DeepSpeed's names say the stage, the micro-batch and the accumulation steps. */
static void set_name(tx__tuned *l)
{
    static const char *const again[TX_N_AGAIN] = { "", "_selective", "_full" };
    const tx_layout_choice *c = &l->is;
    char chunks[32] = "", context[48] = "";
    if (tx_choice_context(c) > 1)
        snprintf(context, sizeof context, "_cp%lld_%s", (long long)c->cp, tx_cp_comm_word(c->how));
    if (c->chunk_layers) snprintf(chunks, sizeof chunks, "_chunks%lld", (long long)c->chunk_layers);
    snprintf(l->name, sizeof l->name, "z%d_tp%lld%s_pp%lld_tmbspg%lld_gas%lld%s%s%s%s%s", c->zero, (long long)c->tp,
             context, (long long)c->pp, (long long)c->micro_batch,
             (long long)(l->global_batch / (c->micro_batch * tx_choice_data_parallel(c))), chunks,
             c->sequence ? "_sp" : "", again[c->again], c->offload ? "_offload" : "", l->as_given ? "_as_given" : "");
}

/* ---- what it should take ---- */

static bool is_same(const tx_layout_choice *a, const tx_layout_choice *b)
{
    return a->tp == b->tp && tx_choice_context(a) == tx_choice_context(b) && a->how == b->how && a->pp == b->pp &&
           a->chunk_layers == b->chunk_layers && a->micro_batch == b->micro_batch && a->sequence == b->sequence &&
           a->again == b->again && a->zero == b->zero && a->offload == b->offload;
}

/* *fits false: the rules or the backend refuse it, or it needs more memory than there is; *least is then lowered. */
static tx_status predict(const tx__tuning_job *j, tx__tuned *l, bool *fits, double *least)
{
    tx_config *cfg = NULL;
    tx_run_work w = { 0 };
    tx_time t;
    *fits = false;
    tx_status st = tx__tuning_config(&cfg, j, l);
    if (st == TX_ERR_ARG || (!st && !cfg)) return TX_OK;
    if (!st) st = tx_run_work_make(&w, cfg, j->vocab_size);
    if (!st) {
        size_t takes = tx_memory_limited(&w.stage[w.most].plan.memory);
        *fits = takes <= tx_machine_room(&j->machine);
        if ((double)takes < *least) *least = (double)takes;
    }
    if (!st && (*fits || l->as_given)) st = tx_predict(&t, &w, &j->machine);
    if (!st && (*fits || l->as_given)) l->predicted = t.iteration;
    tx_run_work_free(&w);
    tx_config_free(cfg);
    return st == TX_ERR_ARG || st == TX_ERR_UNSUPPORTED ? TX_OK : st;
}

static tx_status append(tx__tuning_job *j, const tx__tuned *l)
{
    if (j->n == j->cap) {
        int cap = j->cap ? 2 * j->cap : 256;
        TX_TRY(tx_realloc(&j->layout, (size_t)cap, sizeof *j->layout, "layouts"));
        j->cap = cap;
    }
    j->layout[j->n] = *l;
    set_name(&j->layout[j->n++]);
    return TX_OK;
}

/* ---- the run's own ---- */

static tx_layout_choice choice_of(const tx_config *c)
{
    tx_recompute again = tx_config_recompute(c);
    return (tx_layout_choice){ .ranks = c->world_size,
                               .tp = c->tensor_model_parallel_size,
                               .cp = c->context_parallel_size,
                               .how = c->context_parallel_size > 1 ? tx_config_cp_comm(c) : TX_CP_COMM_P2P,
                               .pp = c->pipeline_model_parallel_size,
                               .chunk_layers = c->num_layers_per_virtual_pipeline_stage,
                               .micro_batch = c->micro_batch_size,
                               .sequence = c->sequence_parallel,
                               .again = again.n_layers    ? TX_AGAIN_FULL
                                        : again.selective ? TX_AGAIN_SELECTIVE
                                                          : TX_AGAIN_NOTHING,
                               .zero = (int)c->zero_stage,
                               .offload = c->offload_optimizer == TX_OFFLOAD_CPU };
}

static tx_status append_own(tx__tuning_job *j)
{
    tx__tuned own = { .is = choice_of(j->cfg), .as_given = true, .global_batch = j->cfg->global_batch_size };
    static const char why[] = "it does not fit into the memory";
    bool fits;
    double least = INFINITY;
    TX_TRY(predict(j, &own, &fits, &least));
    TX_TRY(append(j, &own));
    if (fits || !isfinite(least)) return TX_OK; /* what cannot be planned is measured all the same */
    j->layout[0].tried = true;
    return tx_memdup0(&j->layout[0].why, why, sizeof why - 1, "why a layout is not measured");
}

/* ---- all others ---- */

/* Whether the same layout that computes less of it again is listed: it would be slower. */
static bool computes_more(const tx__tuning_job *j, const tx__tuned *l)
{
    tx__tuned less = *l;
    for (int again = 0; again < (int)l->is.again; again++) {
        less.is.again = (tx_again)again;
        for (int i = j->n - 1; i >= 0; i--)
            if (is_same(&j->layout[i].is, &less.is) && j->layout[i].global_batch == l->global_batch) return true;
    }
    return false;
}

static bool is_wanted(const tx__tuning_job *j, const tx__tuned *l)
{
    const tx_tuning *t = &j->set;
    const tx_layout_choice *c = &l->is;
    if (c->micro_batch < t->min_train_micro_batch_size_per_gpu ||
        c->micro_batch > t->max_train_micro_batch_size_per_gpu)
        return false;
    if (t->mp_size && c->tp * c->pp != t->mp_size) return false;
    bool own = is_same(c, &j->layout[0].is) && l->global_batch == j->layout[0].global_batch;
    return !own && !computes_more(j, l);
}

static tx_status append_choice(tx__tuning_job *j, const tx_layout_choice *c, int64_t batch, double *least)
{
    tx__tuned l = { .is = *c, .global_batch = batch };
    bool fits;
    if (!is_wanted(j, &l)) return TX_OK;
    TX_TRY(predict(j, &l, &fits, least));
    return fits ? append(j, &l) : TX_OK;
}

/* Of many layouts those that the search finds. */
static tx_status append_found(tx__tuning_job *j, const tx_config *base, double *least)
{
    tx_search_result found;
    tx_search_args args = { .cfg = base,
                            .vocab_size = j->vocab_size,
                            .machine = &j->machine,
                            .room = tx_machine_room(&j->machine),
                            .gpu = tx_machine_is_gpu(&j->machine),
                            .n_threads = 1 };
    TX_TRY(tx_search_layouts(&found, &args, j->line.n_ranks));
    for (int i = 0; i < found.n; i++) TX_TRY(append_choice(j, &found.best[i].is, base->global_batch_size, least));
    return TX_OK;
}

/* The global batches to try: the run's own, and where it is free others. */
static int find_batches(const tx__tuning_job *j, int64_t batch[32])
{
    int n = 0;
    int64_t b = j->cfg->global_batch_size, most = j->set.max_train_batch_size;
    if (!j->set.any_batch) {
        batch[n++] = b;
        return n;
    }
    for (int i = 0; i < (int)j->set.num_tuning_micro_batch_sizes && b < INT64_MAX / 4; i++, b *= 2)
        if ((!most || b <= most) && b >= j->set.min_train_batch_size) batch[n++] = b;
    return n;
}

static tx_status append_others(tx__tuning_job *j, bool offload, double *least)
{
    int64_t batch[32], most_tp = j->line.n_ranks / j->line.n_hosts;
    int n = find_batches(j, batch);
    tx_status st = TX_OK;
    for (int i = 0; i < n && !st; i++) {
        tx_config base = tx_without_layout(j->cfg);
        tx_choice_list list = { 0 };
        base.global_batch_size = batch[i];
        st = tx_choice_list_make(&list, &base, j->line.n_ranks, most_tp > 1 ? most_tp : 1, offload);
        for (int64_t k = 0; k < list.n && list.n <= MOST_PLANNED && !st; k++)
            st = append_choice(j, &list.choice[k], batch[i], least);
        if (!st && list.n > MOST_PLANNED) st = append_found(j, &base, least);
        tx_choice_list_free(&list);
    }
    return st;
}

tx_status tx__tuning_list(tx__tuning_job *j)
{
    double least = INFINITY, begin = tx_clock();
    char takes[24], has[24];
    TX_TRY(append_own(j));
    TX_TRY(append_others(j, false, &least));
    if (j->n == 1) TX_TRY(append_others(j, true, &least));
    if (j->n == 1 && j->layout[0].tried)
        return TX_FAIL(TX_ERR_NOMEM,
                       "--autotuning: no layout on %d ranks fits: the smallest takes %s a rank, and of this machine's "
                       "memory it can have %s",
                       j->line.n_ranks, tx_bytes_text(takes, isfinite(least) ? least : 0),
                       tx_bytes_text(has, (double)tx_machine_room(&j->machine)));
    tx_info("%d layouts fit on %d ranks, predicted in %.1f s", j->n, j->line.n_ranks, tx_clock() - begin);
    return TX_OK;
}
