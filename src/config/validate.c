/* validate.c - what follows from other options, and the rules across options: one named function per rule, all of them
 * run, all violations told. Bounds of a single option are in options.def. Where upstream has words for it, they are
 * here.
 *
 *  A rule reads k->c (values), k->c->given (typed by the user) and k->bad (typed, but could not be read: its value says
 *  nothing, and the user hears about it anyway). Numbers that are 0 are not known: shape before a checkpoint is read.
 */
#include <math.h>
#include <string.h>

#include "config/options.h"

enum { MAX_DATASETS = 254 }; /* of one blend, as upstream */

struct check {
    const tx_config *c;
    const tx_config_given *g, *bad;
    tx_violations *v;
};

/* ---------------------------------------------------------------- derived values */

/* The length of a run is in iterations or in samples, and so are decay span and warm-up. */
static bool in_samples(const tx_config *c)
{
    return c->train_samples && !c->given.train_iters;
}

void tx__config_derive(tx_config *c)
{
    const tx_config_given *g = &c->given;
    if (!c->global_batch_size) c->global_batch_size = c->micro_batch_size;
    if (!c->ffn_hidden_size) c->ffn_hidden_size = c->swiglu ? 8 * c->hidden_size / 3 / 64 * 64 : 4 * c->hidden_size;
    if (c->group_query_attention && !g->num_key_value_heads) {
        c->num_key_value_heads = c->num_query_groups;
        c->given.num_key_value_heads = true; /* a checkpoint with another number is told, not taken */
    }
    if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
    if (!c->kv_channels && c->num_attention_heads && c->hidden_size % c->num_attention_heads == 0)
        c->kv_channels = c->hidden_size / c->num_attention_heads;
    if (c->use_rotary_position_embeddings) c->add_position_embedding = false;
    if (in_samples(c)) {
        tx__ramp ramp;
        bool sound = tx__ramp_of(c, &ramp) == TX__RAMP_NONE && c->global_batch_size;
        if (sound) c->train_iters = tx__ramp_iterations(&ramp, c->train_samples);
        if (!c->lr_decay_samples) c->lr_decay_samples = c->train_samples;
    } else if (!c->lr_decay_iters) {
        c->lr_decay_iters = c->train_iters;
    }
    if (!strcmp(c->weight_decay_incr_style, "constant")) {
        if (!g->start_weight_decay) c->start_weight_decay = c->weight_decay;
        if (!g->end_weight_decay) c->end_weight_decay = c->weight_decay;
    }
}

int64_t tx_config_rotary_dim(const tx_config *cfg)
{
    return (int64_t)((double)cfg->kv_channels * cfg->rotary_percent);
}

tx_recompute tx_config_recompute(const tx_config *cfg)
{
    const char *granularity = cfg->recompute_granularity;
    int64_t all = cfg->num_layers, n = cfg->recompute_num_layers;
    if (cfg->checkpoint_activations) return (tx_recompute){ .n_layers = all, .group = cfg->checkpoint_num_layers };
    if (cfg->recompute_activations || (granularity && !strcmp(granularity, "selective")))
        return (tx_recompute){ .selective = true };
    if (!granularity) return (tx_recompute){ 0 };
    if (!strcmp(cfg->recompute_method, "uniform")) return (tx_recompute){ .n_layers = all, .group = n };
    return (tx_recompute){ .n_layers = n < all ? n : all, .group = 1 };
}

/* ---------------------------------------------------------------- what must be there */

static bool names_weighted(const tx_config_given *g)
{
    return g->train_weighted_split_paths || g->train_weighted_split_paths_path || g->valid_weighted_split_paths ||
           g->valid_weighted_split_paths_path || g->test_weighted_split_paths || g->test_weighted_split_paths_path;
}

static void need(const struct check *k, bool have, const char *flag)
{
    if (!have) tx__violate(k->v, "%s needs --%s", k->c->command->name, flag);
}

/* --data-path, or the data of a split apart. */
static bool names_data(const struct check *k)
{
    const tx_config_given *g = k->g;
    return g->data_path || k->c->data_path.n || g->train_data_path || g->valid_data_path || g->test_data_path ||
           names_weighted(g);
}

/* `plan` runs nothing: it needs neither data nor a length. */
static bool plans_only(const struct check *k)
{
    return !strcmp(k->c->command->name, "plan");
}

static void rule_training_has_its_sizes(const struct check *k)
{
    need(k, k->g->micro_batch_size || k->c->micro_batch_size, "micro-batch-size");
    need(k, k->g->seq_length || k->c->seq_length, "seq-length");
    if (plans_only(k)) return;
    need(k, k->g->lr || k->c->lr > 0, "lr");
    need(k, names_data(k), "data-path");
    if (!k->g->train_iters && !k->g->train_samples && !k->c->train_iters)
        tx__violate(k->v, "either train-iters or train-samples should be provided: pretrain-gpt needs --train-iters");
}

static void rule_training_has_a_shape(const struct check *k)
{
    const tx_config *c = k->c;
    if (c->load) return;
    need(k, k->g->num_layers || c->num_layers, "num-layers");
    need(k, k->g->hidden_size || c->hidden_size, "hidden-size");
    need(k, k->g->num_attention_heads || c->num_attention_heads, "num-attention-heads");
    need(k, k->g->max_position_embeddings || c->max_position_embeddings, "max-position-embeddings");
}

static void rule_preprocess_has_files(const struct check *k)
{
    need(k, k->g->input || k->c->input.n, "input");
    need(k, k->c->output_prefix || k->g->output_prefix, "output-prefix");
}

/* Upstream gives every part the same number of workers. */
static void rule_partitions_divide_workers(const struct check *k)
{
    if (k->bad->partitions || k->bad->workers || k->c->workers % k->c->partitions == 0) return;
    tx__violate(k->v, "--workers %lld is not divisible by --partitions %lld; give a multiple of it",
                (long long)k->c->workers, (long long)k->c->partitions);
}

static void rule_train_tokenizer_has_files(const struct check *k)
{
    need(k, k->g->input || k->c->input.n, "input");
    need(k, k->g->train_vocab_size || k->c->train_vocab_size, "vocab-size");
    need(k, k->c->output_dir || k->g->output_dir, "output-dir");
    if (k->g->limit_alphabet && !strcmp(k->c->train_tokenizer_type, "GPT2BPETokenizer") &&
        !k->bad->train_tokenizer_type)
        tx__violate(k->v,
                    "--limit-alphabet is for BERT's WordPiece: the alphabet of GPT2BPETokenizer is the 256 bytes; "
                    "leave the flag out, or give --tokenizer-type");
}

static void rule_merge_has_files(const struct check *k)
{
    bool dir = k->g->merge_input || k->c->merge_input, list = k->g->datasets || k->c->datasets.n;
    if (!dir && !list) tx__violate(k->v, "merge-datasets needs --input or --datasets");
    if (dir && list) tx__violate(k->v, "--input and --datasets: give one of the two");
    need(k, k->c->merge_output_prefix || k->g->merge_output_prefix, "output-prefix");
}

static void rule_inspect_has_a_path(const struct check *k)
{
    if (!k->g->inspect_input && !k->c->inspect_input)
        tx__violate(k->v, "inspect needs a path: triax inspect PATH, or --input PATH");
}

static void rule_replay_has_a_file(const struct check *k)
{
    if (!k->c->replay_file && !k->bad->replay_file)
        tx__violate(k->v, "replay needs a file: triax replay FILE, the replay-iteration-N.json that a run left");
}

static void rule_report_has_runs(const struct check *k)
{
    if (!k->c->runs.n && !k->bad->runs)
        tx__violate(k->v, "report needs runs: triax report RUN ..., folders of --save or metrics files");
}

/* What the order of samples depends on; all else of a run may be left out. */
static void rule_samples_have_their_sizes(const struct check *k)
{
    const tx_config *c = k->c;
    need(k, names_data(k), "data-path");
    need(k, k->g->seq_length || c->seq_length, "seq-length");
    if (!k->g->train_iters && !k->g->train_samples && !c->train_iters && !c->train_samples)
        tx__violate(k->v, "inspect-samples needs --train-iters or --train-samples: the order of samples follows from "
                          "the length of the run");
    if (!k->g->micro_batch_size && !k->g->global_batch_size && !c->global_batch_size)
        tx__violate(k->v, "inspect-samples needs --global-batch-size or --micro-batch-size");
}

static void rule_no_bert_index(const struct check *k)
{
    if (k->g->train_idx_path)
        tx__violate(k->v, "--train-idx-path is the index of a BERT dataset; for a GPT give --train-doc-idx-path, "
                          "--train-sample-idx-path and --train-shuffle-idx-path");
}

/* BERT's pairs and masks need its tokenizer; what concerns ends of documents and positions is of a GPT. */
static void rule_samples_are_of_one_model(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->model_type || k->bad->tokenizer_type) return;
    if (!strcmp(c->model_type, "GPT")) {
        rule_no_bert_index(k);
        if (k->g->mask_prob || k->g->short_seq_prob || k->g->bert_binary_head)
            tx__violate(k->v, "--mask-prob, --short-seq-prob and --bert-no-binary-head need --model-type BERT");
        return;
    }
    if (strncmp(c->tokenizer_type, "BertWordPiece", 13) || (!c->vocab_file && !k->g->vocab_file))
        tx__violate(k->v, "--model-type BERT needs --tokenizer-type BertWordPieceLowerCase or BertWordPieceCase, and "
                          "--vocab-file");
    if (!k->bad->data_order && strcmp(c->data_order, "microsoft"))
        tx__violate(k->v, "--model-type BERT has one order of samples, Megatron's: leave --data-order %s out",
                    c->data_order);
    if (k->g->train_doc_idx_path || k->g->train_sample_idx_path || k->g->train_shuffle_idx_path ||
        k->g->train_data_exact_num_epochs)
        tx__violate(k->v, "--model-type BERT has no such index: leave --train-doc-idx-path, --train-sample-idx-path, "
                          "--train-shuffle-idx-path and --train-data-exact-num-epochs out");
    if (c->eod_mask_loss || c->reset_position_ids || c->reset_attention_mask)
        tx__violate(k->v,
                    "--model-type BERT: --eod-mask-loss, --reset-position-ids and --reset-attention-mask are of a "
                    "GPT, leave them out");
}

static void rule_evaluate_has_files(const struct check *k)
{
    need(k, k->c->load || k->g->load, "load");
    need(k, k->g->data_path || k->c->data_path.n, "data-path");
    if (k->g->eval_iters && !k->bad->eval_iters && !k->c->eval_iters)
        tx__violate(k->v, "--eval-iters 0 evaluates nothing; leave it out for every sample");
}

static void rule_generate_has_prompts(const struct check *k)
{
    need(k, k->c->load || k->g->load, "load");
    bool list = k->g->prompt || k->c->prompt.n, file = k->g->prompt_file || k->c->prompt_file;
    if (!list && !file) tx__violate(k->v, "generate needs --prompt or --prompt-file");
    if (list && file) tx__violate(k->v, "--prompt and --prompt-file: give one of the two");
}

/* ---------------------------------------------------------------- model */

static void rule_heads_have_a_width(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->hidden_size || k->bad->num_attention_heads || k->bad->kv_channels || c->kv_channels) return;
    if (c->hidden_size && c->num_attention_heads)
        tx__violate(k->v, "--hidden-size %lld is not divisible by --num-attention-heads %lld; give --kv-channels",
                    (long long)c->hidden_size, (long long)c->num_attention_heads);
}

static void rule_key_heads_divide_heads(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->num_attention_heads || k->bad->num_key_value_heads || !c->num_attention_heads) return;
    if (c->num_attention_heads % c->num_key_value_heads)
        tx__violate(k->v, "--num-attention-heads %lld is not divisible by --num-key-value-heads %lld",
                    (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
}

static void rule_query_groups_are_key_heads(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->num_query_groups || k->bad->num_key_value_heads) return;
    if (!c->group_query_attention && k->g->num_query_groups)
        tx__violate(k->v, "--num-query-groups %lld needs --group-query-attention; or give --num-key-value-heads alone",
                    (long long)c->num_query_groups);
    else if (c->group_query_attention && c->num_key_value_heads != c->num_query_groups)
        tx__violate(k->v,
                    "--num-key-value-heads %lld, but --group-query-attention has --num-query-groups %lld: two names of "
                    "one number, give one of them",
                    (long long)c->num_key_value_heads, (long long)c->num_query_groups);
}

static void rule_activation_is_one(const struct check *k)
{
    const tx_config *c = k->c;
    if (c->openai_gelu + c->squared_relu + c->swiglu + (c->glu_activation != NULL) > 1)
        tx__violate(k->v, "--openai-gelu, --squared-relu, --swiglu and --glu-activation: give one of the four");
    if (c->glu_activation && c->bias_gelu_fusion)
        tx__violate(k->v, "if glu-activation is used, please set --no-bias-gelu-fusion");
    if (c->swiglu && c->hidden_size && !c->ffn_hidden_size && !k->bad->hidden_size && !k->bad->ffn_hidden_size)
        tx__violate(k->v, "--swiglu: 8/3 of --hidden-size %lld is less than 64; give --ffn-hidden-size",
                    (long long)c->hidden_size);
}

static void rule_precision_is_one(const struct check *k)
{
    const tx_config *c = k->c;
    if (c->fp16 && c->bf16) tx__violate(k->v, "--fp16 and --bf16: give one of the two");
    if (c->fp32_residual_connection && !c->fp16 && !c->bf16)
        tx__violate(k->v, "--fp32-residual-connection needs --fp16 or --bf16: in fp32 it always is");
    if (c->fp16 && c->initial_loss_scale < c->min_loss_scale && !k->bad->initial_loss_scale && !k->bad->min_loss_scale)
        tx__violate(k->v, "--initial-loss-scale %g is below --min-loss-scale %g", c->initial_loss_scale,
                    c->min_loss_scale);
    if (c->loss_scale_window != floor(c->loss_scale_window))
        tx__violate(k->v, "--loss-scale-window %g is not a whole number", c->loss_scale_window);
}

static void rule_one_is_added_by_layernorm(const struct check *k)
{
    if (k->bad->normalization || !k->c->apply_layernorm_1p || !strcmp(k->c->normalization, "layernorm")) return;
    tx__violate(k->v, "--apply-layernorm-1p is for layer normalisation: leave it out with --normalization %s",
                k->c->normalization);
}

static void rule_rotation_has_pairs(const struct check *k)
{
    const tx_config *c = k->c;
    bool said = k->g->rotary_percent || k->g->rope_theta;
    if (said && !c->use_rotary_position_embeddings && !c->load && !k->g->load)
        tx__violate(k->v, "--rotary-percent and --rotary-position-embeddings-theta need "
                          "--use-rotary-position-embeddings");
    if (!c->use_rotary_position_embeddings || k->bad->rotary_percent || k->bad->kv_channels || !c->kv_channels) return;
    int64_t n = tx_config_rotary_dim(c);
    if (n < 2 || n % 2)
        tx__violate(k->v, "--rotary-percent %g of a head's width %lld is %lld, which has to be even and at least 2",
                    c->rotary_percent, (long long)c->kv_channels, (long long)n);
}

static void rule_positions_reach(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->seq_length || k->bad->max_position_embeddings || !c->seq_length || !c->max_position_embeddings) return;
    if (c->seq_length > c->max_position_embeddings)
        tx__violate(k->v, "--seq-length %lld is more than --max-position-embeddings %lld", (long long)c->seq_length,
                    (long long)c->max_position_embeddings);
}

/* ---------------------------------------------------------------- batch and length of the run */

static void rule_micro_divides_global(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->global_batch_size || k->bad->micro_batch_size || !c->global_batch_size || !c->micro_batch_size) return;
    if (c->global_batch_size % c->micro_batch_size)
        tx__violate(k->v,
                    "global batch size (%lld) is not divisible by micro batch size (%lld) times data parallel size (1)",
                    (long long)c->global_batch_size, (long long)c->micro_batch_size);
}

static void rule_skipped_ranges_are_ranges(const struct check *k)
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
    if (l->n && !strcmp(k->c->command->name, "inspect-samples"))
        tx__violate(k->v, "inspect-samples shows the data in its order: leave --skip-train-iteration-range out");
}

static void rule_memory_limit_is_a_size(const struct check *k)
{
    const char *limit = k->c->memory_limit;
    size_t bytes;
    if (k->bad->memory_limit || !strcmp(limit, "auto") || !strcmp(limit, "off") || tx_size_parse(limit, &bytes)) return;
    tx__violate(k->v, "--memory-limit %.60s is not a size; allowed: auto, off, or a size such as 8G, 512M or 1.5GiB",
                limit);
}

static void rule_ramp_is_sound(const struct check *k)
{
    const tx_config *c = k->c;
    tx__ramp r;
    if (!c->rampup_batch_size.n || k->bad->rampup_batch_size || k->bad->global_batch_size || !c->global_batch_size)
        return;
    if (!in_samples(c)) {
        tx__violate(k->v, "expected no batch-size rampup for iteration-based training: --rampup-batch-size needs "
                          "--train-samples");
        return;
    }
    long long micro = (long long)c->micro_batch_size, global = (long long)c->global_batch_size;
    switch (tx__ramp_of(c, &r)) {
    case TX__RAMP_NUMBERS:
        tx__violate(k->v, "expected the following format: --rampup-batch-size <start batch size> <batch size "
                          "increment> <ramp-up samples>, whole numbers from 1 on");
        return;
    case TX__RAMP_START:
        tx__violate(k->v, "--rampup-batch-size starts with %lld, more than --global-batch-size %lld",
                    (long long)r.start, global);
        return;
    case TX__RAMP_INTERVAL:
        tx__violate(k->v,
                    "--rampup-batch-size: expected global batch size interval (%lld) to be divisible by global batch "
                    "size increment (%lld)",
                    (long long)(r.global - r.start), (long long)r.increment);
        return;
    case TX__RAMP_STEPS:
        tx__violate(k->v, "--rampup-batch-size has %lld increments, at most 1000000 are taken: make them larger",
                    (long long)r.n_increments);
        return;
    case TX__RAMP_NONE:
        break;
    }
    long long odd = !micro                            ? 0
                    : r.start % micro                 ? r.start
                    : (r.start + r.increment) % micro ? r.start + r.increment
                                                      : 0;
    if (odd)
        tx__violate(k->v,
                    "--rampup-batch-size: current global batch size (%lld) is not divisible by micro-batch-size (%lld) "
                    "times data parallel size (1)",
                    odd, micro);
    else if (c->train_samples <= r.samples || c->train_iters < 1)
        tx__violate(k->v, "--train-samples %lld: the run ends before its --rampup-batch-size over %lld samples does",
                    (long long)c->train_samples, (long long)r.samples);
}

static void rule_iterations_or_samples(const struct check *k)
{
    const tx_config_given *g = k->g;
    const tx_config *c = k->c;
    if (g->train_iters && g->train_samples) {
        tx__violate(k->v, "expected iteration-based training: give --train-iters or --train-samples, not both");
        return;
    }
    bool samples = in_samples(c), iters = !samples;
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
static void rule_samples_can_be_counted(const struct check *k)
{
    const tx_config *c = k->c;
    double batch = (double)c->global_batch_size, train = (double)c->train_iters * batch;
    double eval = ((double)c->train_iters / (double)c->eval_interval + 1) * (double)c->eval_iters * batch;
    if (train > 1e17) tx__violate(k->v, "the run would read %g samples, more than 1e17: lower --train-iters", train);
    if (eval > 1e17) tx__violate(k->v, "evaluation would read %g samples, more than 1e17: lower --eval-iters", eval);
}

/* ---------------------------------------------------------------- learning rate and weight decay */

static void rule_warmup_is_said_once(const struct check *k)
{
    if (k->g->lr_warmup_fraction && k->c->lr_warmup_iters)
        tx__violate(k->v, "can only specify one of lr-warmup-fraction and lr-warmup-iters");
    if (k->g->lr_warmup_fraction && k->c->lr_warmup_samples)
        tx__violate(k->v, "can only specify one of lr-warmup-fraction and lr-warmup-samples");
}

/* Upstream lets tokens win without a word where both are given. */
static void rule_tokens_stand_alone(const struct check *k)
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

static void rule_wsd_has_its_length(const struct check *k)
{
    const tx_config *c = k->c;
    if (k->bad->lr_decay_style || k->bad->lr_wsd_decay_iters || k->bad->lr_wsd_decay_samples) return;
    int64_t length = in_samples(c) ? c->lr_wsd_decay_samples : c->lr_wsd_decay_iters;
    int64_t span = in_samples(c) ? c->lr_decay_samples : c->lr_decay_iters;
    const char *flag = in_samples(c) ? "--lr-wsd-decay-samples" : "--lr-wsd-decay-iters";
    if (strcmp(c->lr_decay_style, "WSD")) {
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

static void rule_warmup_before_decay_ends(const struct check *k)
{
    const tx_config *c = k->c;
    const char *what = "the warm-up must be shorter than the decay span";
    if (!k->bad->lr_warmup_iters && !k->bad->lr_decay_iters && !k->bad->train_iters && c->lr_decay_iters &&
        !in_samples(c) && c->lr_warmup_iters >= c->lr_decay_iters)
        tx__violate(k->v, "--lr-warmup-iters %lld: %s of %lld iterations", (long long)c->lr_warmup_iters, what,
                    (long long)c->lr_decay_iters);
    if (!k->bad->lr_warmup_samples && !k->bad->lr_decay_samples && !k->bad->train_samples && c->lr_decay_samples &&
        in_samples(c) && c->lr_warmup_samples >= c->lr_decay_samples)
        tx__violate(k->v, "--lr-warmup-samples %lld: %s of %lld samples", (long long)c->lr_warmup_samples, what,
                    (long long)c->lr_decay_samples);
    if (c->lr_warmup_fraction >= 1) tx__violate(k->v, "--lr-warmup-fraction %g: %s", c->lr_warmup_fraction, what);
}

static void rule_min_lr_below_lr(const struct check *k)
{
    if (!k->g->lr || k->bad->lr || k->bad->min_lr) return;
    if (k->c->min_lr > k->c->lr) tx__violate(k->v, "--min-lr %g is more than --lr %g", k->c->min_lr, k->c->lr);
    if (k->c->lr_warmup_init > k->c->lr && !k->bad->lr_warmup_init)
        tx__violate(k->v, "--lr-warmup-init %g is more than --lr %g", k->c->lr_warmup_init, k->c->lr);
}

static void rule_scheduler_source_is_one(const struct check *k)
{
    if (k->c->override_opt_param_scheduler && k->c->use_checkpoint_opt_param_scheduler)
        tx__violate(k->v, "both override and use-checkpoint are set: give --override-opt_param-scheduler or "
                          "--use-checkpoint-opt_param-scheduler");
}

static void rule_weight_decay_has_its_ends(const struct check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    if (k->bad->weight_decay_incr_style || k->bad->start_weight_decay || k->bad->end_weight_decay) return;
    if (!strcmp(c->weight_decay_incr_style, "constant")) {
        if (g->start_weight_decay || g->end_weight_decay)
            tx__violate(k->v,
                        "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or cosine");
    } else if (!g->start_weight_decay || !g->end_weight_decay) {
        tx__violate(k->v, "--weight-decay-incr-style %s needs --start-weight-decay and --end-weight-decay",
                    c->weight_decay_incr_style);
    } else if (c->end_weight_decay < c->start_weight_decay) {
        tx__violate(k->v, "--end-weight-decay %g is less than --start-weight-decay %g", c->end_weight_decay,
                    c->start_weight_decay);
    }
}

static void rule_less_than_one(const struct check *k)
{
    const struct {
        const char *flag;
        double value;
    } all[] = { { "adam-beta1", k->c->adam_beta1 },
                { "adam-beta2", k->c->adam_beta2 },
                { "hidden-dropout", k->c->hidden_dropout },
                { "attention-dropout", k->c->attention_dropout },
                { "label-smoothing", k->c->label_smoothing } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value >= 1) tx__violate(k->v, "--%s %g must be less than 1", all[i].flag, all[i].value);
}

static void rule_states_are_adams(const struct check *k)
{
    if (k->bad->optimizer || !k->c->log_optimizer_states_to_tensorboard || !strcmp(k->c->optimizer, "adam")) return;
    tx__violate(k->v, "--log-optimizer-states-to-tensorboard shows what Adam holds: not with --optimizer %s",
                k->c->optimizer);
}

/* ---------------------------------------------------------------- recomputation */

/* The number of layers at its default of 1 says nothing, as upstream: scripts have it beside no recomputation. */
static void rule_recomputation_is_whole(const struct check *k)
{
    const tx_config *c = k->c;
    const char *granularity = c->recompute_granularity, *method = c->recompute_method;
    if (k->bad->recompute_granularity || k->bad->recompute_method) return;
    bool full = granularity && !strcmp(granularity, "full");
    if (c->checkpoint_activations && (granularity || method || c->recompute_activations))
        tx__violate(k->v, "--checkpoint-activations is --recompute-granularity full --recompute-method uniform "
                          "already: leave --recompute-activations, --recompute-granularity and --recompute-method out");
    else if (full && c->recompute_activations)
        tx__violate(k->v, "--recompute-activations is --recompute-granularity selective, but full is given: give one "
                          "of the two");
    else if (full && !method)
        tx__violate(k->v, "--recompute-granularity full needs --recompute-method uniform or block");
    else if (method && !full && (granularity || c->recompute_activations))
        tx__violate(k->v,
                    "--recompute-method %s: recompute method is not yet supported for selective recomputing "
                    "granularity; leave it out, or give --recompute-granularity full",
                    method);
    else if (method && !full)
        tx__violate(k->v, "--recompute-method %s needs --recompute-granularity full", method);
    if (!full && c->recompute_num_layers != 1)
        tx__violate(k->v, "--recompute-num-layers %lld needs --recompute-granularity full and --recompute-method",
                    (long long)c->recompute_num_layers);
    if (!c->checkpoint_activations && c->checkpoint_num_layers != 1)
        tx__violate(k->v, "--checkpoint-num-layers %lld needs --checkpoint-activations",
                    (long long)c->checkpoint_num_layers);
}

/* ---------------------------------------------------------------- files */

static void rule_save_has_an_interval(const struct check *k)
{
    if (k->c->save && !k->g->save_interval && !k->c->save_interval) tx__violate(k->v, "--save needs --save-interval");
}

static void rule_missing_checkpoint_has_a_name(const struct check *k)
{
    if (k->c->exit_on_missing_checkpoint && !k->c->load) tx__violate(k->v, "--exit-on-missing-checkpoint needs --load");
}

static void rule_finetune_has_a_checkpoint(const struct check *k)
{
    if (k->c->load || k->g->load) return;
    if (k->c->finetune) tx__violate(k->v, "--finetune needs --load");
    if (k->c->reset_iteration) tx__violate(k->v, "--reset-iteration needs --load");
}

static void one_or_pairs(const struct check *k, const char *flag, const tx_list *l)
{
    double weight, sum = 0;
    if (l->n <= 1) return;
    if (l->n % 2) {
        tx__violate(k->v, "--%s has %d values: one prefix, or pairs of weight and prefix", flag, l->n);
        return;
    }
    if (l->n / 2 > MAX_DATASETS) {
        tx__violate(k->v, "--%s has %d datasets, at most %d can be blended", flag, l->n / 2, MAX_DATASETS);
        return;
    }
    for (int i = 0; i < l->n; i += 2) {
        if (!tx__number_parse(l->item[i], &weight)) {
            tx__violate(k->v, "--%s: %.60s stands where a weight should, before %.60s", flag, l->item[i],
                        l->item[i + 1]);
            return;
        }
        if (weight < 0) {
            tx__violate(k->v, "--%s: the weight %.60s of %.60s is negative; weights are at least 0", flag, l->item[i],
                        l->item[i + 1]);
            return;
        }
        sum += weight;
    }
    if (!(sum > 0 && sum < 1e300))
        tx__violate(k->v, "--%s: the weights have the sum %g, it must be above 0", flag, sum);
}

static void rule_datasets_are_one_or_pairs(const struct check *k)
{
    one_or_pairs(k, "data-path", &k->c->data_path);
    one_or_pairs(k, "train-data-path", &k->c->train_data_path);
    one_or_pairs(k, "valid-data-path", &k->c->valid_data_path);
    one_or_pairs(k, "test-data-path", &k->c->test_data_path);
}

static void rule_data_is_divided_or_apart(const struct check *k)
{
    const tx_config_given *g = k->g;
    bool valid = g->valid_data_path;
    if (g->data_path && (g->train_data_path || valid || g->test_data_path))
        tx__violate(k->v, "--data-path with --split, or --train-data-path, --valid-data-path and --test-data-path: "
                          "give one of the two");
    else if (!g->train_data_path && (valid || g->test_data_path))
        tx__violate(k->v, "--%s-data-path needs --train-data-path", valid ? "valid" : "test");
    else if (g->train_data_path && g->split)
        tx__violate(k->v, "--split divides --data-path, but --train-data-path is used whole: leave --split out");
}

static void rule_weighted_splits_stand_alone(const struct check *k)
{
    const tx_config_given *g = k->g;
    if (!names_weighted(g)) return;
    if (g->data_path || g->train_data_path || g->split)
        tx__violate(k->v,
                    "Data loading Mode 1: --data-path and --split and Mode 2: "
                    "--(train|valid|test)-weighted-split-paths are mutually exclusive i.e. cannot be set together");
    if (!g->train_weighted_split_paths && !g->train_weighted_split_paths_path)
        tx__violate(k->v, "--valid-weighted-split-paths and --test-weighted-split-paths need "
                          "--train-weighted-split-paths");
    if ((g->train_weighted_split_paths && g->train_weighted_split_paths_path) ||
        (g->valid_weighted_split_paths && g->valid_weighted_split_paths_path) ||
        (g->test_weighted_split_paths && g->test_weighted_split_paths_path))
        tx__violate(k->v, "--...-weighted-split-paths and --...-weighted-split-paths-path: give one of the two");
}

static void rule_data_folder_has_data_path(const struct check *k)
{
    if (k->g->aml_data_download_path && !k->g->data_path)
        tx__violate(k->v, "--aml-data-download-path stands before the prefixes of --data-path, which is not given");
}

/* The three files of an index belong together and to one dataset. */
static void rule_index_files_are_three(const struct check *k)
{
    const tx_config_given *g = k->g;
    const tx_config *c = k->c;
    int n = g->train_doc_idx_path + g->train_sample_idx_path + g->train_shuffle_idx_path;
    if (!n && !g->train_idx_path) return;
    if (n % 3)
        tx__violate(k->v, "--train-doc-idx-path, --train-sample-idx-path and --train-shuffle-idx-path: give all three, "
                          "or none");
    if (c->data_path.n > 1 || c->train_data_path.n > 1 || names_weighted(g))
        tx__violate(k->v, "%s is the index of one dataset, not of a blend",
                    n ? "--train-doc-idx-path" : "--train-idx-path");
    if (n && g->train_data_exact_num_epochs)
        tx__violate(k->v, "--train-data-exact-num-epochs says how an index is made, --train-doc-idx-path gives one: "
                          "leave one of the two out");
}

static void rule_keyed_order_stands_alone(const struct check *k)
{
    const tx_config_given *g = k->g;
    if (k->bad->data_order || strcmp(k->c->data_order, "keyed")) return;
    if (g->train_doc_idx_path || g->train_sample_idx_path || g->train_shuffle_idx_path ||
        g->train_data_exact_num_epochs)
        tx__violate(k->v, "--data-order keyed has no index: leave --train-doc-idx-path, --train-sample-idx-path, "
                          "--train-shuffle-idx-path and --train-data-exact-num-epochs out");
    if (!k->bad->dataloader_type && !strcmp(k->c->dataloader_type, "cyclic"))
        tx__violate(k->v, "--data-order keyed is another order in each epoch already: use --dataloader-type single");
}

static void rule_evaluated_blend_has_a_length(const struct check *k)
{
    if (k->c->data_path.n > 1 && !k->g->eval_iters)
        tx__violate(k->v, "--data-path is a blend, which has no end: say with --eval-iters how much to evaluate");
}

static void rule_dump_step_is_a_step(const struct check *k)
{
    const tx_list *l = &k->c->dump_step;
    int64_t step;
    if (l->n == 2 && (!tx__integer_parse(l->item[0], &step) || step < 1))
        tx__violate(k->v, "--dump-step %.60s is not a step; it takes a step from 1 on and a folder", l->item[0]);
}

/* A checkpoint of triax knows its tokenizer, so the commands that read one may leave the files out. */
static void rule_tokenizer_has_its_files(const struct check *k)
{
    const tx_config *c = k->c;
    /* the files may lie beside the checkpoint, or are not needed */
    bool optional = c->load || plans_only(k) || strcmp(c->command->name, "evaluate") == 0 ||
                    strcmp(c->command->name, "generate") == 0 || strncmp(c->command->name, "inspect", 7) == 0;
    bool vocab = c->vocab_file || k->g->vocab_file, merge = c->merge_file || k->g->merge_file;
    bool model = c->tokenizer_model || k->g->tokenizer_model;
    const char *type = c->tokenizer_type;
    if (k->bad->tokenizer_type) return;
    if (!strcmp(type, "NullTokenizer")) {
        if (!c->vocab_size && !k->g->vocab_size && !optional) tx__violate(k->v, "NullTokenizer needs --vocab-size");
    } else if (!strcmp(type, "BertWordPieceLowerCase") || !strcmp(type, "BertWordPieceCase")) {
        if (!vocab && !optional) tx__violate(k->v, "%s needs --vocab-file", type);
    } else if (!strcmp(type, "HFTokenizer") || !strcmp(type, "PretrainedFromHF")) {
        if (!model && !optional) tx__violate(k->v, "%s needs --tokenizer-model, a folder or file", type);
    } else if (strcmp(type, "GPT2BPETokenizer")) {
        tx__violate(k->v,
                    "--tokenizer-type %s is not built yet: use GPT2BPETokenizer, HFTokenizer, BertWordPieceLowerCase, "
                    "BertWordPieceCase or NullTokenizer",
                    type);
    } else if (model && !vocab && !merge) {
        if (!optional) tx__violate(k->v, "--tokenizer-model needs --tokenizer-type HFTokenizer");
    } else {
        if (!vocab && (merge || !optional)) tx__violate(k->v, "GPT2BPETokenizer needs --vocab-file");
        if (!merge && (vocab || !optional))
            tx__violate(k->v, "GPT2BPETokenizer needs --merge-file; a tokenizer.json is read by --tokenizer-type "
                              "HFTokenizer --tokenizer-model FILE");
    }
}

/* ---------------------------------------------------------------- options whose other values come later */

static void rule_only_what_is_built(const struct check *k)
{
    const tx_config *c = k->c;
    const char *alone = "triax trains on one process for now; leave the flag out";
    if (c->tensor_model_parallel_size != 1)
        tx__violate(k->v, "--tensor-model-parallel-size %lld is not built yet: %s",
                    (long long)c->tensor_model_parallel_size, alone);
    if (c->pipeline_model_parallel_size != 1)
        tx__violate(k->v, "--pipeline-model-parallel-size %lld is not built yet: %s",
                    (long long)c->pipeline_model_parallel_size, alone);
    if (c->zero_stage != 0)
        tx__violate(k->v, "--zero-stage %lld is not built yet: %s", (long long)c->zero_stage, alone);
    if (strcmp(c->data_impl, "mmap") && strcmp(c->data_impl, "infer"))
        tx__violate(k->v, "--data-impl %s is not built yet: make the dataset again with preprocess-data", c->data_impl);
    if (strcmp(c->dataset_impl, "mmap"))
        tx__violate(k->v, "--dataset-impl %s is not built yet: use mmap, or leave the flag out", c->dataset_impl);
}

/* ---------------------------------------------------------------- the table */

static const struct rule {
    const char *command; /* NULL: every command; options it does not take are at harmless defaults there */
    void (*check)(const struct check *k);
} rules[] = {
    { "pretrain-gpt", rule_training_has_its_sizes },
    { "pretrain-gpt", rule_training_has_a_shape },
    { "preprocess-data", rule_preprocess_has_files },
    { "preprocess-data", rule_partitions_divide_workers },
    { "train-tokenizer", rule_train_tokenizer_has_files },
    { "merge-datasets", rule_merge_has_files },
    { "inspect", rule_inspect_has_a_path },
    { "replay", rule_replay_has_a_file },
    { "report", rule_report_has_runs },
    { "inspect-samples", rule_samples_have_their_sizes },
    { "inspect-samples", rule_samples_are_of_one_model },
    { "evaluate", rule_evaluate_has_files },
    { "generate", rule_generate_has_prompts },
    { NULL, rule_heads_have_a_width },
    { NULL, rule_key_heads_divide_heads },
    { NULL, rule_query_groups_are_key_heads },
    { NULL, rule_activation_is_one },
    { NULL, rule_precision_is_one },
    { NULL, rule_one_is_added_by_layernorm },
    { NULL, rule_rotation_has_pairs },
    { NULL, rule_positions_reach },
    { "pretrain-gpt", rule_micro_divides_global },
    { "pretrain-gpt", rule_ramp_is_sound },
    { "pretrain-gpt", rule_iterations_or_samples },
    { "pretrain-gpt", rule_samples_can_be_counted },
    { "inspect-samples", rule_micro_divides_global },
    { "inspect-samples", rule_ramp_is_sound },
    { "inspect-samples", rule_iterations_or_samples },
    { "inspect-samples", rule_samples_can_be_counted },
    { "pretrain-gpt", rule_warmup_is_said_once },
    { "pretrain-gpt", rule_tokens_stand_alone },
    { "pretrain-gpt", rule_wsd_has_its_length },
    { "pretrain-gpt", rule_warmup_before_decay_ends },
    { "pretrain-gpt", rule_min_lr_below_lr },
    { "pretrain-gpt", rule_scheduler_source_is_one },
    { "pretrain-gpt", rule_weight_decay_has_its_ends },
    { "pretrain-gpt", rule_states_are_adams },
    { "pretrain-gpt", rule_less_than_one },
    { "pretrain-gpt", rule_recomputation_is_whole },
    { "pretrain-gpt", rule_save_has_an_interval },
    { "pretrain-gpt", rule_missing_checkpoint_has_a_name },
    { "pretrain-gpt", rule_finetune_has_a_checkpoint },
    { "pretrain-gpt", rule_dump_step_is_a_step },
    { "pretrain-gpt", rule_memory_limit_is_a_size },
    { NULL, rule_skipped_ranges_are_ranges },
    { NULL, rule_datasets_are_one_or_pairs },
    { NULL, rule_data_is_divided_or_apart },
    { NULL, rule_weighted_splits_stand_alone },
    { NULL, rule_data_folder_has_data_path },
    { NULL, rule_index_files_are_three },
    { "pretrain-gpt", rule_no_bert_index },
    { NULL, rule_keyed_order_stands_alone },
    { "evaluate", rule_evaluated_blend_has_a_length },
    { "preprocess-data", rule_tokenizer_has_its_files },
    { "tokenize", rule_tokenizer_has_its_files },
    { "detokenize", rule_tokenizer_has_its_files },
    { "pretrain-gpt", rule_tokenizer_has_its_files },
    { "inspect", rule_tokenizer_has_its_files },
    { "inspect-samples", rule_tokenizer_has_its_files },
    { "evaluate", rule_tokenizer_has_its_files },
    { "generate", rule_tokenizer_has_its_files },
    { NULL, rule_only_what_is_built },
};

void tx__config_check(const tx_config *cfg, const tx_config_given *bad, tx_violations *v)
{
    const struct check k = { .c = cfg, .g = &cfg->given, .bad = bad, .v = v };
    const char *command = plans_only(&k) ? "pretrain-gpt" : cfg->command->name; /* what is planned keeps its rules */
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!rules[i].command || !strcmp(rules[i].command, command)) rules[i].check(&k);
}

tx_status tx_config_complete(tx_config *cfg)
{
    static const tx_config_given none = { 0 };
    tx_violations v = { 0 };
    tx__config_derive(cfg);
    tx__config_check(cfg, &none, &v);
    return tx__violations_close(&v);
}
