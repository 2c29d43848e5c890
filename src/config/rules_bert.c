/* rules_bert.c - rules across options: which model a command trains, and what of the options is not of that model. */
#include <string.h>

#include "config/rules.h"

static bool is_bert(const tx__check *k)
{
    return k->c->model_type == TX_MODEL_BERT;
}

static void rule_command_has_its_model(const tx__check *k)
{
    if (k->bad->model_type || tx__plans_only(k)) return;
    bool bert = is_bert(k);
    if (bert != (k->c->command->id == TX_COMMAND_PRETRAIN_BERT))
        tx__violate(k->v, "%s trains a %s, and this is --model-type %s: use triax %s", k->c->command->name,
                    bert ? "GPT" : "BERT", tx_model_kind_word(k->c->model_type),
                    bert ? "pretrain-bert" : "pretrain-gpt");
}

/* ---------------------------------------------------------------- options of a BERT's samples */

/* A script of a GPT may have them: what trains one takes them and says that they do nothing. */
static void rule_bert_samples_are_of_a_bert(const tx__check *k)
{
    const tx_config_given *g = k->g;
    if (k->bad->model_type || is_bert(k)) return;
    if (g->mask_prob || g->short_seq_prob || g->bert_binary_head || g->bert_mask_type || g->bert_max_ngrams)
        tx__violate(k->v, "--mask-prob, --short-seq-prob, --bert-mask-type, --bert-max-ngrams and "
                          "--bert-no-binary-head need --model-type BERT");
}

static void rule_index_is_of_the_model(const tx__check *k)
{
    const tx_config_given *g = k->g;
    if (k->bad->model_type) return;
    if (!is_bert(k) && g->train_idx_path)
        tx__violate(k->v, "--train-idx-path is the index of a BERT dataset; for a GPT give --train-doc-idx-path, "
                          "--train-sample-idx-path and --train-shuffle-idx-path");
    if (is_bert(k) && (g->train_doc_idx_path || g->train_sample_idx_path || g->train_shuffle_idx_path ||
                       g->train_data_exact_num_epochs))
        tx__violate(k->v, "--model-type BERT has no such index: leave --train-doc-idx-path, --train-sample-idx-path, "
                          "--train-shuffle-idx-path and --train-data-exact-num-epochs out");
    if (is_bert(k) && !k->bad->data_order && k->c->data_order != TX_DATA_ORDER_MICROSOFT)
        tx__violate(k->v, "--model-type BERT has one order of samples, Megatron's: leave --data-order %s out",
                    tx_data_order_word(k->c->data_order));
}

/* Pairs and masks need its tokenizer. That a file of it is missing is said elsewhere, but where it may lie beside a
 * checkpoint. */
static void rule_bert_reads_pieces_of_words(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->model_type || k->bad->tokenizer_type || !is_bert(k)) return;
    bool shows = c->command->id == TX_COMMAND_INSPECT_SAMPLES;
    if (!tx_tokenizer_is_wordpiece(c->tokenizer_type) || (shows && !c->vocab_file && !k->g->vocab_file))
        tx__violate(k->v, "--model-type BERT needs --tokenizer-type " TX_TOKENIZERS_WORDPIECE ", and --vocab-file");
}

/* ---------------------------------------------------------------- options of a GPT */

static void rule_bert_has_no_documents(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->model_type || !is_bert(k)) return;
    if (c->eod_mask_loss || c->reset_position_ids || c->reset_attention_mask)
        tx__violate(k->v,
                    "--model-type BERT: --eod-mask-loss, --reset-position-ids and --reset-attention-mask are of a "
                    "GPT, leave them out");
}

static void rule_bert_has_one_embedding(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->model_type || !is_bert(k)) return;
    if (c->untie_embeddings_and_output_weights)
        tx__violate(k->v, "--model-type BERT: its head has the embedding's weights, leave "
                          "--untie-embeddings-and-output-weights out");
    if (c->embed_layernorm)
        tx__violate(k->v, "--model-type BERT: --embed-layernorm is of BigScience's GPT, leave it out; "
                          "--post-layernorm has a norm behind the embedding, too");
}

static void rule_bert_has_no_z_loss(const tx__check *k)
{
    if (k->bad->model_type || k->bad->z_loss_weight || !is_bert(k) || k->c->z_loss_weight <= 0) return;
    tx__violate(k->v, "--model-type BERT: --z-loss-weight is of a GPT's output layer, leave it out");
}

static void rule_bert_has_its_own_head(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->model_type || !is_bert(k)) return;
    const struct {
        bool given;
        const char *flag;
    } own[] = { { c->output_bias, "output-bias" },
                { c->logits_scale != 1 && !k->bad->logits_scale, "logits-scale" },
                { c->final_logit_softcap > 0 && !k->bad->final_logit_softcap, "final-logit-softcap" } };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].given)
            tx__violate(k->v, "--model-type BERT: --%s is of a GPT's output layer, leave it out", own[i].flag);
}

static void rule_bert_continues_no_text(const tx__check *k)
{
    if (k->bad->model_type || k->bad->eval_tasks || !is_bert(k) || !k->c->eval_tasks.n) return;
    tx__violate(k->v, "--model-type BERT continues no text, as --eval-tasks have it: leave the flag out");
}

/* ---------------------------------------------------------------- where a layer's norms are */

static void rule_norms_are_in_one_place(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->post_layernorm) return;
    if (c->apply_residual_connection_post_layernorm)
        tx__violate(k->v, "--post-layernorm has its residuals behind the norms already: leave "
                          "--apply-residual-connection-post-layernorm out");
    if (c->fp32_residual_connection)
        tx__violate(k->v, "--post-layernorm: a residual is the output of a norm, which has the type of the weights: "
                          "leave --fp32-residual-connection out");
    if (c->embed_layernorm && !is_bert(k))
        tx__violate(k->v, "--post-layernorm has a norm behind the embedding already: leave --embed-layernorm out");
}

/* ---------------------------------------------------------------- the table */

const tx__rule tx__rules_bert[] = {
    { "pretrain", rule_command_has_its_model },
    { "pretrain", rule_index_is_of_the_model },
    { "pretrain", rule_bert_reads_pieces_of_words },
    { "pretrain", rule_bert_has_no_documents },
    { "pretrain", rule_bert_has_one_embedding },
    { "pretrain", rule_bert_has_no_z_loss },
    { "pretrain", rule_bert_has_its_own_head },
    { "pretrain", rule_bert_continues_no_text },
    { "pretrain", rule_norms_are_in_one_place },
    { "inspect-samples", rule_bert_samples_are_of_a_bert },
    { "inspect-samples", rule_index_is_of_the_model },
    { "inspect-samples", rule_bert_reads_pieces_of_words },
    { "inspect-samples", rule_bert_has_no_documents },
    { "analyze-data", rule_index_is_of_the_model },
    { "analyze-data", rule_bert_reads_pieces_of_words },
    { "analyze-data", rule_bert_has_no_documents },
    { NULL, NULL },
};
