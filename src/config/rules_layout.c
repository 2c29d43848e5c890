/* rules_layout.c - rules across options: how the ranks divide the model and the samples. Words of upstream's are those
 * of megatron/arguments.py and megatron/microbatches.py. */
#include <stdio.h>
#include <string.h>

#include "base/launched.h"
#include "config/rules.h"

/* ---------------------------------------------------------------- nearest values */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

const char *tx__nearest_multiples(char text[TX__NEAREST], int64_t value, int64_t unit)
{
    long long below = (long long)(value / unit * unit), above = below + (long long)unit;
    if (below)
        snprintf(text, TX__NEAREST, "%lld or %lld", below, above);
    else
        snprintf(text, TX__NEAREST, "%lld", above);
    return text;
}

/* The divisors of n next to `value`, which is none: "4 or 6". */
static const char *nearest_divisors(char text[TX__NEAREST], int64_t value, int64_t n)
{
    int64_t below = value < n ? value - 1 : n, above = value + 1;
    while (n % below) below--;
    if (value > n || value < 2) {
        snprintf(text, TX__NEAREST, "%lld", (long long)below);
        return text;
    }
    while (n % above) above++;
    snprintf(text, TX__NEAREST, "%lld or %lld", (long long)below, (long long)above);
    return text;
}

/* ---------------------------------------------------------------- ranks */

static bool layout_is_known(const tx__check *k)
{
    return !k->bad->tensor_model_parallel_size && !k->bad->pipeline_model_parallel_size && !k->bad->world_size;
}

static void rule_ranks_hold_whole_models(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t model = c->tensor_model_parallel_size * c->pipeline_model_parallel_size;
    char near[TX__NEAREST], how[256] = "";
    if (!layout_is_known(k) || c->world_size % model == 0) return;
    tx__nearest_multiples(near, c->world_size, model);
    if (k->g->world_size)
        snprintf(how, sizeof how, "give --world-size %s", near);
    else
        snprintf(how, sizeof how,
                 "start %s ranks, as in mpirun -n %lld triax %s ..., or triax torchrun --nproc_per_node %lld %s "
                 "...",
                 near, (long long)model, c->command->name, (long long)model, c->command->name);
    tx__violate(k->v,
                "world size (%lld) is not divisible by --tensor-model-parallel-size %lld times "
                "--pipeline-model-parallel-size %lld: %s",
                (long long)c->world_size, (long long)c->tensor_model_parallel_size,
                (long long)c->pipeline_model_parallel_size, how);
}

/* Without a launcher the ranks may be threads, which nobody has counted before. */
static void rule_launcher_counts_the_same(const tx__check *k)
{
    tx_launched l = tx_launched_find();
    if (!k->g->world_size || k->bad->world_size || tx__plans_only(k) || !l.by || l.size == k->c->world_size) return;
    tx__violate(k->v, "--world-size %lld, but %s has started %d ranks: leave the flag out", (long long)k->c->world_size,
                l.by, l.size);
}

/* ---------------------------------------------------------------- tensor parallelism */

static void rule_tensor_ranks_divide_layers(const tx__check *k)
{
    const tx_config *c = k->c;
    const struct {
        const char *flag;
        int64_t n;
        bool bad;
    } split[] = {
        { "num-attention-heads", c->num_attention_heads, k->bad->num_attention_heads },
        { c->group_query_attention ? "num-query-groups" : "num-key-value-heads", c->num_key_value_heads,
          k->bad->num_key_value_heads || k->bad->num_query_groups },
        { "ffn-hidden-size", c->ffn_hidden_size, k->bad->ffn_hidden_size },
    };
    enum { N = sizeof split / sizeof *split };
    int64_t t = c->tensor_model_parallel_size, all = 0;
    char near[TX__NEAREST];
    if (k->bad->tensor_model_parallel_size) return;
    for (int i = 0; i < N; i++) all = gcd(all, split[i].n);
    for (int i = 0; i < N; i++) {
        bool follows = i == 1 && split[1].n == split[0].n; /* said already */
        if (split[i].bad || follows || split[i].n % t == 0) continue;
        tx__violate(k->v,
                    "--%s %lld is not divisible by --tensor-model-parallel-size %lld; sizes that divide heads, key "
                    "and value heads and the width of the MLP: %s",
                    split[i].flag, (long long)split[i].n, (long long)t, nearest_divisors(near, t, all));
    }
}

static void rule_tensor_ranks_divide_vocabulary(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size, unit = c->make_vocab_size_divisible_by;
    char near[TX__NEAREST];
    if (k->bad->pad_vocab_size_to || k->bad->tensor_model_parallel_size || !c->pad_vocab_size_to ||
        c->pad_vocab_size_to % t == 0)
        return;
    unit = unit / gcd(unit, t) * t;
    tx__violate(k->v,
                "--pad-vocab-size-to %lld is not divisible by --tensor-model-parallel-size %lld; multiples of "
                "--make-vocab-size-divisible-by and of it: %s",
                (long long)c->pad_vocab_size_to, (long long)t, tx__nearest_multiples(near, c->pad_vocab_size_to, unit));
}

static void rule_tensor_ranks_divide_sequence(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size;
    char near[TX__NEAREST];
    if (!c->sequence_parallel || k->bad->seq_length || k->bad->tensor_model_parallel_size || c->seq_length % t == 0)
        return;
    tx__violate(k->v,
                "--sequence-parallel: --seq-length %lld is not divisible by --tensor-model-parallel-size %lld; "
                "nearest: %s",
                (long long)c->seq_length, (long long)t, tx__nearest_multiples(near, c->seq_length, t));
}

/* Heads are divided, so hidden sizes that are not are rare: those beside --kv-channels. */
static void rule_tensor_ranks_divide_kept_inputs(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size;
    if (k->bad->tensor_model_parallel_size || k->bad->hidden_size || k->bad->seq_length || k->bad->micro_batch_size)
        return;
    /* a factor at a time: their product may be beyond 64 bits */
    int64_t rest = c->hidden_size % t * (c->seq_length % t) % t * (c->micro_batch_size % t) % t;
    if (!tx_config_recompute(c).divided || rest == 0) return;
    tx__violate(k->v,
                "--partition-activations: a layer's input of --seq-length %lld times --micro-batch-size %lld times "
                "--hidden-size %lld numbers is not divisible by --tensor-model-parallel-size %lld; leave the flag out, "
                "or take a --seq-length that is",
                (long long)c->seq_length, (long long)c->micro_batch_size, (long long)c->hidden_size, (long long)t);
}

/* DeepSpeed's two assertions (activation_checkpointing/checkpointing.py), in its words. The number follows where layers
 * are computed again, as in Megatron-DeepSpeed. */
static void rule_contiguous_inputs_are_partitioned(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->contiguous_checkpointing) return;
    if (!c->partition_activations)
        tx__violate(k->v, "--contigious-checkpointing: Contiguous Checkpointing is only available with partitioned "
                          "activations. Set partitioned activations to true in deepspeed config, or give "
                          "--partition-activations");
    if (!c->number_checkpoints && !k->bad->number_checkpoints && !tx_config_recompute(c).n_layers)
        tx__violate(k->v, "--contigious-checkpointing: Must specify the number of layers with contiguous memory "
                          "checkpointing: give --checkpoint-activations, from which it follows, or number_checkpoints");
}

/* ---------------------------------------------------------------- pipeline */

static void rule_stages_have_layers(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t p = c->pipeline_model_parallel_size;
    if (k->bad->pipeline_model_parallel_size || k->bad->num_layers || !c->num_layers || c->num_layers >= p) return;
    tx__violate(k->v,
                "--pipeline-model-parallel-size %lld is more than --num-layers %lld, and a stage has at least one "
                "layer; give at most %lld",
                (long long)p, (long long)c->num_layers, (long long)c->num_layers);
}

static void rule_virtual_stages_are_even(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t p = c->pipeline_model_parallel_size, v = c->num_layers_per_virtual_pipeline_stage;
    char near[TX__NEAREST];
    if (!v || k->bad->pipeline_model_parallel_size || k->bad->num_layers_per_virtual_pipeline_stage) return;
    if (p < 2) {
        tx__violate(k->v, "--num-layers-per-virtual-pipeline-stage: pipeline-model-parallel size should be greater "
                          "than 1 with interleaved schedule; leave the flag out");
        return;
    }
    if (!strcmp(c->pipeline_schedule, "gpipe"))
        tx__violate(k->v, "--pipeline-schedule gpipe has one run of layers in a stage: leave "
                          "--num-layers-per-virtual-pipeline-stage out, or take 1f1b");
    if (k->bad->num_layers || c->num_layers < p) return;
    if (c->num_layers % p)
        tx__violate(k->v,
                    "--num-layers-per-virtual-pipeline-stage: --num-layers %lld is not divisible by "
                    "--pipeline-model-parallel-size %lld; nearest: %s",
                    (long long)c->num_layers, (long long)p, tx__nearest_multiples(near, c->num_layers, p));
    else if (c->num_layers / p % v)
        tx__violate(k->v,
                    "number of layers per pipeline stage (%lld) is not divisible by "
                    "--num-layers-per-virtual-pipeline-stage %lld; nearest: %s",
                    (long long)(c->num_layers / p), (long long)v, nearest_divisors(near, v, c->num_layers / p));
}

static void need_whole_rounds(const tx__check *k, int64_t batch, const char *flag)
{
    const tx_config *c = k->c;
    int64_t p = c->pipeline_model_parallel_size, unit = c->micro_batch_size * tx_config_data_parallel(c);
    char near[TX__NEAREST];
    if (batch % unit || batch / unit % p == 0) return; /* the first has a rule of its own */
    tx__violate(k->v,
                "--%s %lld: number of microbatches (%lld) is not divisible by pipeline-model-parallel-size (%lld) when "
                "using interleaved schedule; nearest: %s",
                flag, (long long)batch, (long long)(batch / unit), (long long)p,
                tx__nearest_multiples(near, batch, p * unit));
}

static void rule_interleaving_has_whole_rounds(const tx__check *k)
{
    const tx_config *c = k->c;
    tx__ramp r;
    if (!layout_is_known(k) || k->bad->micro_batch_size || k->bad->global_batch_size || !c->micro_batch_size ||
        tx_config_chunks(c) == 1)
        return;
    need_whole_rounds(k, c->global_batch_size, "global-batch-size");
    if (k->bad->rampup_batch_size || tx__ramp_of(c, &r) || !r.n_increments) return;
    need_whole_rounds(k, r.start, "rampup-batch-size START");
    need_whole_rounds(k, r.increment, "rampup-batch-size INCREMENT");
}

static void rule_pipeline_is_not_disabled(const tx__check *k)
{
    if (k->c->no_pipeline_parallel && k->c->pipeline_model_parallel_size != 1)
        tx__violate(k->v,
                    "pipeline_model_parallel_size must be 1 if pipeline parallel is disabled: leave "
                    "--no-pipeline-parallel or --pipeline-model-parallel-size %lld out",
                    (long long)k->c->pipeline_model_parallel_size);
}

static void rule_pictures_are_for_people(const tx__check *k)
{
    if (k->c->schedule_picture && k->c->json) tx__violate(k->v, "--schedule-picture and --json: give one of the two");
}

/* ---------------------------------------------------------------- what is not divided */

static void rule_dumped_step_is_of_one_rank(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->dump_step.n && c->tensor_model_parallel_size * c->pipeline_model_parallel_size > 1)
        tx__violate(k->v, "--dump-step writes whole parameters: leave it out, or --tensor-model-parallel-size and "
                          "--pipeline-model-parallel-size");
    bool divided = c->zero_stage && tx_config_data_parallel(c) > 1;
    if (c->dump_step.n &&
        (divided || strcmp(c->offload_optimizer, "none") != 0 || strcmp(c->offload_param, "none") != 0))
        tx__violate(k->v, "--dump-step writes whole parameters: leave it out, or --zero-stage and what is offloaded");
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_layout[] = {
    { NULL, rule_ranks_hold_whole_models },           { "training", rule_launcher_counts_the_same },
    { NULL, rule_tensor_ranks_divide_layers },        { NULL, rule_tensor_ranks_divide_vocabulary },
    { NULL, rule_tensor_ranks_divide_sequence },      { NULL, rule_tensor_ranks_divide_kept_inputs },
    { NULL, rule_contiguous_inputs_are_partitioned }, { NULL, rule_stages_have_layers },
    { NULL, rule_virtual_stages_are_even },           { NULL, rule_interleaving_has_whole_rounds },
    { NULL, rule_pipeline_is_not_disabled },          { NULL, rule_pictures_are_for_people },
    { NULL, rule_dumped_step_is_of_one_rank },        { NULL, NULL },
};
