/* work.c - from traces of dry runs to work. */
#include "predict/work.h"

#include <string.h>

#include "base/alloc.h"

/* ---- an event ---- */

/* Of attention: positions, head dimension, heads of all samples; of others the sizes that the profile names. */
static void read_shape(tx_work_event *e, const tx_trace_event *t)
{
    const tx_tensor *s = &t->cost.shape;
    e->dtype = s->dtype;
    if (t->cost.kind == TX_COST_ATTENTION) {
        e->m = (double)s->dim[0];
        e->n = (double)s->dim[4];
        e->k = (double)(s->dim[1] * s->dim[2] * s->dim[3]);
    } else if (t->cost.kind == TX_COST_PRODUCT) {
        e->m = (double)s->dim[0];
        e->n = (double)s->dim[1];
        e->k = (double)s->dim[2];
    }
}

static int group_of(const tx_trace_event *t)
{
    return (int)((const char *const *)t->group - tx_group_names);
}

/* What goes between stages is the schedule's matter: sizes alone are kept. */
static bool is_between_stages(const tx_trace_event *t)
{
    return t->kind == TX_TRACE_CALL && group_of(t) == TX_GROUP_PIPELINE && !strcmp(t->op, "send");
}

static void read_event(tx_stage_work *w, const tx_trace_event *from)
{
    tx_work_event e = { .kind = from->kind,
                        .op = from->op,
                        .bound = from->cost.kind,
                        .backward = from->backward,
                        .flops = from->cost.flops,
                        .bytes = from->cost.bytes,
                        .request = from->request };
    if (from->kind == TX_TRACE_OP) read_shape(&e, from);
    if (from->kind == TX_TRACE_CALL) e.group = is_between_stages(from) ? -1 : group_of(from);
    w->event[w->n_events++] = e;
}

/* ---- pieces ---- */

static void begin_piece(tx_stage_work *w, const tx_trace_event *mark)
{
    if (w->n_pieces) w->piece[w->n_pieces - 1].end = w->n_events;
    if (mark->part == TX_STEP_END) return;
    w->piece[w->n_pieces++] = (tx_work_piece){
        .part = mark->part, .micro = mark->micro, .chunk = mark->chunk, .last = mark->last, .first = w->n_events
    };
    if (mark->part == TX_STEP_FORWARD && mark->micro >= w->n_micro) w->n_micro = mark->micro + 1;
}

/* Whoever sends to the stage before it does so in an instruction that follows a backward. */
static void read_message(tx_stage_work *w, const tx_trace_event *e, bool back)
{
    if (is_between_stages(e)) w->message[back] = e->cost.bytes;
}

static tx_status read_trace(tx_stage_work *w, const tx_trace *t)
{
    bool back = false;
    w->n_requests = t->n_requests;
    TX_TRY(tx_alloc(&w->event, (size_t)t->n + 1, sizeof *w->event, "the work of a stage"));
    TX_TRY(tx_alloc(&w->piece, (size_t)t->n + 1, sizeof *w->piece, "the work of a stage"));
    for (int64_t i = 0; i < t->n; i++) {
        const tx_trace_event *e = &t->event[i];
        if (e->kind != TX_TRACE_MARK) {
            read_message(w, e, back);
            read_event(w, e);
            continue;
        }
        begin_piece(w, e);
        if (e->part == TX_STEP_FORWARD || e->part == TX_STEP_BACKWARD) back = e->part == TX_STEP_BACKWARD;
    }
    return TX_OK;
}

static tx_status make_stage(tx_stage_work *w, const tx_config *cfg, int64_t vocab_size)
{
    tx_trace t = { 0 };
    tx_status st = tx_plan_traced(&w->plan, &t, cfg, vocab_size, w->stage);
    if (!st) st = read_trace(w, &t);
    tx_trace_free(&t);
    return st;
}

/* ---- a run ---- */

static tx_dtype dtype_of(const tx_config *cfg)
{
    return cfg->bf16 ? TX_BF16 : cfg->fp16 ? TX_F16 : TX_F32;
}

tx_status tx_run_work_make(tx_run_work *out, const tx_config *cfg, int64_t vocab_size)
{
    int stage[TX__PLAN_STAGES];
    int64_t dp = tx_config_data_parallel(cfg);
    *out = (tx_run_work){ .layout = tx_layout_of(cfg),
                          .dtype = dtype_of(cfg),
                          .measures = (tx_optimizer_traits(cfg->optimizer) & TX_OPTIMIZER_NORMS) != 0,
                          .world_size = cfg->world_size,
                          .shape = { .kind = tx_pp_training_kind(cfg),
                                     .p = (int)cfg->pipeline_model_parallel_size,
                                     .m = (int)(cfg->global_batch_size / (cfg->micro_batch_size * dp)),
                                     .n_chunks = (int)tx_config_chunks(cfg) } };
    out->n = tx__plan_stages(cfg, stage);
    for (int i = 0; i < out->n; i++) {
        tx_stage_work *w = &out->stage[i];
        w->stage = stage[i];
        TX_TRY(make_stage(w, cfg, vocab_size));
        if (tx_memory_limited(&w->plan.memory) > tx_memory_limited(&out->stage[out->most].plan.memory)) out->most = i;
    }
    const tx_run_plan *p = &out->stage[0].plan;
    out->tokens = p->tokens;
    out->flops = p->flops;
    out->flops_again = p->flops_again;
    out->flops_told = p->flops_told;
    return TX_OK;
}

void tx_run_work_free(tx_run_work *w)
{
    for (int i = 0; i < w->n; i++) {
        tx_free(w->stage[i].event);
        tx_free(w->stage[i].piece);
    }
    *w = (tx_run_work){ 0 };
}

const tx_stage_work *tx_work_of_stage(const tx_run_work *w, int i)
{
    return &w->stage[i == 0 || w->n == 1 ? 0 : i < w->shape.p - 1 || w->n == 2 ? 1 : 2];
}
