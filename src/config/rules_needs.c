/* rules_needs.c - rules across options: what a command cannot do without. */
#include <string.h>

#include "config/rules.h"

/* --data-path, or the data of a split apart. */
static bool names_data(const tx__check *k)
{
    const tx_config_given *g = k->g;
    return g->mock_data || k->c->mock_data || g->data_path || k->c->data_path.n || g->train_data_path ||
           g->valid_data_path || g->test_data_path || g->train_data || g->finetune_data || tx__names_weighted(g);
}

static void rule_training_has_its_sizes(const tx__check *k)
{
    tx__need(k, k->g->micro_batch_size || k->c->micro_batch_size, "micro-batch-size");
    tx__need(k, k->g->seq_length || k->c->seq_length, "seq-length");
    if (tx__plans_only(k)) return;
    tx__need(k, k->g->lr || k->c->lr > 0 || k->c->lr_schedule || k->bad->lr_schedule, "lr");
    tx__need(k, names_data(k), "data-path");
    if (!k->g->train_iters && !k->g->train_samples && !k->c->train_iters && !k->g->finetune_epochs)
        tx__violate(k->v, "either train-iters or train-samples should be provided: %s needs --train-iters",
                    k->c->command->name);
}

/* How long a client trains is its own affair, where no schedule asks. */
static void rule_engine_has_its_sizes(const tx__check *k)
{
    const tx_config *c = k->c;
    tx__need(k, k->g->micro_batch_size || c->micro_batch_size, "micro-batch-size");
    if (c->lr_decay_style == TX_LR_DECAY_CONSTANT || c->train_iters || c->train_samples || c->lr_decay_iters ||
        c->lr_decay_samples || c->lr_decay_tokens || k->bad->train_iters || k->bad->train_samples)
        return;
    tx__violate(k->v, "--lr-decay-style %s needs its length: give --train-iters or --lr-decay-iters",
                tx_lr_decay_style_word(c->lr_decay_style));
}

static void rule_training_has_a_shape(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->load) return;
    tx__need(k, k->g->num_layers || c->num_layers, "num-layers");
    tx__need(k, k->g->hidden_size || c->hidden_size, "hidden-size");
    tx__need(k, k->g->num_attention_heads || c->num_attention_heads, "num-attention-heads");
    /* without a table it is --seq-length */
    bool table = tx_config_positions(c) == TX_POSITIONS_LEARNED && !k->bad->position_embedding_type;
    tx__need(k, k->g->max_position_embeddings || c->max_position_embeddings || !table, "max-position-embeddings");
}

static void rule_time_has_a_machine(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->machine || k->bad->machine) return;
    const struct {
        bool given;
        const char *flag, *why;
    } of_machine[] = {
        { k->g->gpus_per_node, "gpus-per-node", "it takes the place of a number of its file" },
        { k->g->node_bandwidth, "node-bandwidth", "it takes the place of a number of its file" },
        { c->search, "search", "which layout is fastest depends on it" },
        { k->g->gpus_for, "gpus-for", "how long the run takes depends on it" },
    };
    for (size_t i = 0; i < sizeof of_machine / sizeof *of_machine; i++)
        if (of_machine[i].given) tx__violate(k->v, "--%s needs --machine: %s", of_machine[i].flag, of_machine[i].why);
}

static void rule_search_has_its_sizes(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *flag = c->search ? "search" : "gpus-for";
    if (!tx_config_searches(c)) return;
    if (c->search && k->g->gpus_for) tx__violate(k->v, "--search and --gpus-for: give one of the two");
    if (!k->g->global_batch_size && !k->bad->global_batch_size)
        tx__violate(k->v, "--%s needs --global-batch-size: all layouts train with the same", flag);
    if (c->search && !k->g->gpus_for && !k->g->world_size && !k->bad->world_size)
        tx__violate(k->v, "--search needs --world-size, the number of ranks; --gpus-for DAYS looks for it");
    if (k->g->gpus_for && !k->g->train_iters && !k->g->train_samples && !k->g->train_tokens)
        tx__violate(k->v, "--gpus-for needs the length of the run: --train-iters, --train-samples or --train-tokens");
    if (c->schedule_picture || c->schedule_svg)
        tx__violate(k->v, "--%s with --%s: a picture is of one layout; give it the flags of one that was found",
                    c->schedule_picture ? "schedule-picture" : "schedule-svg", flag);
}

static void rule_preprocess_has_files(const tx__check *k)
{
    tx__need(k, k->g->input || k->c->input.n, "input");
    tx__need(k, k->c->output_prefix || k->g->output_prefix, "output-prefix");
}

/* Upstream gives every part the same number of workers. */
static void rule_partitions_divide_workers(const tx__check *k)
{
    if (k->bad->partitions || k->bad->workers || k->c->workers % k->c->partitions == 0) return;
    tx__violate(k->v, "--workers %lld is not divisible by --partitions %lld; give a multiple of it",
                (long long)k->c->workers, (long long)k->c->partitions);
}

static void rule_train_tokenizer_has_files(const tx__check *k)
{
    tx__need(k, k->g->input || k->c->input.n, "input");
    tx__need(k, k->g->train_vocab_size || k->c->train_vocab_size, "vocab-size");
    tx__need(k, k->c->output_dir || k->g->output_dir, "output-dir");
    if (k->g->limit_alphabet && !tx_tokenizer_is_wordpiece(k->c->train_tokenizer_type) && !k->bad->train_tokenizer_type)
        tx__violate(k->v, "--limit-alphabet is for BERT's WordPiece: the others have tokens for all bytes; "
                          "leave the flag out, or give --tokenizer-type");
}

static void rule_merge_has_files(const tx__check *k)
{
    bool dir = k->g->merge_input || k->c->merge_input, list = k->g->datasets || k->c->datasets.n;
    if (!dir && !list) tx__violate(k->v, "merge-datasets needs --input or --datasets");
    if (dir && list) tx__violate(k->v, "--input and --datasets: give one of the two");
    tx__need(k, k->c->merge_output_prefix || k->g->merge_output_prefix, "output-prefix");
}

static void rule_inspect_has_a_path(const tx__check *k)
{
    if (!k->g->inspect_input && !k->c->inspect_input)
        tx__violate(k->v, "%s needs a path: triax %s PATH, or --input PATH", k->c->command->name, k->c->command->name);
}

static void rule_inspect_has_a_folder(const tx__check *k)
{
    tx__need(k, k->g->inspect_folder || k->c->inspect_folder, "folder");
}

static void rule_replay_has_a_file(const tx__check *k)
{
    if (!k->c->replay_file && !k->bad->replay_file)
        tx__violate(k->v, "replay needs a file: triax replay FILE, the replay-iteration-N.json that a run left");
}

static void rule_report_has_runs(const tx__check *k)
{
    if (!k->c->runs.n && !k->bad->runs)
        tx__violate(k->v, "report needs runs: triax report RUN ..., folders of --save or metrics files");
}

/* What the order of samples depends on; all else of a run may be left out. */
static void rule_samples_have_their_sizes(const tx__check *k)
{
    const tx_config *c = k->c;
    tx__need(k, names_data(k), "data-path");
    tx__need(k, k->g->seq_length || c->seq_length, "seq-length");
    if (!k->g->train_iters && !k->g->train_samples && !c->train_iters && !c->train_samples && !k->g->finetune_epochs)
        tx__violate(k->v, "inspect-samples needs --train-iters or --train-samples: the order of samples follows from "
                          "the length of the run");
    if (!k->g->micro_batch_size && !k->g->global_batch_size && !c->global_batch_size)
        tx__violate(k->v, "inspect-samples needs --global-batch-size or --micro-batch-size");
}

static void rule_evaluate_has_files(const tx__check *k)
{
    bool data = k->g->data_path || k->c->data_path.n, files = k->g->valid_data || k->c->valid_data.n;
    tx__need(k, k->c->load || k->g->load, "load");
    if (!data && !files)
        tx__violate(k->v, k->g->task ? "--task needs --valid-data FILE" : "evaluate needs --data-path or --valid-data");
    if (data && files) tx__violate(k->v, "--data-path and --valid-data: give one of the two");
    if (k->g->eval_iters && !k->bad->eval_iters && !k->c->eval_iters)
        tx__violate(k->v, "--eval-iters 0 evaluates nothing; leave it out for every sample");
}

/* Options that only some tasks have. */
static void rule_task_has_its_options(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->task) return;
    const char *task = c->task ? tx_task_kind_word(c->task) : "text";
    bool words = c->task == TX_TASK_WIKITEXT103, text = !c->task || tx_task_has_windows(c->task);
    bool files = k->g->valid_data || c->valid_data.n;
    if (c->strict_lambada && c->task != TX_TASK_LAMBADA)
        tx__violate(k->v, "--strict-lambada is for --task LAMBADA, not for %s", task);
    if (k->g->overlapping_eval && !(text && files))
        tx__violate(k->v, "--overlapping-eval is for --valid-data with --task text or WIKITEXT103");
    if (c->per_token && !(text && files))
        tx__violate(k->v, "--per-token is for --valid-data with --task text or WIKITEXT103");
    if (k->g->detokenizer && !words) tx__violate(k->v, "--detokenizer is for --task WIKITEXT103, not for %s", task);
    if (!files) return;
    if (k->g->split || k->g->eval_split || k->g->eval_iters)
        tx__violate(k->v, "--split, --eval-split and --eval-iters are for --data-path: files are scored whole");
    if (c->eod_mask_loss || c->reset_position_ids || c->reset_attention_mask)
        tx__violate(k->v, "--eod-mask-loss, --reset-position-ids and --reset-attention-mask are for --data-path: leave "
                          "them out");
}

/* One source of prompts; none is standard input. */
static void rule_fill_mask_has_one_source(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    tx__need(k, c->load || g->load, "load");
    if ((c->prompt.n || g->prompt) + (c->prompt_file || g->prompt_file) + (c->prompt_jsonl || g->prompt_jsonl) > 1)
        tx__violate(k->v, "texts on the command line, --prompt-file and --prompt-jsonl: give one of them");
}

static void rule_generate_has_one_source(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    const struct {
        bool given;
        const char *flag;
    } sources[] = { { c->prompt.n || g->prompt, "prompt" },
                    { c->prompt_file || g->prompt_file, "prompt-file" },
                    { c->prompt_jsonl || g->prompt_jsonl, "prompt-jsonl" },
                    { c->prompt_tokens || g->prompt_tokens, "prompt-tokens" },
                    { c->sample_input_file || g->sample_input_file, "sample-input-file" },
                    { c->genfile || g->genfile, "genfile" } };
    const char *first = NULL;
    tx__need(k, c->load || g->load, "load");
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (!sources[i].given) continue;
        if (first) tx__violate(k->v, "--%s and --%s: give one of the two", first, sources[i].flag);
        first = sources[i].flag;
    }
    if (k->g->num_return_sequences && k->g->num_samples)
        tx__violate(k->v, "--num-return-sequences is --num-samples: give one of the two");
    if (c->do_sample && (c->greedy || (k->g->temperature && c->temperature == 0)))
        tx__violate(k->v, "--do-sample draws tokens, --%s does not: leave one of the two out",
                    c->greedy ? "greedy" : "temperature 0");
    if (!k->bad->num_samples && !c->num_samples) tx__violate(k->v, "--num-samples 0 makes nothing: give 1 or more");
    if (!c->sample_input_file && !c->genfile) return;
    if (c->samples_json || c->output_tokens || c->logprobs || c->top_logprobs || c->beam_width)
        tx__violate(k->v,
                    "--%s writes a file of its own form: leave --json, --output-tokens, --logprobs, --top-logprobs and "
                    "--beam-width out, or give the prompts by --prompt-file",
                    c->genfile ? "genfile" : "sample-input-file");
}

static void rule_samples_go_into_files(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->command->id == TX_COMMAND_GENERATE_SAMPLES_GPT) {
        tx__need(k, c->load || k->g->load, "load");
        if (c->num_samples && !c->genfile && !k->bad->genfile && !c->sample_input_file)
            tx__violate(k->v, "--num-samples %lld needs --genfile, the file for the samples",
                        (long long)c->num_samples);
    }
    if (c->sample_output_file && !c->sample_input_file && !k->bad->sample_input_file)
        tx__violate(k->v, "--sample-output-file needs --sample-input-file");
}

/* What sampling takes; `serve` has the same options as defaults of its requests. */
static void rule_sampler_is_sound(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t id;
    if (c->min_new_tokens > c->out_seq_length && c->out_seq_length && !k->bad->min_new_tokens &&
        !k->bad->out_seq_length)
        tx__violate(k->v, "--min-new-tokens %lld is more than --out-seq-length %lld", (long long)c->min_new_tokens,
                    (long long)c->out_seq_length);
    if ((k->g->top_p_decay || k->g->top_p_bound) && !(c->top_p > 0) && !k->bad->top_p)
        tx__violate(k->v, "--top-p-decay and --top-p-bound need --top_p");
    if (c->top_p_bound > c->top_p && c->top_p > 0 && !k->bad->top_p_bound)
        tx__violate(k->v, "--top-p-bound %g is more than --top_p %g", c->top_p_bound, c->top_p);
    for (int i = 0; i < c->stop.n; i++)
        if (!c->stop.item[i][0]) tx__violate(k->v, "--stop: an empty text is everywhere; leave it out");
    for (int i = 0; i < c->stop_id.n; i++)
        if (!tx__integer_parse(c->stop_id.item[i], &id) || id < 0 || id > INT32_MAX)
            tx__violate(k->v, "--stop-id %.60s is no token's id", c->stop_id.item[i]);
}

/* Beam search has no sampler. */
static void rule_beam_search_stands_alone(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    if (!c->beam_width) {
        if (g->length_penalty && !k->bad->beam_width) tx__violate(k->v, "--length-penalty needs --beam-width");
        return;
    }
    const struct {
        bool given;
        const char *flag;
    } others[] = { { g->temperature, "temperature" },
                   { g->top_k, "top_k" },
                   { g->top_p, "top_p" },
                   { g->greedy, "greedy" },
                   { g->repetition_penalty, "repetition-penalty" },
                   { g->min_new_tokens, "min-new-tokens" },
                   { g->stop, "stop" },
                   { g->stop_on_eol, "stop-on-eol" },
                   { g->stop_on_double_eol, "stop-on-double-eol" },
                   { g->logprobs, "logprobs" },
                   { g->top_logprobs, "top-logprobs" },
                   { g->num_samples, "num-samples" },
                   { g->num_return_sequences, "num-return-sequences" },
                   { g->do_sample, "do-sample" } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            tx__violate(k->v, "--beam-width finds the likeliest texts, it samples none: leave --%s out",
                        others[i].flag);
    if (c->stop_id.n > 1) tx__violate(k->v, "--beam-width takes one --stop-id");
}

static void rule_serve_has_a_model(const tx__check *k)
{
    const tx_config *c = k->c;
    size_t bytes;
    tx__need(k, c->load || k->g->load, "load");
    if (c->auth_token && c->auth_token_file)
        tx__violate(k->v, "--auth-token and --auth-token-file: give one of the two");
    if (c->auth_token && !*c->auth_token) tx__violate(k->v, "--auth-token is empty");
    if (!k->bad->max_body && tx_size_parse(c->max_body, &bytes) && bytes > (size_t)1 << 30)
        tx__violate(k->v, "--max-body %.60s is more than 1GiB", c->max_body);
    if (c->max_context && c->max_tokens > c->max_context)
        tx__violate(k->v, "--max-tokens %lld is more than --max-context %lld", (long long)c->max_tokens,
                    (long long)c->max_context);
}

static void rule_convert_has_folders(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->convert_paths.n < 2 && !k->bad->convert_paths)
        tx__violate(k->v, "convert needs two folders: triax convert --to FORMAT IN OUT");
    tx__need(k, c->convert_to || k->bad->convert_to, "to");
    if (!c->convert_to || k->bad->convert_to) return;
    bool megatron = c->convert_to == TX_FORMAT_MEGATRON, deepspeed = c->convert_to == TX_FORMAT_DEEPSPEED;
    bool universal = c->convert_to == TX_FORMAT_UNIVERSAL; /* which has a file of the run's state for each rank */
    if (!megatron && !deepspeed && !universal && (c->target_tp > 1 || c->target_pp > 1))
        tx__violate(
            k->v,
            "--target-tp and --target-pp are for --to megatron, deepspeed and universal: a checkpoint of %s has no "
            "ranks, any number of them loads it",
            tx_checkpoint_format_word(c->convert_to));
    if (!deepspeed && (k->g->target_dp || k->g->target_ep || c->target_pipeline))
        tx__violate(k->v, "--target-dp, --target-ep and --target-pipeline-engine are for --to deepspeed");
    if (!deepspeed && !universal && k->g->target_zero_stage)
        tx__violate(k->v, "--target-zero-stage is for --to deepspeed and universal");
    if (!megatron && c->for_release) tx__violate(k->v, "--for-release is for --to megatron");
    if (k->g->max_shard_size && c->convert_to != TX_FORMAT_HUGGINGFACE)
        tx__violate(k->v, "--max-shard-size is for --to huggingface");
}

static void rule_tool_has_folders(const tx__check *k)
{
    tx__need(k, k->c->input_folder || k->bad->input_folder, "input_folder");
    tx__need(k, k->c->output_folder || k->bad->output_folder, "output_folder");
}

static void rule_universal_has_folders(const tx__check *k)
{
    rule_tool_has_folders(k);
    if (k->g->tool_tp || k->g->tool_pp || k->c->tool_release)
        tx__violate(k->v,
                    "ds-to-universal: a universal checkpoint is for any ranks: leave --target_tp, --target_pp and "
                    "--for_release out");
}

static void rule_zero_has_folders(const tx__check *k)
{
    if (k->c->zero_paths.n < 2 && !k->bad->zero_paths)
        tx__violate(k->v, "zero-to-fp32 needs two folders: triax zero_to_fp32.py CHECKPOINT OUTPUT");
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_needs[] = {
    { "pretrain", rule_training_has_its_sizes },
    { "pretrain", rule_training_has_a_shape },
    { "pretrain", rule_time_has_a_machine },
    { "pretrain", rule_search_has_its_sizes },
    { "engine", rule_engine_has_its_sizes },
    { "preprocess-data", rule_preprocess_has_files },
    { "preprocess-data", rule_partitions_divide_workers },
    { "train-tokenizer", rule_train_tokenizer_has_files },
    { "merge-datasets", rule_merge_has_files },
    { "inspect", rule_inspect_has_a_path },
    { "convert", rule_convert_has_folders },
    { "inspect-checkpoint", rule_inspect_has_a_path },
    { "inspect-deepspeed-checkpoint", rule_inspect_has_a_folder },
    { "ds-to-universal", rule_universal_has_folders },
    { "deepspeed-to-megatron", rule_tool_has_folders },
    { "deepspeed-to-transformers", rule_tool_has_folders },
    { "zero-to-fp32", rule_zero_has_folders },
    { "replay", rule_replay_has_a_file },
    { "report", rule_report_has_runs },
    { "inspect-samples", rule_samples_have_their_sizes },
    { "evaluate", rule_evaluate_has_files },
    { "evaluate", rule_task_has_its_options },
    { "fill-mask", rule_fill_mask_has_one_source },
    { "generate", rule_generate_has_one_source },
    { "generate", rule_samples_go_into_files },
    { "generate", rule_sampler_is_sound },
    { "generate", rule_beam_search_stands_alone },
    { "generate-samples-gpt", rule_samples_go_into_files },
    { "generate-samples-gpt", rule_sampler_is_sound },
    { "serve", rule_serve_has_a_model },
    { "run-text-generation-server", rule_serve_has_a_model },
    { NULL, NULL },
};
