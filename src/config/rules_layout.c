/* rules_layout.c - rules across options: how the ranks divide the model and the samples. Words of upstream's are those
 * of megatron/arguments.py and megatron/microbatches.py. */
#include <stdio.h>
#include <string.h>

#include "base/launched.h"
#include "config/rules.h"

/* ---------------------------------------------------------------- ranks */

static void rule_ranks_hold_whole_models(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!tx__layout_is_known(k) ||
        c->world_size % (c->tensor_model_parallel_size * c->pipeline_model_parallel_size * c->context_parallel_size) ==
            0)
        return;
    char context[64] = "";
    if (c->context_parallel_size > 1)
        snprintf(context, sizeof context, " times --%s %lld", tx__context_flag(c), (long long)c->context_parallel_size);
    tx__violate_mendable(k, TX__RANKS | TX__TENSOR | TX__PIPELINE,
                         "world size (%lld) is not divisible by --tensor-model-parallel-size %lld times "
                         "--pipeline-model-parallel-size %lld%s",
                         (long long)c->world_size, (long long)c->tensor_model_parallel_size,
                         (long long)c->pipeline_model_parallel_size, context);
    k->bad->world_size = true;
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
    int64_t t = c->tensor_model_parallel_size;
    bool divides = true;
    if (k->bad->tensor_model_parallel_size) return;
    for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
        bool follows = i == 1 && split[1].n == split[0].n; /* said already */
        if (split[i].bad || follows || split[i].n % t == 0) continue;
        tx__violate_mendable(k, TX__TENSOR, "--%s %lld is not divisible by --tensor-model-parallel-size %lld",
                             split[i].flag, (long long)split[i].n, (long long)t);
        divides = false;
    }
    if (!divides) k->bad->tensor_model_parallel_size = true;
}

/* As a model is made; where padding is part of it, its rows are padded to a multiple again. */
static void rule_tensor_ranks_divide_vocabulary(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size, unit = c->make_vocab_size_divisible_by;
    char times[64] = "";
    if (k->bad->pad_vocab_size_to || k->bad->make_vocab_size_divisible_by || k->bad->tensor_model_parallel_size ||
        c->megatron_padded_logits || !unit || c->pad_vocab_size_to % (unit * t) == 0)
        return;
    if (t > 1) snprintf(times, sizeof times, " times --tensor-model-parallel-size %lld", (long long)t);
    tx__violate_mendable(k, TX__VOCABULARY | TX__TENSOR,
                         "--pad-vocab-size-to %lld is not divisible by --make-vocab-size-divisible-by %lld%s",
                         (long long)c->pad_vocab_size_to, (long long)unit, times);
}

static void rule_tensor_ranks_divide_sequence(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size, all = t * c->context_parallel_size;
    if (!c->sequence_parallel || k->bad->seq_length || k->bad->tensor_model_parallel_size ||
        k->bad->context_parallel_size || c->seq_length % all == 0)
        return;
    char context[64] = "";
    if (c->context_parallel_size > 1)
        snprintf(context, sizeof context, " times --%s %lld", tx__context_flag(c), (long long)c->context_parallel_size);
    tx__violate_mendable(
        k, TX__TENSOR | TX__SEQUENCE | TX__NO_SEQUENCE_PARALLEL,
        "--sequence-parallel: --seq-length %lld is not divisible by --tensor-model-parallel-size %lld%s",
        (long long)c->seq_length, (long long)t, context);
}

/* Heads are divided, so hidden sizes that are not are rare: those beside --kv-channels. */
static void rule_tensor_ranks_divide_kept_inputs(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size;
    if (k->bad->tensor_model_parallel_size || k->bad->hidden_size || k->bad->seq_length || k->bad->micro_batch_size)
        return;
    /* a factor at a time: their product may be beyond 64 bits */
    int64_t rest =
        c->hidden_size % t * (c->seq_length / c->context_parallel_size % t) % t * (c->micro_batch_size % t) % t;
    if (!tx_config_recompute(c).divided || rest == 0) return;
    tx__violate_mendable(
        k, TX__TENSOR | TX__SEQUENCE | TX__NO_PARTITION,
        "--partition-activations: a layer's input of --seq-length %lld times --micro-batch-size %lld times "
        "--hidden-size %lld numbers is not divisible by --tensor-model-parallel-size %lld",
        (long long)c->seq_length, (long long)c->micro_batch_size, (long long)c->hidden_size, (long long)t);
}

/* DeepSpeed's two assertions (activation_checkpointing/checkpointing.py), in its words. The number follows where layers
 * are computed again, as in Megatron-DeepSpeed. */
static void rule_contiguous_inputs_are_partitioned(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->contiguous_checkpointing) return;
    if (!c->partition_activations)
        tx__violate_mendable(k, TX__PARTITION | TX__NO_CONTIGUOUS,
                             "--contigious-checkpointing: Contiguous Checkpointing is only available with partitioned "
                             "activations. Set partitioned activations to true in deepspeed config");
    if (!c->number_checkpoints && !k->bad->number_checkpoints && !tx_config_recompute(c).n_layers)
        tx__violate_mendable(k, TX__CHECKPOINT | TX__NO_CONTIGUOUS,
                             "--contigious-checkpointing: Must specify the number of layers with contiguous memory "
                             "checkpointing: number_checkpoints, or --checkpoint-activations, from which it follows");
}

/* ---------------------------------------------------------------- pipeline */

static void rule_stages_have_layers(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t p = c->pipeline_model_parallel_size;
    if (k->bad->pipeline_model_parallel_size || k->bad->num_layers || !c->num_layers) return;
    if (c->num_layers >= p - c->standalone_embedding_stage) return;
    tx__violate_mendable(k, TX__PIPELINE,
                         "--pipeline-model-parallel-size %lld is more than --num-layers %lld, and a stage has at least "
                         "one layer",
                         (long long)p, (long long)c->num_layers);
    k->bad->pipeline_model_parallel_size = true;
}

/* Without layers of its own a stage has nothing else to do. */
static void rule_embedding_stands_alone(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->standalone_embedding_stage || k->bad->pipeline_model_parallel_size) return;
    if (c->pipeline_model_parallel_size < 2)
        tx__violate_mendable(
            k, TX__NO_STANDALONE | TX__PIPELINE,
            "--standalone-embedding-stage: the embedding has a stage of its own beside those of layers, "
            "and --pipeline-model-parallel-size is 1");
    if (c->num_layers_per_virtual_pipeline_stage && !k->bad->num_layers_per_virtual_pipeline_stage)
        tx__violate_mendable(k, TX__NO_VIRTUAL | TX__NO_STANDALONE,
                             "--standalone-embedding-stage: the first stage has no layers, and with "
                             "--num-layers-per-virtual-pipeline-stage each has several runs of them");
    if (c->kd || c->mos)
        tx__violate_mendable(k, TX__NO_STANDALONE,
                             "--standalone-embedding-stage: a teacher's layers go beside the student's, of which the "
                             "first stage has none; leave --%s out",
                             c->kd ? "kd" : "mos");
}

static void rule_virtual_stages_are_even(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t p = c->pipeline_model_parallel_size, v = c->num_layers_per_virtual_pipeline_stage;
    if (!v || k->bad->pipeline_model_parallel_size || k->bad->num_layers_per_virtual_pipeline_stage) return;
    if (p < 2) {
        tx__violate_mendable(k, TX__NO_VIRTUAL | TX__PIPELINE,
                             "--num-layers-per-virtual-pipeline-stage: pipeline-model-parallel size should be greater "
                             "than 1 with interleaved schedule");
        k->bad->num_layers_per_virtual_pipeline_stage = true;
        return;
    }
    if (c->pipeline_schedule == TX_PIPELINE_GPIPE)
        tx__violate_mendable(k, TX__NO_VIRTUAL | TX__ONE_F_ONE_B,
                             "--pipeline-schedule gpipe has one run of layers in a stage, and "
                             "--num-layers-per-virtual-pipeline-stage is given");
    if (k->bad->num_layers || (c->num_layers % p == 0 && c->num_layers / p % v == 0)) return;
    if (c->num_layers % p)
        tx__violate_mendable(k, TX__NO_VIRTUAL | TX__PIPELINE | TX__LAYERS,
                             "--num-layers-per-virtual-pipeline-stage: --num-layers %lld is not divisible by "
                             "--pipeline-model-parallel-size %lld",
                             (long long)c->num_layers, (long long)p);
    else
        tx__violate_mendable(k, TX__VIRTUAL | TX__NO_VIRTUAL,
                             "number of layers per pipeline stage (%lld) is not divisible by "
                             "--num-layers-per-virtual-pipeline-stage %lld",
                             (long long)(c->num_layers / p), (long long)v);
    k->bad->num_layers_per_virtual_pipeline_stage = true;
}

static void rule_zero_bubble_is_1f1b(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->enable_zbh1_exact_semantics && !c->given.enable_zbh1_pipeline)
        tx__violate(k->v, "--enable-zbh1-exact-semantics: Exact semantics require ZBH1 pipeline enabled, by "
                          "--enable-zbh1-pipeline");
    if (!c->enable_zbh1_pipeline) return;
    if (c->num_layers_per_virtual_pipeline_stage && !k->bad->num_layers_per_virtual_pipeline_stage)
        tx__violate_mendable(k, TX__NO_VIRTUAL | TX__NO_ZERO_BUBBLE,
                             "--enable-zbh1-pipeline has one run of layers in a stage, and "
                             "--num-layers-per-virtual-pipeline-stage is given");
    if (c->pipeline_schedule == TX_PIPELINE_GPIPE)
        tx__violate_mendable(k, TX__ONE_F_ONE_B | TX__NO_ZERO_BUBBLE,
                             "--enable-zbh1-pipeline is a schedule of its own, and --pipeline-schedule gpipe is given");
}

/* ---------------------------------------------------------------- DeepSpeed's equation */

/* A number of it under the name that it was given by. */
static void print_number(char text[64], const char *key, const char *flag, int64_t n)
{
    if (n)
        snprintf(text, 64, "%s%s %lld", flag ? "--" : "", flag ? flag : key, (long long)n);
    else
        snprintf(text, 64, "%s ?", key);
}

static void rule_deepspeeds_equation_holds(const tx__check *k)
{
    const tx__equation *e = k->equation;
    const unsigned remedies = TX__BATCH | TX__RANKS | TX__TENSOR | TX__PIPELINE;
    if (!e || (!e->any && !e->data_parallel) || !tx__layout_is_known(k)) return;
    tx__batch_sizes b = e->given;
    b.ranks = tx_config_data_parallel(k->c);
    char train[64], micro[64], accumulation[64];
    print_number(train, "train_batch_size", e->train_typed ? "global-batch-size" : NULL, b.train);
    print_number(micro, "train_micro_batch_size_per_gpu", e->micro_typed ? "micro-batch-size" : NULL, b.micro);
    print_number(accumulation, "gradient_accumulation_steps", NULL, b.accumulation);
    bool sound = tx__batch_complete(&b);
    if (e->any && !sound && !b.train && !b.micro)
        tx__violate(k->v,
                    "%s: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided: here, or as "
                    "--global-batch-size or --micro-batch-size",
                    e->where);
    else if (e->any && !sound)
        tx__violate_mendable(k, remedies, "%s: %s = %s x %s x data-parallel size %lld is impossible", e->where, train,
                             micro, accumulation, (long long)b.ranks);
    else if (e->any && b.train > TX__MAX_BATCH)
        tx__violate(k->v, "%s: train_batch_size %lld is more than 1e9", e->where, (long long)b.train);
    if (e->data_parallel && e->data_parallel != b.ranks)
        tx__violate_mendable(
            k, TX__RANKS | TX__TENSOR | TX__PIPELINE,
            "%s: data_parallel_size is %lld, but %lld ranks with --tensor-model-parallel-size %lld and "
            "--pipeline-model-parallel-size %lld make it %lld",
            e->where_ranks, (long long)e->data_parallel, (long long)k->c->world_size,
            (long long)k->c->tensor_model_parallel_size, (long long)k->c->pipeline_model_parallel_size,
            (long long)b.ranks);
}

/* ---------------------------------------------------------------- rounds of an interleaved schedule */

static void need_whole_rounds(const tx__check *k, int64_t batch, const char *flag, unsigned remedies)
{
    const tx_config *c = k->c;
    int64_t p = c->pipeline_model_parallel_size, unit = c->micro_batch_size * tx_config_data_parallel(c);
    if (batch % unit || batch / unit % p == 0) return; /* the first has a rule of its own */
    tx__violate_mendable(k, remedies | TX__BATCH | TX__NO_VIRTUAL,
                         "--%s %lld: number of microbatches (%lld) is not divisible by pipeline-model-parallel-size "
                         "(%lld) when using interleaved schedule",
                         flag, (long long)batch, (long long)(batch / unit), (long long)p);
}

static void rule_interleaving_has_whole_rounds(const tx__check *k)
{
    const tx_config *c = k->c;
    tx__ramp r;
    if (!tx__layout_is_known(k) || k->bad->micro_batch_size || k->bad->global_batch_size || !c->micro_batch_size ||
        k->bad->num_layers_per_virtual_pipeline_stage || tx_config_chunks(c) == 1)
        return;
    need_whole_rounds(k, c->global_batch_size, "global-batch-size", 0);
    if (k->bad->rampup_batch_size || tx__ramp_of(c, &r) || !r.n_increments) return;
    need_whole_rounds(k, r.start, "rampup-batch-size START", TX__RAMP);
    need_whole_rounds(k, r.increment, "rampup-batch-size INCREMENT", TX__RAMP);
}

static void rule_pipeline_is_not_disabled(const tx__check *k)
{
    if (!k->c->no_pipeline_parallel || k->c->pipeline_model_parallel_size == 1) return;
    tx__violate_mendable(k, TX__PIPELINE | TX__NO_DISABLED_PIPELINE,
                         "--no-pipeline-parallel and --pipeline-model-parallel-size %lld: pipeline_model_parallel_size "
                         "must be 1 if pipeline parallel is disabled",
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
        tx__violate_mendable(k, TX__NO_DUMP | TX__TENSOR | TX__PIPELINE,
                             "--dump-step writes whole parameters, and --tensor-model-parallel-size and "
                             "--pipeline-model-parallel-size divide them");
    bool divided = c->zero_stage && tx_config_sharers(c) > 1;
    if (c->dump_step.n && (divided || c->offload_optimizer != TX_OFFLOAD_NONE || c->offload_param != TX_OFFLOAD_NONE))
        tx__violate_mendable(k, TX__NO_DUMP | TX__ZERO,
                             "--dump-step writes whole parameters, and --zero-stage and what is offloaded divide them");
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_layout[] = {
    { NULL, rule_tensor_ranks_divide_layers },
    { NULL, rule_tensor_ranks_divide_vocabulary },
    { NULL, rule_tensor_ranks_divide_sequence },
    { NULL, rule_tensor_ranks_divide_kept_inputs },
    { NULL, rule_contiguous_inputs_are_partitioned },
    { NULL, rule_stages_have_layers },
    { NULL, rule_pipeline_is_not_disabled },
    { NULL, rule_embedding_stands_alone },
    { NULL, rule_virtual_stages_are_even },
    { NULL, rule_zero_bubble_is_1f1b },
    { NULL, rule_ranks_hold_whole_models },
    { "training", rule_launcher_counts_the_same },
    { NULL, rule_deepspeeds_equation_holds },
    { NULL, rule_interleaving_has_whole_rounds },
    { NULL, rule_pictures_are_for_people },
    { NULL, rule_dumped_step_is_of_one_rank },
    { NULL, NULL },
};
