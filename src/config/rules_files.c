/* rules_files.c - rules across options: checkpoints, datasets, tokenizers. */
#include <string.h>

#include "config/rules.h"

enum { MAX_DATASETS = 254 }; /* of one blend, as upstream */

/* ---------------------------------------------------------------- files */

static void rule_overwrite_run_has_a_folder(const tx__check *k)
{
    if (k->c->overwrite_run && !k->c->save && !tx__plans_only(k)) tx__violate(k->v, "--overwrite-run needs --save");
}

static void rule_async_save_has_a_folder(const tx__check *k)
{
    if (k->c->async_save && !k->c->save && !tx__plans_only(k)) tx__violate(k->v, "--async-save needs --save");
}

static bool has_experts(const tx__check *k)
{
    return !k->bad->num_experts && !k->bad->num_layers && tx_config_has_experts(k->c);
}

/* As the format's writer has it. */
static void check_experts(const tx__check *k, const char *to)
{
    const tx_config *c = k->c;
    if (c->save_format != TX_FORMAT_DEEPSPEED)
        tx__violate(k->v, "--save-format %s has no place for experts (--num-experts): save native or deepspeed", to);
    else if (c->moe_router_topk)
        tx__violate(k->v, "--save-format deepspeed holds routers of --topk, not of --moe-router-topk: save native");
    else if (c->pipeline_model_parallel_size > 1 || c->zero_stage == 3)
        tx__violate(k->v,
                    "--save-format deepspeed holds experts (--num-experts) without a pipeline and of --zero-stage "
                    "0, 1 or 2: save native");
    else if (c->bf16 && !c->zero_stage && !c->no_save_optim)
        tx__violate(k->v, "--save-format deepspeed holds experts (--num-experts) with --bf16 of --zero-stage 1 or 2: "
                          "choose one, or save native");
    else if (c->moe_shared_expert_intermediate_size ||
             (c->moe_ffn_hidden_size && c->moe_ffn_hidden_size != c->ffn_hidden_size))
        tx__violate(k->v,
                    "--save-format deepspeed holds experts as wide as --ffn-hidden-size, with none that takes all "
                    "tokens: save native");
}

/* What the formats of Megatron and DeepSpeed have a place for. */
static void rule_save_format_holds_the_run(const tx__check *k)
{
    const tx_config *c = k->c;
    const char *to = tx_checkpoint_format_word(c->save_format);
    bool pipeline = c->pipeline_model_parallel_size > 1;
    if (c->save_format == TX_FORMAT_NATIVE) return;
    const char *own = tx_config_not_upstreams(c);
    if (own)
        tx__violate(k->v, "--save-format %s cannot hold a model with %s; save native, and leave the flag out", to, own);
    unsigned held = c->save_format == TX_FORMAT_DEEPSPEED ? TX_OPTIMIZER_DEEPSPEED : TX_OPTIMIZER_MEGATRON;
    if (!k->bad->optimizer && !(tx_optimizer_traits(c->optimizer) & held) && !c->no_save_optim)
        tx__violate(k->v,
                    "--save-format %s has no place for the state of --optimizer %s: save native, or --no-save-optim",
                    to, tx_optimizer_kind_word(c->optimizer));
    bool signs = !k->bad->optimizer && (tx_optimizer_traits(c->optimizer) & TX_OPTIMIZER_COMPRESSED);
    bool engine = pipeline || (!c->no_pipeline_parallel && c->model_type == TX_MODEL_GPT);
    if (c->save_format == TX_FORMAT_DEEPSPEED && signs && c->bf16 && engine && !c->no_save_optim)
        tx__violate(k->v,
                    "--save-format deepspeed: with --bf16 DeepSpeed's pipeline engine would give each rank a part of "
                    "the state of --optimizer %s, which it needs whole: --no-pipeline-parallel and one stage, --fp16, "
                    "or save native",
                    tx_optimizer_kind_word(c->optimizer));
    if (k->g->decoupled_lr && !c->no_save_optim)
        tx__violate(k->v,
                    "--save-format %s holds one learning rate, not --decoupled-lr's: save native, or --no-save-optim",
                    to);
    if (k->g->num_layers_per_virtual_pipeline_stage || c->num_layers_per_virtual_pipeline_stage)
        tx__violate(
            k->v,
            "--save-format %s writes stages of consecutive layers, not --num-layers-per-virtual-pipeline-stage's: "
            "save native, and convert what is needed",
            to);
    if (has_experts(k)) check_experts(k, to);
    if (c->save_format != TX_FORMAT_DEEPSPEED) return;
    if (pipeline && c->zero_stage > 1)
        tx__violate(k->v,
                    "--save-format deepspeed: DeepSpeed's pipeline engine has no ZeRO-%lld; --zero-stage 0 or 1, one "
                    "pipeline stage, or save native",
                    (long long)c->zero_stage);
    if (pipeline && c->model_type == TX_MODEL_BERT)
        tx__violate(k->v, "--save-format deepspeed: DeepSpeed's pipeline engine has no BERT; save megatron or native");
    if (c->zero_stage == 3 && c->no_save_optim)
        tx__violate(k->v, "--save-format deepspeed: with ZeRO-3 weights are in the optimizer's files, and "
                          "--no-save-optim leaves these out; save native or megatron");
}

static void rule_load_has_one_meaning(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->load_tag && !c->load && !k->g->load) tx__violate(k->v, "--load-tag needs --load");
    if (c->load_latest_good && !c->load && !k->g->load) tx__violate(k->v, "--load-latest-good needs --load");
    if (c->load_tag && (!*c->load_tag || strchr(c->load_tag, '/') || !strcmp(c->load_tag, "..")))
        tx__violate(k->v, "--load-tag %.60s is not the name of a folder in --load", c->load_tag);
    if (c->load_tag && c->load_latest_good)
        tx__violate(k->v, "--load-tag names one checkpoint, --load-latest-good looks for one: give one of the two");
}

static void rule_missing_checkpoint_has_a_name(const tx__check *k)
{
    if (k->c->exit_on_missing_checkpoint && !k->c->load) tx__violate(k->v, "--exit-on-missing-checkpoint needs --load");
}

static void rule_finetune_has_a_checkpoint(const tx__check *k)
{
    if (k->c->load || k->g->load) return;
    if (k->c->finetune) tx__violate(k->v, "--finetune needs --load");
    if (k->c->reset_iteration) tx__violate(k->v, "--reset-iteration needs --load");
}

static void one_or_pairs(const tx__check *k, const char *flag, const tx_list *l)
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

static void rule_datasets_are_one_or_pairs(const tx__check *k)
{
    one_or_pairs(k, "data-path", &k->c->data_path);
    one_or_pairs(k, "train-data-path", &k->c->train_data_path);
    one_or_pairs(k, "valid-data-path", &k->c->valid_data_path);
    one_or_pairs(k, "test-data-path", &k->c->test_data_path);
}

static void rule_data_is_divided_or_apart(const tx__check *k)
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

/* Text that becomes datasets, as scripts of 2020 name it. */
static void rule_text_is_the_data(const tx__check *k)
{
    const tx_config_given *g = k->g;
    bool valid = g->valid_data, test = g->test_data;
    if (!g->train_data) {
        if (valid || test) tx__violate(k->v, "--%s-data needs --train-data", valid ? "valid" : "test");
        return;
    }
    if (g->data_path || g->train_data_path || tx__names_weighted(g))
        tx__violate(k->v, "--train-data is text, and another flag names a dataset: give one of the two");
    if (valid != test)
        tx__violate(k->v, "--valid-data and --test-data: give both, or leave both out for parts by --split");
    else if (valid && g->split)
        tx__violate(k->v,
                    "--split divides --train-data, but --valid-data and --test-data are given: leave --split out");
}

static void rule_weighted_splits_stand_alone(const tx__check *k)
{
    const tx_config_given *g = k->g;
    if (!tx__names_weighted(g)) return;
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

static void rule_mock_data_stand_alone(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    if (!c->mock_data) return;
    if (g->data_path || g->train_data_path || g->valid_data_path || g->test_data_path || g->train_data ||
        tx__names_weighted(g))
        tx__violate(k->v, "--mock-data takes the place of a dataset: leave it out, or --data-path and its kin");
    if (c->model_type == TX_MODEL_BERT)
        tx__violate(k->v,
                    "--mock-data is for a GPT: its documents have no sentences, which a BERT's samples are made of; "
                    "give --data-path");
}

static void rule_fim_has_text_of_a_gpt(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    bool rates = (g->fim_rate && c->fim_rate > 0) || g->fim_spm_rate || g->fim_fragment_rate;
    bool words = g->fim_split_sample || g->fim_no_prefix || g->fim_prefix_token || g->fim_middle_token ||
                 g->fim_suffix_token || g->fim_pad_token || g->fim_eod_token;
    if (!c->fim_data && !g->fim_data) {
        if (rates || words)
            tx__violate(k->v, "--fim-rate and the other --fim- flags need --fim-data: give it, or leave them out");
        return;
    }
    if (c->model_type == TX_MODEL_BERT) tx__violate(k->v, "--model-type BERT: --fim-data is of a GPT, leave it out");
    if (c->mock_data) tx__violate(k->v, "--mock-data: --fim-data cuts text, which made-up ids are not: leave it out");
    if ((c->fim_split_sample || g->fim_split_sample) && !g->fim_fragment_rate)
        tx__violate(k->v, "--fim-split-sample needs --fim-fragment-rate, from 0 to 1");
    if (g->fim_fragment_rate && !c->fim_split_sample && !g->fim_split_sample)
        tx__violate(k->v, "--fim-fragment-rate needs --fim-split-sample, the token that divides fragments");
}

static void rule_data_folder_has_data_path(const tx__check *k)
{
    if (k->g->aml_data_download_path && !k->g->data_path)
        tx__violate(k->v, "--aml-data-download-path stands before the prefixes of --data-path, which is not given");
}

/* The three files of an index belong together and to one dataset. */
static void rule_index_files_are_three(const tx__check *k)
{
    const tx_config_given *g = k->g;
    const tx_config *c = k->c;
    int n = g->train_doc_idx_path + g->train_sample_idx_path + g->train_shuffle_idx_path;
    if (!n && !g->train_idx_path) return;
    if (n % 3)
        tx__violate(k->v, "--train-doc-idx-path, --train-sample-idx-path and --train-shuffle-idx-path: give all three, "
                          "or none");
    if (c->data_path.n > 1 || c->train_data_path.n > 1 || tx__names_weighted(g))
        tx__violate(k->v, "%s is the index of one dataset, not of a blend",
                    n ? "--train-doc-idx-path" : "--train-idx-path");
    if (n && g->train_data_exact_num_epochs)
        tx__violate(k->v, "--train-data-exact-num-epochs says how an index is made, --train-doc-idx-path gives one: "
                          "leave one of the two out");
}

static void rule_keyed_order_stands_alone(const tx__check *k)
{
    const tx_config_given *g = k->g;
    if (k->bad->data_order || k->c->data_order != TX_DATA_ORDER_KEYED) return;
    if (g->train_doc_idx_path || g->train_sample_idx_path || g->train_shuffle_idx_path ||
        g->train_data_exact_num_epochs)
        tx__violate(k->v, "--data-order keyed has no index: leave --train-doc-idx-path, --train-sample-idx-path, "
                          "--train-shuffle-idx-path and --train-data-exact-num-epochs out");
    if (!k->bad->dataloader_type && k->c->dataloader_type == TX_DATALOADER_CYCLIC)
        tx__violate(k->v, "--data-order keyed is another order in each epoch already: use --dataloader-type single");
}

static void rule_evaluated_blend_has_a_length(const tx__check *k)
{
    if (k->c->data_path.n > 1 && !k->g->eval_iters)
        tx__violate(k->v, "--data-path is a blend, which has no end: say with --eval-iters how much to evaluate");
}

static void rule_dump_step_is_a_step(const tx__check *k)
{
    const tx_list *l = &k->c->dump_step;
    int64_t step;
    if (l->n == 2 && (!tx__integer_parse(l->item[0], &step) || step < 1))
        tx__violate(k->v, "--dump-step %.60s is not a step; it takes a step from 1 on and a folder", l->item[0]);
}

/* A checkpoint of triax knows its tokenizer, so the commands that read one may leave the files out. */
static void rule_tokenizer_has_its_files(const tx__check *k)
{
    const tx_config *c = k->c;
    /* the files may lie beside the checkpoint, or are not needed */
    bool text = k->g->train_data || k->g->finetune_data;
    bool optional = (c->load && !text) || tx__plans_only(k) || (c->command->load == TX_LOAD_MODEL && !text);
    bool vocab = c->vocab_file || k->g->vocab_file, merge = c->merge_file || k->g->merge_file;
    bool model = c->tokenizer_model || k->g->tokenizer_model;
    const char *type = tx_tokenizer_type_word(c->tokenizer_type);
    const tx_tokenizer_traits reads = tx_tokenizer_traits_of(c->tokenizer_type);
    if (k->bad->tokenizer_type) return;
    if (!tx_tokenizer_is_built(c->tokenizer_type)) {
        tx__violate(k->v, "--tokenizer-type %s is not built yet: use " TX_TOKENIZERS_BUILT, type);
    } else if (reads.numbers) {
        if (!c->vocab_size && !k->g->vocab_size && !optional) tx__violate(k->v, "%s needs --vocab-size", type);
    } else if (reads.model_file) {
        if (!model && !optional) tx__violate(k->v, "%s needs --tokenizer-model, a folder or file", type);
    } else if (!reads.merge_file) {
        if (!vocab && !optional) tx__violate(k->v, "%s needs --vocab-file", type);
    } else if (c->mock_data && !k->g->tokenizer_type && !optional && !vocab && !merge && !model) {
        tx__violate(k->v, "--mock-data needs the size of the vocabulary: give --vocab-size, or the tokenizer's files");
    } else if (model && !vocab && !merge) {
        if (!optional) tx__violate(k->v, "--tokenizer-model needs --tokenizer-type HFTokenizer");
    } else {
        if (!vocab && (merge || !optional)) tx__violate(k->v, "%s needs --vocab-file", type);
        if (!merge && (vocab || !optional))
            tx__violate(k->v,
                        "%s needs --merge-file; a tokenizer.json is read by --tokenizer-type HFTokenizer "
                        "--tokenizer-model FILE, a vocab.txt by --tokenizer-type " TX_TOKENIZERS_WORDPIECE,
                        type);
    }
}

/* ---------------------------------------------------------------- options whose other values come later */

static void rule_formats_are_built(const tx__check *k)
{
    const tx_config *c = k->c;
    if (c->data_impl != TX_DATA_IMPL_MMAP && c->data_impl != TX_DATA_IMPL_INFER)
        tx__violate(k->v, "--data-impl %s is not built yet: make the dataset again with preprocess-data",
                    tx_data_impl_word(c->data_impl));
    if (c->dataset_impl != TX_DATASET_IMPL_MMAP)
        tx__violate(k->v, "--dataset-impl %s is not built yet: use mmap, or leave the flag out",
                    tx_dataset_impl_word(c->dataset_impl));
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_files[] = {
    { "pretrain", rule_overwrite_run_has_a_folder },
    { "pretrain", rule_async_save_has_a_folder },
    { "training", rule_save_format_holds_the_run },
    { NULL, rule_load_has_one_meaning },
    { "training", rule_missing_checkpoint_has_a_name },
    { "training", rule_finetune_has_a_checkpoint },
    { "pretrain", rule_dump_step_is_a_step },
    { NULL, rule_datasets_are_one_or_pairs },
    { NULL, rule_data_is_divided_or_apart },
    { "pretrain", rule_text_is_the_data },
    { NULL, rule_weighted_splits_stand_alone },
    { NULL, rule_mock_data_stand_alone },
    { NULL, rule_fim_has_text_of_a_gpt },
    { NULL, rule_data_folder_has_data_path },
    { NULL, rule_index_files_are_three },
    { NULL, rule_keyed_order_stands_alone },
    { "evaluate", rule_evaluated_blend_has_a_length },
    { "preprocess-data", rule_tokenizer_has_its_files },
    { "tokenize", rule_tokenizer_has_its_files },
    { "detokenize", rule_tokenizer_has_its_files },
    { "pretrain", rule_tokenizer_has_its_files },
    { "inspect", rule_tokenizer_has_its_files },
    { "inspect-checkpoint", rule_tokenizer_has_its_files },
    { "inspect-samples", rule_tokenizer_has_its_files },
    { "analyze-data", rule_tokenizer_has_its_files },
    { "evaluate", rule_tokenizer_has_its_files },
    { "generate", rule_tokenizer_has_its_files },
    { "generate-samples-gpt", rule_tokenizer_has_its_files },
    { "fill-mask", rule_tokenizer_has_its_files },
    { "serve", rule_tokenizer_has_its_files },
    { "run-text-generation-server", rule_tokenizer_has_its_files },
    { NULL, rule_formats_are_built },
    { NULL, NULL },
};
