/* rules_zero.c - rules across options: ZeRO's stages, what is offloaded and where to. Words of upstream's are those of
 * deepspeed/runtime/config.py and deepspeed/runtime/activation_checkpointing/checkpointing.py. */
#include "config/rules.h"

static bool is_offloaded(enum tx_offload_place where)
{
    return where != TX_OFFLOAD_NONE;
}

/* ---------------------------------------------------------------- stages */

static void rule_distributed_optimizer_is_stage_1(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->use_distributed_optimizer || k->bad->zero_stage || c->zero_stage == 1) return;
    tx__violate_mendable(k, TX__NO_DISTRIBUTED_OPTIMIZER | TX__ZERO,
                         "--use-distributed-optimizer is --zero-stage 1, but --zero-stage %lld is given",
                         (long long)c->zero_stage);
}

/* ---------------------------------------------------------------- offload */

static void rule_offloaded_state_is_divided(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->zero_stage || k->bad->offload_optimizer || !is_offloaded(c->offload_optimizer) || c->zero_stage) return;
    tx__violate_mendable(k, TX__ZERO,
                         "--offload-optimizer %s needs a --zero-stage of 1 or more, with one data-parallel rank, too",
                         tx_offload_place_word(c->offload_optimizer));
}

static void rule_offloaded_parameters_are_divided(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->zero_stage || k->bad->offload_param || !is_offloaded(c->offload_param) || c->zero_stage == 3) return;
    tx__violate_mendable(k, TX__ZERO,
                         "--offload-param %s needs --zero-stage 3, not %lld: at lower stages every parameter is in use "
                         "all the time; with them there is --offload-optimizer",
                         tx_offload_place_word(c->offload_param), (long long)c->zero_stage);
}

static void rule_a_ratio_is_of_what_is_offloaded(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->offload_optimizer || k->bad->offload_optimizer_ratio || is_offloaded(c->offload_optimizer)) return;
    if (c->offload_optimizer_ratio < 1)
        tx__violate_mendable(k, TX__NO_OFFLOAD_RATIO,
                             "--offload-optimizer-ratio %g is the part of the state that is offloaded by "
                             "--offload-optimizer cpu or nvme, and it is none",
                             c->offload_optimizer_ratio);
}

static void need_folder(const tx__check *k, const char *flag, enum tx_offload_place place, const char *path)
{
    if (place == TX_OFFLOAD_NVME && (!path || !*path))
        tx__violate(k->v, "--%s nvme needs a folder on a local disk: give --%s-nvme-path DIR", flag, flag);
}

static void rule_files_have_a_folder(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!k->bad->offload_optimizer)
        need_folder(k, "offload-optimizer", c->offload_optimizer, c->offload_optimizer_nvme_path);
    if (!k->bad->offload_param) need_folder(k, "offload-param", c->offload_param, c->offload_param_nvme_path);
}

/* Sums of rows and columns are made where layers compute. */
static void rule_offloaded_updates_are_of_elements(const tx__check *k)
{
    const tx_config *c = k->c;
    const unsigned traits = k->bad->optimizer ? 0 : tx_optimizer_traits(c->optimizer);
    if (!(traits & TX_OPTIMIZER_FACTORS)) return;
    if ((!k->bad->offload_optimizer && is_offloaded(c->offload_optimizer)) ||
        (!k->bad->offload_param && is_offloaded(c->offload_param)))
        tx__violate(k->v,
                    "--optimizer %s sums rows and columns of matrices where layers compute: not with "
                    "--offload-optimizer or --offload-param; its state is small",
                    tx_optimizer_kind_word(c->optimizer));
}

/* Every rank averages a momentum of all parameters, of its own sum of all micro-batches. Experts are of other ranks. */
static void rule_signs_are_of_whole_gradients(const tx__check *k)
{
    const tx_config *c = k->c;
    const struct {
        bool given, bad;
        const char *flag;
    } all[] = { { c->zero_stage > 0, k->bad->zero_stage, "--zero-stage" },
                { c->reduce_every_micro_batch, k->bad->reduce_every_micro_batch, "--reduce-every-micro-batch" },
                { tx_config_has_experts(c), k->bad->num_experts, "--num-experts" },
                { c->mics_shard_size > 0, k->bad->mics_shard_size, "--mics-shard-size" },
                { is_offloaded(c->offload_optimizer), k->bad->offload_optimizer, "--offload-optimizer" } };
    if (k->bad->optimizer || !(tx_optimizer_traits(c->optimizer) & TX_OPTIMIZER_COMPRESSED)) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !all[i].bad)
            tx__violate(k->v,
                        "--optimizer %s averages each rank's momentum of all parameters: not with %s; leave it out, or "
                        "choose --optimizer adam",
                        tx_optimizer_kind_word(c->optimizer), all[i].flag);
}

/* The optimizers that have a trait, in buf. */
static const char *optimizers_with(unsigned trait, char *buf, size_t cap)
{
    size_t n = 0;
    *buf = 0;
    for (enum tx_optimizer_kind i = 1; tx_optimizer_kind_word(i); i++)
        if (tx_optimizer_traits(i) & trait && n < cap)
            n += (size_t)snprintf(buf + n, cap - n, "%s%s", n ? ", " : "", tx_optimizer_kind_word(i));
    return buf;
}

/* A worker is ranks in a row of those that average. */
static void rule_workers_are_rows(const tx__check *k)
{
    const tx_config *c = k->c;
    long long n = (long long)c->onebit_worker_size, ranks = (long long)tx_config_sharers(c);
    char all[256];
    if (k->bad->onebit_worker_size || n == 1) return;
    if (!k->bad->optimizer && !(tx_optimizer_traits(c->optimizer) & TX_OPTIMIZER_COMPRESSED))
        tx__violate(k->v, "--onebit-worker-size %lld is for an --optimizer that sends signs (%s), not %s", n,
                    optimizers_with(TX_OPTIMIZER_COMPRESSED, all, sizeof all), tx_optimizer_kind_word(c->optimizer));
    if (!k->bad->optimizer && c->optimizer == TX_OPTIMIZER_ONEBIT_LAMB)
        tx__violate(
            k->v,
            "--onebit-worker-size %lld is not for --optimizer onebitlamb, whose workers are single ranks: leave "
            "it out",
            n);
    if (ranks && ranks % n && !tx_config_searches(c) && !k->bad->world_size)
        tx__violate(k->v, "--onebit-worker-size %lld does not divide the %lld data-parallel ranks", n, ranks);
}

/* What is gathered before it is used, and summed in parts, is stage 3's alone. Experts that ranks divide are shared
 * with ranks that no row of near ones holds. */
static void rule_quantized_is_stage_3(const tx__check *k)
{
    const tx_config *c = k->c;
    const struct {
        bool given;
        const char *flag;
    } all[] = { { c->zero_quantized_weights, "--zero-quantized-weights" },
                { c->zero_hpz_partition_size > 1 && !k->bad->zero_hpz_partition_size, "--zero-hpz-partition-size" },
                { c->zero_quantized_gradients, "--zero-quantized-gradients" } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].given) continue;
        if (!k->bad->zero_stage && c->zero_stage != 3)
            tx__violate_mendable(k, TX__ZERO, "%s needs --zero-stage 3, not %lld", all[i].flag,
                                 (long long)c->zero_stage);
        if (!k->bad->moe_expert_parallel_size && tx_config_divides_experts(c))
            tx__violate(k->v,
                        "%s is for ranks that have the same parameters, not with experts that they divide: leave it "
                        "out",
                        all[i].flag);
    }
    long long row = (long long)c->zero_hpz_partition_size, ranks = (long long)tx_config_sharers(c);
    if (row > 1 && ranks && ranks % row && !tx_config_searches(c) && !k->bad->zero_hpz_partition_size &&
        !k->bad->world_size)
        tx__violate(k->v, "--zero-hpz-partition-size %lld does not divide the %lld data-parallel ranks", row, ranks);
    if (c->zero_quantized_gradients && !c->zero_reduce_scatter)
        tx__violate(k->v,
                    "--zero-quantized-gradients sums what a rank keeps, not with --no-zero-reduce-scatter: leave one "
                    "of them out");
    if (c->zero_quantized_gradients && c->grad_reduce_dtype && !k->bad->grad_reduce_dtype && !k->bad->grad_dtype &&
        (int)c->grad_reduce_dtype != (int)c->grad_dtype)
        tx__violate(k->v,
                    "--zero-quantized-gradients sends 4 bits a gradient whatever --grad-reduce-dtype says: leave one "
                    "of them out");
}

/* The errors of ranks that do not save are their own with MiCS. */
static void rule_errors_are_of_quantized_gradients(const tx__check *k)
{
    const tx_config *c = k->c;
    double beta = c->zero_loco_err_beta;
    if (k->bad->zero_loco_err_beta) return;
    if (beta < 0 && k->g->zero_loco_reset_t)
        tx__violate(k->v, "--zero-loco-reset-t is of the errors of LoCo: give --zero-loco-err-beta, 0.8 in DeepSpeed, "
                          "too, or leave it out");
    if (beta < 0 && beta > -1) tx__violate(k->v, "--zero-loco-err-beta %g must be from 0 to 1, or -1 for none", beta);
    if (beta >= 0 && !c->zero_quantized_gradients)
        tx__violate(k->v,
                    "--zero-loco-err-beta %g is of what --zero-quantized-gradients leaves out, and gradients are not "
                    "quantized: give that, too, or leave it out",
                    beta);
    if (beta >= 0 && c->mics_shard_size > 0 && !k->bad->mics_shard_size)
        tx__violate(k->v, "--zero-loco-err-beta keeps an error on every rank, of which with --mics-shard-size one row "
                          "is saved: leave one of them out");
}

/* Rows of near ranks, each of which has all of the state. Experts that ranks divide are shared with ranks that no row
 * holds. */
static void rule_shards_are_of_near_ranks(const tx__check *k)
{
    const tx_config *c = k->c;
    long long row = (long long)c->mics_shard_size, ranks = (long long)tx_config_sharers(c);
    if (row <= 0 || k->bad->mics_shard_size) return;
    if (!k->bad->zero_stage && c->zero_stage == 0)
        tx__violate_mendable(k, TX__ZERO,
                             "--mics-shard-size %lld is of what --zero-stage 1, 2 or 3 divides, and with 0 nothing is",
                             row);
    if (!k->bad->zero_hpz_partition_size && c->zero_hpz_partition_size > 1)
        tx__violate(k->v,
                    "--zero-hpz-partition-size %lld keeps a second copy nearby, and with --mics-shard-size %lld the "
                    "first one is there: leave one of them out",
                    (long long)c->zero_hpz_partition_size, row);
    if (!k->bad->moe_expert_parallel_size && tx_config_divides_experts(c))
        tx__violate(k->v, "--mics-shard-size is for ranks that have the same parameters, not with experts that they "
                          "divide: leave it out");
    if (ranks && ranks % row && !tx_config_searches(c) && !k->bad->world_size)
        tx__violate(k->v, "--mics-shard-size %lld does not divide the %lld data-parallel ranks", row, ranks);
}

/* O_DIRECT moves whole blocks of a disk. */
static void rule_requests_are_whole_blocks(const tx__check *k)
{
    long long n = (long long)k->c->aio_block_size;
    if (k->bad->aio_block_size || n % 4096 == 0) return;
    tx__violate_mendable(k, TX__AIO_BLOCK, "--aio-block-size %lld is no multiple of 4096, a block of a disk", n);
}

/* ---------------------------------------------------------------- what recomputation keeps */

static void rule_one_piece_has_room(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->contiguous_checkpointing || !c->number_checkpoints || k->bad->number_checkpoints || !c->num_layers ||
        k->bad->num_layers || k->bad->recompute_granularity || k->bad->recompute_method ||
        k->bad->checkpoint_num_layers || k->bad->recompute_num_layers)
        return;
    if (c->recompute_granularity == TX_RECOMPUTE_FULL && !c->recompute_method) return;
    tx_recompute r = tx_config_recompute(c);
    int64_t here = r.n_layers / c->pipeline_model_parallel_size, n = r.group ? (here + r.group - 1) / r.group : 0;
    if (c->number_checkpoints < n)
        tx__violate_mendable(k, TX__NO_CHECKPOINTS,
                             "--number-checkpoints %lld: a rank computes %lld groups of layers again",
                             (long long)c->number_checkpoints, (long long)n);
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_zero[] = {
    { NULL, rule_distributed_optimizer_is_stage_1 },
    { NULL, rule_offloaded_state_is_divided },
    { NULL, rule_offloaded_parameters_are_divided },
    { NULL, rule_offloaded_updates_are_of_elements },
    { NULL, rule_signs_are_of_whole_gradients },
    { NULL, rule_workers_are_rows },
    { NULL, rule_quantized_is_stage_3 },
    { NULL, rule_errors_are_of_quantized_gradients },
    { NULL, rule_shards_are_of_near_ranks },
    { NULL, rule_a_ratio_is_of_what_is_offloaded },
    { NULL, rule_files_have_a_folder },
    { NULL, rule_requests_are_whole_blocks },
    { "training", rule_one_piece_has_room },
    { NULL, NULL },
};
