/* rules_run.c - rules across options: batch sizes, length of the run, learning rate and weight decay. */
#include <string.h>

#include "config/rules.h"

/* ---------------------------------------------------------------- batch and length of the run */

static void rule_micro_divides_global(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->global_batch_size || k->bad->micro_batch_size || !c->global_batch_size || !c->micro_batch_size ||
        !tx__layout_is_known(k))
        return;
    int64_t data = tx_config_data_parallel(c);
    if (c->global_batch_size % (c->micro_batch_size * data) == 0) return;
    tx__violate_mendable(
        k, TX__BATCH,
        "global batch size (%lld) is not divisible by micro batch size (%lld) times data parallel size "
        "(%lld)",
        (long long)c->global_batch_size, (long long)c->micro_batch_size, (long long)data);
    k->bad->global_batch_size = true;
}

static void rule_skipped_ranges_are_ranges(const tx__check *k)
{
    const tx_list *l = &k->c->skip_train_iteration_range;
    int64_t first, last;
    for (int i = 0; i < l->n; i++)
        if (!tx__skip_range_parse(l->item[i], &first, &last))
            tx__violate(k->v,
                        "--skip-train-iteration-range %.60s: skip train iterations should be specified as two numbers, "
                        "i.e. start-end, with 1 <= start <= end",
                        l->item[i]);
    if (l->n && k->c->rampup_batch_size.n)
        tx__violate(k->v, "--skip-train-iteration-range needs batches of one size: leave --rampup-batch-size out");
    if (l->n && k->c->command->id == TX_COMMAND_INSPECT_SAMPLES)
        tx__violate(k->v, "inspect-samples shows the data in its order: leave --skip-train-iteration-range out");
}

/* A small number alone is a forgotten unit. */
static void check_size(const tx__check *k, const char *flag, const char *text, const char *allowed)
{
    size_t bytes;
    if (!tx_size_parse(text, &bytes))
        tx__violate(k->v, "--%s %.60s is not a size; allowed: %s", flag, text, allowed);
    else if (bytes < (size_t)1 << 20 && !text[strspn(text, "0123456789._")])
        tx__violate(k->v, "--%s %.30s is %zu bytes; write %.30sGiB, %.30sGB, %.30sMiB ... or, for bytes, %.30sB", flag,
                    text, bytes, text, text, text, text);
}

static void rule_sizes_have_units(const tx__check *k)
{
    static const char such[] = "a size such as 5GB or 200MB";
    const tx_config *c = k->c;
    const char *limit = c->memory_limit;
    double share;
    if (!k->bad->memory_limit && strcmp(limit, "auto") != 0 && strcmp(limit, "off") != 0 &&
        !tx_share_parse(limit, &share))
        check_size(k, "memory-limit", limit,
                   "auto, off, a size such as 8G, 512M or 1.5GiB, or a share of the memory such as 90% or 0.9");
    if (!k->bad->max_body) check_size(k, "max-body", c->max_body, "a size up to 1GiB, such as 1MiB");
    if (!k->bad->max_shard_size && c->max_shard_size) check_size(k, "max-shard-size", c->max_shard_size, such);
    if (!k->bad->zero_shard_size) check_size(k, "max_shard_size", c->zero_shard_size, such);
}

static void rule_ramp_is_sound(const tx__check *k)
{
    const tx_config *c = k->c;
    tx__ramp r;
    if (!c->rampup_batch_size.n || k->bad->rampup_batch_size || k->bad->global_batch_size || !c->global_batch_size)
        return;
    if (!tx__in_samples(c)) {
        tx__violate(k->v, "expected no batch-size rampup for iteration-based training: --rampup-batch-size needs "
                          "--train-samples");
        return;
    }
    long long micro = (long long)c->micro_batch_size, data = (long long)tx_config_data_parallel(c);
    long long unit = micro * data, global = (long long)c->global_batch_size;
    switch (tx__ramp_of(c, &r)) {
    case TX__RAMP_NUMBERS:
        tx__violate(k->v, "expected the following format: --rampup-batch-size <start batch size> <batch size "
                          "increment> <ramp-up samples>, whole numbers from 1 on");
        return;
    case TX__RAMP_START:
        tx__violate_mendable(k, TX__RAMP | TX__BATCH,
                             "--rampup-batch-size starts with %lld, more than --global-batch-size %lld",
                             (long long)r.start, global);
        return;
    case TX__RAMP_INTERVAL:
        tx__violate_mendable(
            k, TX__RAMP | TX__BATCH,
            "--rampup-batch-size: expected global batch size interval (%lld) to be divisible by global "
            "batch size increment (%lld)",
            (long long)(r.global - r.start), (long long)r.increment);
        return;
    case TX__RAMP_STEPS:
        tx__violate(k->v, "--rampup-batch-size has %lld increments, at most 1000000 are taken: make them larger",
                    (long long)r.n_increments);
        return;
    case TX__RAMP_NONE:
        break;
    }
    long long odd = !unit ? 0 : r.start % unit ? r.start : (r.start + r.increment) % unit ? r.start + r.increment : 0;
    if (odd && tx__layout_is_known(k))
        tx__violate_mendable(k, TX__RAMP | TX__BATCH,
                             "--rampup-batch-size: current global batch size (%lld) is not divisible by "
                             "micro-batch-size (%lld) times data parallel size (%lld)",
                             odd, micro, data);
    else if (!odd && (c->train_samples <= r.samples || c->train_iters < 1))
        tx__violate(k->v, "--train-samples %lld: the run ends before its --rampup-batch-size over %lld samples does",
                    (long long)c->train_samples, (long long)r.samples);
}

static void rule_iterations_or_samples(const tx__check *k)
{
    const tx_config_given *g = k->g;
    const tx_config *c = k->c;
    if (g->train_iters && g->train_samples) {
        tx__violate(k->v, "expected iteration-based training: give --train-iters or --train-samples, not both");
        return;
    }
    bool samples = tx__in_samples(c), iters = !samples;
    if (iters && g->lr_decay_samples)
        tx__violate(k->v, "expected iteration-based learning rate decay: with --train-iters use --lr-decay-iters");
    if (iters && c->lr_warmup_samples)
        tx__violate(k->v, "expected iteration-based learning rate warmup: with --train-iters use --lr-warmup-iters");
    if (iters && c->lr_wsd_decay_samples)
        tx__violate(k->v, "expected iteration-based learning rate decay: with --train-iters use --lr-wsd-decay-iters");
    if (samples && c->lr_wsd_decay_iters)
        tx__violate(k->v, "expected sample-based learning rate decay: with --train-samples use --lr-wsd-decay-samples");
    if (samples && g->lr_decay_iters)
        tx__violate(k->v, "expected sample-based learning rate decay: with --train-samples use --lr-decay-samples");
    if (samples && c->lr_warmup_iters)
        tx__violate(k->v, "expected sample-based learning rate warmup: with --train-samples use --lr-warmup-samples");
    if (samples && !k->bad->global_batch_size && !c->rampup_batch_size.n && c->train_samples < c->global_batch_size)
        tx__violate(k->v, "--train-samples %lld is less than one global batch of %lld", (long long)c->train_samples,
                    (long long)c->global_batch_size);
}

/* Samples are counted in 64 bits; the bounds of single options do not keep their products below that. */
static void rule_samples_can_be_counted(const tx__check *k)
{
    const tx_config *c = k->c;
    double batch = (double)c->global_batch_size, train = (double)c->train_iters * batch;
    double eval = ((double)c->train_iters / (double)c->eval_interval + 1) * (double)c->eval_iters * batch;
    if (train > 1e17) tx__violate(k->v, "the run would read %g samples, more than 1e17: lower --train-iters", train);
    if (eval > 1e17) tx__violate(k->v, "evaluation would read %g samples, more than 1e17: lower --eval-iters", eval);
}

/* ---------------------------------------------------------------- learning rate and weight decay */

static void rule_warmup_is_said_once(const tx__check *k)
{
    if (k->g->lr_warmup_fraction && k->c->lr_warmup_iters)
        tx__violate(k->v, "can only specify one of lr-warmup-fraction and lr-warmup-iters");
    if (k->g->lr_warmup_fraction && k->c->lr_warmup_samples)
        tx__violate(k->v, "can only specify one of lr-warmup-fraction and lr-warmup-samples");
}

/* Upstream lets tokens win without a word where both are given. */
static void rule_tokens_stand_alone(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->lr_warmup_tokens && (c->lr_warmup_iters || c->lr_warmup_samples || k->g->lr_warmup_fraction))
        tx__violate(k->v, "can only specify one of lr-warmup-tokens, lr-warmup-fraction, lr-warmup-iters and "
                          "lr-warmup-samples");
    if (c->lr_decay_tokens && (k->g->lr_decay_iters || k->g->lr_decay_samples))
        tx__violate(k->v, "can only specify one of lr-decay-tokens, lr-decay-iters and lr-decay-samples");
    if (c->lr_decay_tokens && c->lr_warmup_tokens >= c->lr_decay_tokens)
        tx__violate(k->v, "--lr-warmup-tokens %lld: the warm-up must be shorter than the decay span of %lld tokens",
                    (long long)c->lr_warmup_tokens, (long long)c->lr_decay_tokens);
}

static void rule_wsd_has_its_length(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->lr_decay_style || k->bad->lr_wsd_decay_iters || k->bad->lr_wsd_decay_samples) return;
    int64_t length = tx__in_samples(c) ? c->lr_wsd_decay_samples : c->lr_wsd_decay_iters;
    int64_t span = tx__in_samples(c) ? c->lr_decay_samples : c->lr_decay_iters;
    const char *flag = tx__in_samples(c) ? "--lr-wsd-decay-samples" : "--lr-wsd-decay-iters";
    if (c->lr_decay_style != TX_LR_DECAY_WSD) {
        if (length || k->g->lr_wsd_decay_style)
            tx__violate(k->v, "--lr-wsd-decay-style, -iters and -samples need --lr-decay-style WSD");
    } else if (c->lr_decay_tokens) {
        tx__violate(k->v, "--lr-decay-style WSD is counted in iterations or samples; leave --lr-decay-tokens out");
    } else if (!length) {
        tx__violate(k->v, "--lr-decay-style WSD needs %s", flag);
    } else if (span && length > span) {
        tx__violate(k->v, "%s %lld is longer than the whole decay span of %lld", flag, (long long)length,
                    (long long)span);
    }
}

static void rule_warmup_before_decay_ends(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *what = "the warm-up must be shorter than the decay span";
    if (!k->bad->lr_warmup_iters && !k->bad->lr_decay_iters && !k->bad->train_iters && c->lr_decay_iters &&
        !tx__in_samples(c) && c->lr_warmup_iters >= c->lr_decay_iters)
        tx__violate(k->v, "--lr-warmup-iters %lld: %s of %lld iterations", (long long)c->lr_warmup_iters, what,
                    (long long)c->lr_decay_iters);
    if (!k->bad->lr_warmup_samples && !k->bad->lr_decay_samples && !k->bad->train_samples && c->lr_decay_samples &&
        tx__in_samples(c) && c->lr_warmup_samples >= c->lr_decay_samples)
        tx__violate(k->v, "--lr-warmup-samples %lld: %s of %lld samples", (long long)c->lr_warmup_samples, what,
                    (long long)c->lr_decay_samples);
    if (c->lr_warmup_fraction >= 1) tx__violate(k->v, "--lr-warmup-fraction %g: %s", c->lr_warmup_fraction, what);
}

static void rule_min_lr_below_lr(const tx__check *k)
{
    if (!k->g->lr || k->bad->lr || k->bad->min_lr) return;
    if (k->c->min_lr > k->c->lr) tx__violate(k->v, "--min-lr %g is more than --lr %g", k->c->min_lr, k->c->lr);
    if (k->c->lr_warmup_init > k->c->lr && !k->bad->lr_warmup_init)
        tx__violate(k->v, "--lr-warmup-init %g is more than --lr %g", k->c->lr_warmup_init, k->c->lr);
}

static void rule_decoupled_rates_are_rates(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    if (g->decoupled_min_lr && !g->decoupled_lr) tx__violate(k->v, "--decoupled-min-lr needs --decoupled-lr");
    if (!g->decoupled_lr || k->bad->decoupled_lr) return;
    if (c->command->id == TX_COMMAND_ENGINE)
        tx__violate(k->v,
                    "--decoupled-lr is for a GPT and a BERT: which parameters of a client's model are meant is not "
                    "known; give tx_engine_args.group");
    if (g->decoupled_min_lr && !k->bad->decoupled_min_lr && c->decoupled_min_lr > c->decoupled_lr)
        tx__violate(k->v, "--decoupled-min-lr %g is more than --decoupled-lr %g", c->decoupled_min_lr, c->decoupled_lr);
    if (!g->decoupled_min_lr && !k->bad->min_lr && c->min_lr > c->decoupled_lr)
        tx__violate(k->v, "--min-lr %g is more than --decoupled-lr %g: give --decoupled-min-lr", c->min_lr,
                    c->decoupled_lr);
    if (c->lr_warmup_init > c->decoupled_lr && !k->bad->lr_warmup_init)
        tx__violate(k->v, "--lr-warmup-init %g is more than --decoupled-lr %g", c->lr_warmup_init, c->decoupled_lr);
}

static void rule_scheduler_source_is_one(const tx__check *k)
{
    if (k->c->override_opt_param_scheduler && k->c->use_checkpoint_opt_param_scheduler)
        tx__violate(k->v, "both override and use-checkpoint are set: give --override-opt_param-scheduler or "
                          "--use-checkpoint-opt_param-scheduler");
}

static void rule_weight_decay_has_its_ends(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    if (k->bad->weight_decay_incr_style || k->bad->start_weight_decay || k->bad->end_weight_decay) return;
    if (c->weight_decay_incr_style == TX_WD_INCR_CONSTANT) {
        if (g->start_weight_decay || g->end_weight_decay)
            tx__violate(k->v,
                        "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or cosine");
    } else if (!g->start_weight_decay || !g->end_weight_decay) {
        tx__violate(k->v, "--weight-decay-incr-style %s needs --start-weight-decay and --end-weight-decay",
                    tx_wd_incr_style_word(c->weight_decay_incr_style));
    } else if (c->end_weight_decay < c->start_weight_decay) {
        tx__violate(k->v, "--end-weight-decay %g is less than --start-weight-decay %g", c->end_weight_decay,
                    c->start_weight_decay);
    }
}

static void rule_less_than_one(const tx__check *k)
{
    const struct {
        const char *flag;
        double value;
    } all[] = { { "adam-beta1", k->c->adam_beta1 },          { "adam-beta2", k->c->adam_beta2 },
                { "lion-beta1", k->c->lion_beta1 },          { "lion-beta2", k->c->lion_beta2 },
                { "muon-momentum", k->c->muon_momentum },    { "onebit-coeff-beta", k->c->onebit_coeff_beta },
                { "hidden-dropout", k->c->hidden_dropout },  { "attention-dropout", k->c->attention_dropout },
                { "label-smoothing", k->c->label_smoothing } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value >= 1) tx__violate(k->v, "--%s %g must be less than 1", all[i].flag, all[i].value);
}

/* A schedule of another length is none of its steps. */
static void rule_cubic5_has_5_steps(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->muon_coefficient_type || k->bad->muon_num_ns_steps || c->muon_coefficient_type != TX_NS_CUBIC5) return;
    if (c->muon_num_ns_steps != 5)
        tx__violate(k->v, "--muon-coefficient-type cubic5 is of 5 steps, but --muon-num-ns-steps is %lld",
                    (long long)c->muon_num_ns_steps);
}

/* A norm of queries and keys undoes what scales them, and bounds scores by itself. */
static void rule_qk_clip_is_sound(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->qk_clip) {
        if (k->g->qk_clip_threshold) tx__violate(k->v, "--qk-clip-threshold needs --qk-clip");
        if (k->g->qk_clip_alpha) tx__violate(k->v, "--qk-clip-alpha needs --qk-clip");
        return;
    }
    if (!k->bad->qk_clip_threshold && c->qk_clip_threshold <= 0)
        tx__violate(k->v, "--qk-clip-threshold %g must be more than 0", c->qk_clip_threshold);
    if (!k->bad->qk_clip_alpha && (c->qk_clip_alpha <= 0 || c->qk_clip_alpha >= 1))
        tx__violate(k->v, "--qk-clip-alpha %g must be more than 0 and less than 1", c->qk_clip_alpha);
    if (c->optimizer == TX_OPTIMIZER_ZEROONE_ADAM && !k->bad->optimizer)
        tx__violate(
            k->v, "--qk-clip and --optimizer zerooneadam: weights follow from what its ranks have moved, where nothing "
                  "is scaled; choose another optimizer, as muon or adam");
    if (c->qk_layernorm || c->qk_layernorm_whole)
        tx__violate(k->v,
                    "--qk-clip and --qk-layernorm%s: the norm undoes what clipping does to the weights, and keeps "
                    "scores small by itself; leave one out",
                    c->qk_layernorm_whole ? "-whole" : "");
}

static void rule_states_are_adams(const tx__check *k)
{
    if (k->bad->optimizer || !k->c->log_optimizer_states_to_tensorboard ||
        tx_optimizer_traits(k->c->optimizer) & TX_OPTIMIZER_MOMENTS)
        return;
    tx__violate(k->v, "--log-optimizer-states-to-tensorboard shows what Adam holds: not with --optimizer %s",
                tx_optimizer_kind_word(k->c->optimizer));
}

/* What changes an update is of one optimizer; nothing is to be given in vain. */
static void rule_updates_are_of_their_optimizer(const tx__check *k)
{
    const tx_config *c = k->c;
    const bool onebit_lamb = c->optimizer == TX_OPTIMIZER_ONEBIT_LAMB; /* shares flags with two others */
    const struct {
        const char *flag;
        bool given;
        enum tx_optimizer_kind of;
    } all[] = { { "no-decoupled-weight-decay", !c->decoupled_weight_decay, TX_OPTIMIZER_ADAM },
                { "sgd-nesterov", c->sgd_nesterov, TX_OPTIMIZER_SGD },
                { "sgd-dampening", c->sgd_dampening != 0, TX_OPTIMIZER_SGD },
                { "lamb-max-coeff", k->g->lamb_max_coeff && !onebit_lamb, TX_OPTIMIZER_LAMB },
                { "lamb-min-coeff", k->g->lamb_min_coeff && !onebit_lamb, TX_OPTIMIZER_LAMB },
                { "lamb-bias-correction", k->g->lamb_bias_correction, TX_OPTIMIZER_LAMB },
                { "onebit-freeze-step", k->g->onebit_freeze_step && !onebit_lamb, TX_OPTIMIZER_ONEBIT_ADAM },
                { "onebit-coeff-beta", k->g->onebit_coeff_beta, TX_OPTIMIZER_ONEBIT_LAMB },
                { "onebit-factor-max", k->g->onebit_factor_max, TX_OPTIMIZER_ONEBIT_LAMB },
                { "onebit-factor-min", k->g->onebit_factor_min, TX_OPTIMIZER_ONEBIT_LAMB },
                { "onebit-factor-threshold", k->g->onebit_factor_threshold, TX_OPTIMIZER_ONEBIT_LAMB },
                { "var-freeze-step", k->g->var_freeze_step, TX_OPTIMIZER_ZEROONE_ADAM },
                { "var-update-scaler", k->g->var_update_scaler, TX_OPTIMIZER_ZEROONE_ADAM },
                { "local-step-scaler", k->g->local_step_scaler, TX_OPTIMIZER_ZEROONE_ADAM },
                { "local-step-clipper", k->g->local_step_clipper, TX_OPTIMIZER_ZEROONE_ADAM },
                { "lamb-eps-inside-sqrt", c->lamb_eps_inside_sqrt, TX_OPTIMIZER_LAMB },
                { "adafactor-decay-rate", k->g->adafactor_decay_rate, TX_OPTIMIZER_ADAFACTOR },
                { "adafactor-clip-threshold", k->g->adafactor_clip_threshold, TX_OPTIMIZER_ADAFACTOR },
                { "adafactor-eps1", k->g->adafactor_eps1, TX_OPTIMIZER_ADAFACTOR },
                { "adafactor-eps2", k->g->adafactor_eps2, TX_OPTIMIZER_ADAFACTOR },
                { "adafactor-no-scale-parameter", c->adafactor_no_scale_parameter, TX_OPTIMIZER_ADAFACTOR } };
    if (k->bad->optimizer) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && c->optimizer != all[i].of)
            tx__violate(k->v, "--%s is for --optimizer %s, not %s", all[i].flag, tx_optimizer_kind_word(all[i].of),
                        tx_optimizer_kind_word(c->optimizer));
    if (!c->sgd_nesterov || k->bad->sgd_momentum || k->bad->sgd_dampening) return;
    if (c->sgd_momentum == 0) tx__violate(k->v, "--sgd-nesterov needs a --sgd-momentum above 0");
    if (c->sgd_dampening != 0)
        tx__violate(k->v, "--sgd-nesterov and --sgd-dampening %g: Nesterov's momentum is not dampened; leave one out",
                    c->sgd_dampening);
}

static void rule_lamb_has_a_range(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->lamb_max_coeff || k->bad->lamb_min_coeff || c->lamb_min_coeff <= c->lamb_max_coeff) return;
    tx__violate(k->v, "--lamb-min-coeff %g is more than --lamb-max-coeff %g", c->lamb_min_coeff, c->lamb_max_coeff);
}

static void rule_lamb_factors_have_a_range(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->onebit_factor_max || k->bad->onebit_factor_min || c->onebit_factor_min <= c->onebit_factor_max) return;
    tx__violate(k->v, "--onebit-factor-min %g is more than --onebit-factor-max %g", c->onebit_factor_min,
                c->onebit_factor_max);
}

/* Tasks are scored by a decoder, which has the whole of a rank's layers in one piece. */
static void rule_eval_tasks_can_be_scored(const tx__check *k)
{
    const tx_config *c = k->c;
    bool windows = false, lambada = false;
    for (int i = 0; i < c->eval_tasks.n; i++) {
        const char *file;
        enum tx_task_kind task = tx_task_of_item(c->eval_tasks.item[i], &file);
        if (!task)
            tx__violate(k->v,
                        "--eval-tasks %.80s: is not TASK=FILE, with text, WIKITEXT103, LAMBADA or multiple-choice as "
                        "TASK",
                        c->eval_tasks.item[i]);
        windows = windows || tx_task_has_windows(task);
        lambada = lambada || task == TX_TASK_LAMBADA;
    }
    if (k->bad->eval_tasks) return;
    if (k->g->overlapping_eval && !windows)
        tx__violate(k->v, "--overlapping-eval is for --eval-tasks text=FILE and WIKITEXT103=FILE");
    if (c->strict_lambada && !lambada) tx__violate(k->v, "--strict-lambada is for --eval-tasks LAMBADA=FILE");
    if (!c->eval_tasks.n) return;
    if (c->zero_stage == 3)
        tx__violate_mendable(k, TX__ZERO,
                             "--eval-tasks needs a rank's parameters whole, with --zero-stage 3 they are not; triax "
                             "evaluate does the same on checkpoints");
    if (tx_config_chunks(c) > 1)
        tx__violate_mendable(k, TX__NO_VIRTUAL | TX__VIRTUAL,
                             "--eval-tasks does not know interleaved pipelines, which "
                             "--num-layers-per-virtual-pipeline-stage makes; triax evaluate does the same on "
                             "checkpoints");
}

/* The loss of a user-defined model is its own program's. */
static void rule_engine_has_its_own_loss(const tx__check *k)
{
    const struct {
        const char *flag;
        double value;
        bool bad;
    } all[] = { { "label-smoothing", k->c->label_smoothing, k->bad->label_smoothing },
                { "z-loss-weight", k->c->z_loss_weight, k->bad->z_loss_weight } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i].bad && all[i].value > 0)
            tx__violate(k->v,
                        "--%s %g is of the losses of GPT and BERT: a user-defined model computes its own, leave it out",
                        all[i].flag, all[i].value);
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_run[] = {
    { "training", rule_micro_divides_global },
    { "training", rule_ramp_is_sound },
    { "training", rule_iterations_or_samples },
    { "training", rule_samples_can_be_counted },
    { "inspect-samples", rule_micro_divides_global },
    { "inspect-samples", rule_ramp_is_sound },
    { "inspect-samples", rule_iterations_or_samples },
    { "inspect-samples", rule_samples_can_be_counted },
    { "training", rule_warmup_is_said_once },
    { "training", rule_tokens_stand_alone },
    { "training", rule_wsd_has_its_length },
    { "training", rule_warmup_before_decay_ends },
    { "training", rule_min_lr_below_lr },
    { "training", rule_decoupled_rates_are_rates },
    { "training", rule_scheduler_source_is_one },
    { "training", rule_weight_decay_has_its_ends },
    { "training", rule_states_are_adams },
    { "training", rule_updates_are_of_their_optimizer },
    { "training", rule_lamb_has_a_range },
    { "training", rule_lamb_factors_have_a_range },
    { "training", rule_less_than_one },
    { "training", rule_cubic5_has_5_steps },
    { "training", rule_qk_clip_is_sound },
    { NULL, rule_sizes_have_units },
    { NULL, tx__check_profile },
    { "pretrain", rule_eval_tasks_can_be_scored },
    { "engine", rule_engine_has_its_own_loss },
    { NULL, rule_skipped_ranges_are_ranges },
    { NULL, NULL },
};
