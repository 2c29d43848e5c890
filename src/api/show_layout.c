/* show_layout.c - the parts of a job plan that several ranks bring along, for people and as JSON. */
#include "api/show_layout.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/comm.h"

enum { MAX_STAGES_SHOWN = 16 };

static const double MB = 1048576;

/* ---- plans ---- */

tx_status tx_stage_plans_make(tx_stage_plans *out, const tx_config *cfg, int64_t vocab_size, size_t gpu)
{
    tx_stage_plans p = { .n = (int)cfg->pipeline_model_parallel_size };
    tx_status st;
    TX_TRY(tx_alloc(&p.stage, (size_t)p.n, sizeof *p.stage, "the plans of the pipeline's stages"));
    for (int i = 0; i < p.n; i++) {
        TX_GOTO(tx_plan_stage(&p.stage[i], cfg, vocab_size, i));
        if (gpu) p.stage[i].memory.gpu_free = gpu;
        if (tx_memory_limited(&p.stage[i].memory) > tx_memory_limited(&p.stage[p.most].memory)) p.most = i;
    }
    *out = p;
    return TX_OK;
out:
    tx_stage_plans_free(&p);
    return st;
}

void tx_stage_plans_free(tx_stage_plans *p)
{
    tx_free(p->stage);
    *p = (tx_stage_plans){ 0 };
}

/* ---- for people ---- */

static tx_status show_stage(tx__report *r, const tx_run_plan *p)
{
    char name[32], layers[32];
    snprintf(name, sizeof name, "stage %d", p->stage);
    snprintf(layers, sizeof layers, "%lld layer%s", (long long)p->n_layers, p->n_layers > 1 ? "s" : "");
    return tx__report_line(r, "    %-12s %14s %12.1f", name, layers, (double)tx_memory_total(&p->memory) / MB);
}

/* Of many stages the ends and the one that takes most. */
static bool is_shown(const tx_stage_plans *p, int i)
{
    return p->n <= MAX_STAGES_SHOWN || i < 2 || i == p->most || i >= p->n - 2;
}

/* Bytes that a rank sends in an iteration to those that have the same layers. */
static double sent_to_copies(const tx_volume_sizes *z)
{
    tx_volume v, data = { 0 };
    tx_volume_expect(&v, z);
    static const int group[] = { TX_GROUP_DATA, TX_GROUP_NEAR, TX_GROUP_FAR };
    for (size_t i = 0; i < sizeof group / sizeof *group; i++)
        memcpy(data.of[group[i]], v.of[group[i]], sizeof data.of[group[i]]);
    return tx_volume_sent(&data, z);
}

/* What of ZeRO++ there is. */
static tx_status show_quantized(tx__report *r, const tx_volume_sizes *z)
{
    char text[160] = "";
    int n = 0;
    if (z->quantized_weights) n += snprintf(text, sizeof text, "parameters are gathered as 8 bits each");
    if (z->near > 1 && !z->mics)
        n += snprintf(text + n, sizeof text - (size_t)n, "%sagain from %d near ranks",
                      n ? ", " : "parameters are gathered ", z->near);
    if (z->quantized_gradients)
        n += snprintf(text + n, sizeof text - (size_t)n, "%sgradients are sent as 4 bits each", n ? "; " : "");
    return n ? tx__report_line(r, "ZeRO++: %s", text) : TX_OK;
}

/* A plan's step is one of sums. */
static tx_status show_signs(tx__report *r, const tx_volume_sizes *z)
{
    tx_volume_sizes sums = *z, signs = *z;
    if (!z->shared[TX_SHARED_DATA].tensors || z->r == 1) return TX_OK;
    sums.signs = signs.alone = false;
    signs.signs = true;
    return tx__report_line(r,
                           "gradients: a rank of stage %d sends %.3f MB in a step with sums, such as those before a "
                           "freeze, and %.3f MB in one with signs",
                           z->stage, sent_to_copies(&sums) / MB, sent_to_copies(&signs) / MB);
}

tx_status tx__show_zero(tx__report *r, const tx_volume_sizes *z)
{
    static const char *const divided[] = { "", "the optimizer's state is", "the optimizer's state and gradients are",
                                           "the optimizer's state, gradients and parameters are" };
    long long m = (long long)z->n_micro;
    char experts[48] = "";
    TX_TRY(show_signs(r, z));
    if (!z->zero || z->r == 1) return TX_OK;
    if (z->e > 1) snprintf(experts, sizeof experts, ", those of experts among %d", z->r_experts);
    if (z->mics) snprintf(experts, sizeof experts, ", in each of %d rows (MiCS)", z->far);
    TX_TRY(tx__report_line(r, "ZeRO %d: %s divided among %d %sdata-parallel ranks%s", z->zero, divided[z->zero],
                           z->mics ? z->near : z->r, z->mics ? "near " : "", experts));
    TX_TRY(show_quantized(r, z));
    if (z->zero < 2 || z->p == 1) return TX_OK;
    tx_volume_sizes one = *z;
    one.zero = 1;
    one.reduce_every_micro_batch = false;
    char psi[48];
    snprintf(psi, sizeof psi, z->zero == 3 ? "3 x %lld Psi" : "(%lld + 1) Psi", m);
    return tx__report_line(r,
                           "    DeepSpeed refuses ZeRO %d with a pipeline; here each of %lld micro-batches %s: %s, "
                           "%.1f MB sent by a rank of stage %d, instead of 2 Psi, %.1f MB, with --zero-stage 1",
                           z->zero, m, z->zero == 3 ? "gathers parameters and reduces gradients" : "reduces gradients",
                           psi, sent_to_copies(z) / MB, z->stage, sent_to_copies(&one) / MB);
}

tx_status tx__show_ranks(tx__report *r, const tx_config *cfg, const tx_stage_plans *p)
{
    if (cfg->world_size == 1) return TX_OK;
    char experts[96] = "";
    if (tx_config_divides_experts(cfg))
        snprintf(experts, sizeof experts, ", %s experts divided over %lld ranks",
                 cfg->tensor_model_parallel_size == 1 || tx_config_expert_tensor(cfg) ? "a layer's" : "whole",
                 (long long)cfg->moe_expert_parallel_size);
    char context[64] = "";
    if (cfg->context_parallel_size > 1)
        snprintf(context, sizeof context, " x %lld context-parallel (%s)", (long long)cfg->context_parallel_size,
                 tx_cp_comm_word(tx_config_cp_comm(cfg)));
    TX_TRY(tx__report_line(r, "ranks: %lld = %lld tensor-parallel%s x %d pipeline stage%s x %lld data-parallel%s%s",
                           (long long)cfg->world_size, (long long)cfg->tensor_model_parallel_size, context, p->n,
                           p->n > 1 ? "s" : "", (long long)tx_config_data_parallel(cfg),
                           cfg->sequence_parallel ? ", sequence parallelism" : "", experts));
    TX_TRY(tx__show_zero(r, &p->stage[p->most].sizes));
    if (p->n == 1) return TX_OK;
    TX_TRY(tx__report_line(r, "memory of a rank (MB), in all:"));
    int n_hidden = 0;
    for (int i = 0; i < p->n; i++)
        if (is_shown(p, i))
            TX_TRY(show_stage(r, &p->stage[i]));
        else
            n_hidden++;
    if (n_hidden) TX_TRY(tx__report_line(r, "    and %d stages between them, none of which takes more", n_hidden));
    return tx__report_line(r, "of a rank in stage %d, which takes most:", p->most);
}

tx_status tx__show_messages(tx__report *r, const tx_config *cfg, const tx_run_plan *p)
{
    char stage[32] = "";
    if (cfg->world_size == 1) return TX_OK;
    if (cfg->pipeline_model_parallel_size > 1) snprintf(stage, sizeof stage, " in stage %d", p->stage);
    TX_TRY(tx__report_line(r, "messages of a rank%s in an iteration:", stage));
    tx_str table = { 0 };
    tx_status st = tx_volume_table(&table, &p->volume, &p->sizes);
    for (char *line = table.data, *rest; !st && line && *line; line = rest) {
        rest = line + strcspn(line, "\n");
        if (*rest) *rest++ = 0;
        st = tx__report_line(r, "%s", line);
    }
    tx_str_free(&table);
    return st;
}

/* ---- for programs ---- */

json_t *tx__memory_to_json(const tx_memory *m)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters",
        (json_int_t)m->params, "persistent", (json_int_t)m->persistent, "gathered", (json_int_t)m->gathered,
        "gradients", (json_int_t)m->grads, "gradient_buckets", (json_int_t)m->buckets, "optimizer",
        (json_int_t)m->optimizer, "teacher", (json_int_t)m->teacher, "activations", (json_int_t)m->activations,
        "host_activations", (json_int_t)m->host_activations, "offloaded", (json_int_t)m->host, "disk_buffers",
        (json_int_t)m->passing, "disk", (json_int_t)tx_memory_disk(m), "saved_copy", (json_int_t)m->saving, "workspace",
        (json_int_t)m->workspace, "total", (json_int_t)tx_memory_total(m), "gpu", (json_int_t)tx_memory_gpu(m));
}

/* Takes `one`, which may be NULL for want of memory; false then. */
static bool push(json_t *all, json_t *one)
{
    return !json_array_append_new(all, one);
}

static json_t *messages_to_json(const tx_run_plan *p)
{
    json_t *all = json_array();
    bool ok = all != NULL;
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int op = 0; op < TX_N_COMM_OPS && ok; op++) {
            const tx_comm_volume *v = &p->volume.of[i][op];
            if (v->calls)
                ok = push(all, json_pack("{s:s, s:i, s:s, s:I, s:I}", "group", tx_group_names[i], "size",
                                         tx_volume_group_size(&p->sizes, i), "op", tx_comm_op_names[op], "calls",
                                         (json_int_t)v->calls, "bytes", (json_int_t)v->bytes));
        }
    if (ok) return all;
    json_decref(all);
    return NULL;
}

static json_t *stage_to_json(const tx_run_plan *p)
{
    return json_pack("{s:i, s:I, s:o, s:I, s:f, s:o, s:f}", "stage", p->stage, "layers", (json_int_t)p->n_layers,
                     "memory", tx__memory_to_json(&p->memory), "model_states", (json_int_t)tx_memory_states(&p->memory),
                     "model_states_by_formula", tx_zero_formula_bytes(&p->formula), "messages", messages_to_json(p),
                     "sent_bytes", p->sent);
}

json_t *tx__layout_to_json(const tx_config *cfg, const tx_stage_plans *p)
{
    json_t *stages = json_array();
    bool ok = stages != NULL;
    for (int i = 0; i < p->n && ok; i++) ok = push(stages, stage_to_json(&p->stage[i]));
    json_t *layout = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:b, s:I}", "ranks", (json_int_t)cfg->world_size, "tensor",
        (json_int_t)cfg->tensor_model_parallel_size, "pipeline", (json_int_t)cfg->pipeline_model_parallel_size, "data",
        (json_int_t)tx_config_data_parallel(cfg), "context", (json_int_t)cfg->context_parallel_size,
        "sequence_parallel", cfg->sequence_parallel, "zero_stage", (json_int_t)cfg->zero_stage);
    if (ok) return json_pack("{s:o, s:o}", "layout", layout, "stages", stages);
    json_decref(stages);
    json_decref(layout);
    return NULL;
}
