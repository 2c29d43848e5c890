/* rules_needs.c - rules across options: what a command cannot do without. */
#include <string.h>

#include "config/rules.h"

/* --data-path, or the data of a split apart. */
static bool names_data(const tx__check *k)
{
    const tx_config_given *g = k->g;
    return g->data_path || k->c->data_path.n || g->train_data_path || g->valid_data_path || g->test_data_path ||
           tx__names_weighted(g);
}

static void rule_training_has_its_sizes(const tx__check *k)
{
    tx__need(k, k->g->micro_batch_size || k->c->micro_batch_size, "micro-batch-size");
    tx__need(k, k->g->seq_length || k->c->seq_length, "seq-length");
    if (tx__plans_only(k)) return;
    tx__need(k, k->g->lr || k->c->lr > 0, "lr");
    tx__need(k, names_data(k), "data-path");
    if (!k->g->train_iters && !k->g->train_samples && !k->c->train_iters)
        tx__violate(k->v, "either train-iters or train-samples should be provided: pretrain-gpt needs --train-iters");
}

static void rule_training_has_a_shape(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->load) return;
    tx__need(k, k->g->num_layers || c->num_layers, "num-layers");
    tx__need(k, k->g->hidden_size || c->hidden_size, "hidden-size");
    tx__need(k, k->g->num_attention_heads || c->num_attention_heads, "num-attention-heads");
    tx__need(k, k->g->max_position_embeddings || c->max_position_embeddings, "max-position-embeddings");
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
    if (k->g->limit_alphabet && !strcmp(k->c->train_tokenizer_type, "GPT2BPETokenizer") &&
        !k->bad->train_tokenizer_type)
        tx__violate(k->v,
                    "--limit-alphabet is for BERT's WordPiece: the alphabet of GPT2BPETokenizer is the 256 bytes; "
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
        tx__violate(k->v, "inspect needs a path: triax inspect PATH, or --input PATH");
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
    if (!k->g->train_iters && !k->g->train_samples && !c->train_iters && !c->train_samples)
        tx__violate(k->v, "inspect-samples needs --train-iters or --train-samples: the order of samples follows from "
                          "the length of the run");
    if (!k->g->micro_batch_size && !k->g->global_batch_size && !c->global_batch_size)
        tx__violate(k->v, "inspect-samples needs --global-batch-size or --micro-batch-size");
}

static void rule_no_bert_index(const tx__check *k)
{
    if (k->g->train_idx_path)
        tx__violate(k->v, "--train-idx-path is the index of a BERT dataset; for a GPT give --train-doc-idx-path, "
                          "--train-sample-idx-path and --train-shuffle-idx-path");
}

/* BERT's pairs and masks need its tokenizer; what concerns ends of documents and positions is of a GPT. */
static void rule_samples_are_of_one_model(const tx__check *k)
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

static void rule_evaluate_has_files(const tx__check *k)
{
    tx__need(k, k->c->load || k->g->load, "load");
    tx__need(k, k->g->data_path || k->c->data_path.n, "data-path");
    if (k->g->eval_iters && !k->bad->eval_iters && !k->c->eval_iters)
        tx__violate(k->v, "--eval-iters 0 evaluates nothing; leave it out for every sample");
}

static void rule_generate_has_prompts(const tx__check *k)
{
    tx__need(k, k->c->load || k->g->load, "load");
    bool list = k->g->prompt || k->c->prompt.n, file = k->g->prompt_file || k->c->prompt_file;
    if (!list && !file) tx__violate(k->v, "generate needs --prompt or --prompt-file");
    if (list && file) tx__violate(k->v, "--prompt and --prompt-file: give one of the two");
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_needs[] = {
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
    { "pretrain-gpt", rule_no_bert_index },
    { NULL, NULL },
};
