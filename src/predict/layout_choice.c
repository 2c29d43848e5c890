/* layout_choice.c - layouts as flags, as words, and all that there are. */
#include "predict/layout_choice.h"

#include <string.h>

#include "base/alloc.h"
#include "parallel/pp_schedule.h"

int64_t tx_choice_context(const tx_layout_choice *c)
{
    return c->cp > 1 ? c->cp : 1;
}

int64_t tx_choice_data_parallel(const tx_layout_choice *c)
{
    return c->ranks / (c->tp * c->pp * tx_choice_context(c));
}

int64_t tx_choice_sharers(const tx_layout_choice *c)
{
    return c->ranks / (c->tp * c->pp);
}

/* ---- as options ---- */

tx_config tx_without_layout(const tx_config *cfg)
{
    tx_config c = *cfg;
    c.search = c.given.search = c.given.gpus_for = false;
    c.gpus_for = 0;
    c.tensor_model_parallel_size = c.pipeline_model_parallel_size = 1;
    c.context_parallel_size = 1;
    c.ds_sequence_parallel_size = 0;
    c.cp_comm_type = c.hierarchical_context_parallel_sizes = (tx_list){ 0 };
    c.given.context_parallel_size = c.given.ds_sequence_parallel_size = c.given.cp_comm_type = false;
    c.given.hierarchical_context_parallel_sizes = false;
    c.num_layers_per_virtual_pipeline_stage = 0;
    c.sequence_parallel = c.partition_activations = c.contiguous_checkpointing = c.checkpoint_in_cpu = false;
    c.recompute_activations = c.checkpoint_activations = c.use_distributed_optimizer = false;
    c.recompute_granularity = 0;
    c.recompute_method = 0;
    c.recompute_num_layers = 1;
    c.zero_stage = 0;
    c.offload_optimizer = c.offload_param = TX_OFFLOAD_NONE;
    c.offload_optimizer_ratio = 1;
    c.given.tensor_model_parallel_size = c.given.pipeline_model_parallel_size = false;
    c.given.num_layers_per_virtual_pipeline_stage = c.given.sequence_parallel = c.given.partition_activations = false;
    c.given.contiguous_checkpointing = c.given.checkpoint_in_cpu = c.given.recompute_activations = false;
    c.given.checkpoint_activations = c.given.use_distributed_optimizer = c.given.recompute_granularity = false;
    c.given.recompute_method = c.given.recompute_num_layers = c.given.zero_stage = false;
    c.given.offload_optimizer = c.given.offload_param = c.given.offload_optimizer_ratio = false;
    return c;
}

tx_status tx_choice_flags(tx_str *out, const tx_layout_choice *c)
{
    static const char *const again[] = {
        [TX_AGAIN_NOTHING] = "",
        [TX_AGAIN_SELECTIVE] = " --recompute-activations",
        [TX_AGAIN_FULL] = " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    };
    TX_TRY(tx_str_printf(out, "--tensor-model-parallel-size %lld --pipeline-model-parallel-size %lld", (long long)c->tp,
                         (long long)c->pp));
    if (tx_choice_context(c) > 1)
        TX_TRY(tx_str_printf(out, " --context-parallel-size %lld --cp-comm-type %s", (long long)c->cp,
                             tx_cp_comm_word(c->how)));
    if (c->chunk_layers)
        TX_TRY(tx_str_printf(out, " --num-layers-per-virtual-pipeline-stage %lld", (long long)c->chunk_layers));
    if (c->sequence) TX_TRY(tx_str_puts(out, " --sequence-parallel"));
    TX_TRY(tx_str_printf(out, " --micro-batch-size %lld --zero-stage %d%s", (long long)c->micro_batch, c->zero,
                         again[c->again]));
    return c->offload ? tx_str_puts(out, " --offload-optimizer cpu") : TX_OK;
}

tx_status tx_choice_words(tx_str *out, const tx_layout_choice *c)
{
    static const char *const again[] = { [TX_AGAIN_NOTHING] = "",
                                         [TX_AGAIN_SELECTIVE] = ", selective recomputation",
                                         [TX_AGAIN_FULL] = ", full recomputation" };
    TX_TRY(tx_str_printf(out, "TP %lld%s", (long long)c->tp, c->sequence ? " with SP" : ""));
    if (tx_choice_context(c) > 1)
        TX_TRY(tx_str_printf(out, ", CP %lld (%s)", (long long)c->cp, tx_cp_comm_word(c->how)));
    TX_TRY(tx_str_printf(out, ", PP %lld", (long long)c->pp));
    if (c->chunk_layers)
        TX_TRY(tx_str_printf(out, " in chunks of %lld layer%s", (long long)c->chunk_layers,
                             c->chunk_layers == 1 ? "" : "s"));
    return tx_str_printf(out, ", DP %lld, ZeRO %d, micro-batch %lld%s%s", (long long)tx_choice_data_parallel(c),
                         c->zero, (long long)c->micro_batch, again[c->again],
                         c->offload ? ", optimizer on the host" : "");
}

tx_status tx_choice_config(tx_config **out, const tx_config *base, const tx_layout_choice *c)
{
    tx_config from = *base;
    tx_str flags = { 0 };
    from.world_size = c->ranks;
    *out = NULL;
    tx_status st = tx_choice_flags(&flags, c);
    if (!st) st = tx_config_with(out, &from, flags.data);
    tx_str_free(&flags);
    return st == TX_ERR_ARG ? TX_OK : st;
}

/* ---- all of them ---- */

static tx_status append(tx_choice_list *l, const tx_layout_choice *c)
{
    if (l->n == l->cap) {
        int64_t cap = l->cap ? 2 * l->cap : 1024;
        TX_TRY(tx_realloc(&l->choice, (size_t)cap, sizeof *l->choice, "layouts"));
        l->cap = cap;
    }
    l->choice[l->n++] = *c;
    return TX_OK;
}

/* What is computed again, and ZeRO's stages: where nothing is divided, they are all stage 0. */
static tx_status append_states(tx_choice_list *l, tx_layout_choice c, bool offload)
{
    bool alone = tx_choice_sharers(&c) == 1;
    c.offload = offload;
    for (int again = 0; again < TX_N_AGAIN; again++)
        for (c.zero = offload; c.zero <= (alone ? (int)offload : 3); c.zero++) {
            c.again = (tx_again)again;
            TX_TRY(append(l, &c));
        }
    return TX_OK;
}

/* Runs of layers in a stage, if there are whole rounds of micro-batches. */
static tx_status append_chunks(tx_choice_list *l, const tx_config *base, tx_layout_choice c, bool offload)
{
    int64_t n = base->num_layers / c.pp;
    int64_t n_micro = base->global_batch_size / (c.micro_batch * tx_choice_data_parallel(&c));
    bool even = c.pp > 1 && base->num_layers % c.pp == 0 && n_micro % c.pp == 0;
    TX_TRY(append_states(l, c, offload));
    if (!even || tx_pp_training_kind(base) != TX_PP_1F1B) return TX_OK;
    for (c.chunk_layers = 1; c.chunk_layers < n; c.chunk_layers++)
        if (n % c.chunk_layers == 0) TX_TRY(append_states(l, c, offload));
    return TX_OK;
}

static tx_status append_micro_batches(tx_choice_list *l, const tx_config *base, tx_layout_choice c, bool offload)
{
    int64_t dp = tx_choice_data_parallel(&c), share = base->global_batch_size / dp;
    if (base->global_batch_size % dp) return TX_OK;
    for (c.micro_batch = 1; c.micro_batch <= share && c.micro_batch <= TX_MOST_MICRO_BATCH; c.micro_batch++) {
        if (share % c.micro_batch) continue;
        c.sequence = false;
        TX_TRY(append_chunks(l, base, c, offload));
        c.sequence = c.tp > 1 && base->seq_length % (c.tp * tx_choice_context(&c)) == 0;
        if (c.sequence) TX_TRY(append_chunks(l, base, c, offload));
    }
    return TX_OK;
}

/* One rank with whole samples, and those that divide them. */
static tx_status append_contexts(tx_choice_list *l, const tx_config *base, tx_layout_choice c, bool offload)
{
    int64_t ranks = tx_choice_sharers(&c), s = base->seq_length;
    int64_t least = base->global_batch_size < c.ranks ? TX_FEWER_POSITIONS : TX_LEAST_POSITIONS;
    for (int64_t n = 1; n <= ranks && (n == 1 || s / n >= least); n++) {
        bool ring = n > 1 && s % (2 * n) == 0, heads = n > 1 && s % n == 0 && base->num_attention_heads / c.tp >= n;
        if (ranks % n) continue;
        c.cp = n;
        c.how = TX_CP_COMM_P2P;
        if (n == 1 || ring) TX_TRY(append_micro_batches(l, base, c, offload));
        c.how = TX_CP_COMM_A2A;
        if (heads) TX_TRY(append_micro_batches(l, base, c, offload));
    }
    return TX_OK;
}

static bool may_divide(const tx_config *base, int64_t tp)
{
    return base->num_attention_heads % tp == 0 && base->num_key_value_heads % tp == 0 &&
           base->ffn_hidden_size % tp == 0;
}

tx_status tx_choice_list_make(tx_choice_list *out, const tx_config *base, int64_t ranks, int64_t most_tp, bool offload)
{
    *out = (tx_choice_list){ 0 };
    for (int64_t tp = 1; tp <= ranks && tp <= most_tp; tp++) {
        if (ranks % tp || !may_divide(base, tp)) continue;
        for (int64_t pp = 1; pp <= ranks / tp && pp <= base->num_layers; pp++) {
            if (ranks / tp % pp) continue;
            tx_layout_choice c = { .ranks = ranks, .tp = tp, .pp = pp };
            TX_TRY(append_contexts(out, base, c, offload));
        }
    }
    return TX_OK;
}

void tx_choice_list_free(tx_choice_list *l)
{
    tx_free(l->choice);
    *l = (tx_choice_list){ 0 };
}
