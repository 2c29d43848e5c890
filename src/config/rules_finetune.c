/* rules_finetune.c - rules across options: conversations to fine-tune on. */
#include "config/rules.h"

/* Whether any option of them is given but the data themselves, and which. */
static const char *names_any(const tx_config_given *g)
{
    return g->finetune_valid_data    ? "finetune-valid-data"
           : g->finetune_epochs      ? "finetune-epochs"
           : g->chat_template        ? "chat-template"
           : g->finetune_packing     ? "no-finetune-packing"
           : g->finetune_truncate    ? "finetune-truncate"
           : g->loss_on_targets_only ? "loss-on-targets-only"
           : g->loss_on_all_tokens   ? "loss-on-all-tokens"
                                     : NULL;
}

static void rule_finetuning_has_data(const tx__check *k)
{
    const char *flag = names_any(k->g);
    if (k->g->finetune_data || k->c->finetune_data.n || !flag) return;
    if (k->g->loss_on_targets_only)
        tx__violate(k->v,
                    "--loss-on-targets-only needs --finetune-data, JSON lines that say what is an answer: running "
                    "text has no targets of its own");
    else
        tx__violate(k->v, "--%s needs --finetune-data", flag);
}

static void rule_conversations_are_the_data(const tx__check *k)
{
    const tx_config_given *g = k->g;
    const tx_config *c = k->c;
    if (!g->finetune_data && !c->finetune_data.n) return;
    if (!k->bad->model_type && c->model_type == TX_MODEL_BERT)
        tx__violate(k->v, "--model-type BERT: --finetune-data is for a GPT, leave it out");
    if (g->data_path || g->train_data_path || g->valid_data_path || g->test_data_path || g->train_data ||
        c->mock_data || tx__names_weighted(g))
        tx__violate(k->v, "--finetune-data is the data, and another flag names some: give one of the two");
    if (g->finetune_epochs && (g->train_iters || g->train_samples))
        tx__violate(k->v, "--finetune-epochs and --%s are the length of the run: give one of the two",
                    g->train_iters ? "train-iters" : "train-samples");
    if (g->loss_on_targets_only && c->loss_on_all_tokens)
        tx__violate(k->v, "--loss-on-targets-only and --loss-on-all-tokens: give one of the two");
}

/* What is of running text, or has its place in the rows already. */
static void rule_conversations_are_no_running_text(const tx__check *k)
{
    const tx_config_given *g = k->g;
    const tx_config *c = k->c;
    if (!g->finetune_data && !c->finetune_data.n) return;
    if (c->eod_mask_loss || c->reset_position_ids || c->reset_attention_mask)
        tx__violate(k->v, "--eod-mask-loss, --reset-position-ids and --reset-attention-mask are for running text: "
                          "conversations (--finetune-data) do not see each other anyway; leave them out");
    if (c->fim_data) tx__violate(k->v, "--fim-data is for running text, not for --finetune-data: leave it out");
    if (g->split) tx__violate(k->v, "--split divides --data-path: give --finetune-valid-data FILE, and leave it out");
    if (c->curriculum_schedule)
        tx__violate(k->v,
                    "--curriculum-schedule shortens samples, and --finetune-data's would lose their answers: leave "
                    "it out");
    if (!k->bad->data_order && c->data_order != TX_DATA_ORDER_KEYED)
        tx__violate(k->v, "--data-order %s: conversations (--finetune-data) have the order keyed; leave it out",
                    tx_data_order_word(c->data_order));
    if (!k->bad->tokenizer_type && tx_tokenizer_traits_of(c->tokenizer_type).numbers)
        tx__violate(k->v, "--tokenizer-type %s has no text, which --finetune-data is",
                    tx_tokenizer_type_word(c->tokenizer_type));
    if (!k->bad->tokenizer_type && tx_tokenizer_is_wordpiece(c->tokenizer_type))
        tx__violate(k->v, "--tokenizer-type %s is for BERT, and does not keep the text that --finetune-data is",
                    tx_tokenizer_type_word(c->tokenizer_type));
}

static void rule_best_is_saved_and_evaluated(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->save_best) return;
    if (!c->save && !k->g->save && !tx__plans_only(k)) tx__violate(k->v, "--save-best needs --save");
    if (k->g->eval_iters && !k->bad->eval_iters && !c->eval_iters)
        tx__violate(k->v, "--save-best needs evaluations, and there are none with --eval-iters 0");
}

const tx__rule tx__rules_finetune[] = {
    { "pretrain", rule_finetuning_has_data },
    { "inspect-samples", rule_finetuning_has_data },
    { "pretrain", rule_conversations_are_the_data },
    { "inspect-samples", rule_conversations_are_the_data },
    { "pretrain", rule_conversations_are_no_running_text },
    { "inspect-samples", rule_conversations_are_no_running_text },
    { "pretrain", rule_best_is_saved_and_evaluated },
    { NULL, NULL },
};
