/* gpt.h - models that continue text: GPT-2, GPT-3, and by their options Llama and what lies between.
 *
 *      loss = xent(form(y headᵀ + bias))          y: a transformer's (model/transformer.h), causal
 *
 *  form is --logits-scale and --final-logit-softcap. The head is the word embedding, or with
 * --untie-embeddings-and-output-weights a matrix of its own. Radford et al. 2019; arXiv:2005.14165; Megatron-LM
 * arXiv:1909.08053; Llama arXiv:2302.13971. */
#ifndef TX_MODEL_GPT_GPT_H
#define TX_MODEL_GPT_GPT_H

#include "model/transformer.h"

typedef struct tx_gpt {
    tx_transformer t; /* first: a tx_model * is a tx_gpt * */
    tx_weight output;
    tx_weight *head;       /* word or output */
    tx_weight output_bias; /* or nothing */
    tx_logit_form form;
} tx_gpt;

extern const tx_model_type tx_model_gpt;

enum { TX_WITH_OUTPUT = TX_HEAD_TRAITS, TX_WITH_OUTPUT_BIAS = 2 * TX_HEAD_TRAITS };

/* As tx_transformer_is_plain, and of its head. */
bool tx__gpt_is_plain(const tx_gpt *g);

/* gpt_batch.c: tx_model_type's */
void tx__gpt_shape(const tx_model *m, const tx_config *cfg, tx_batch *batch, int64_t s, int64_t b);
tx_status tx__gpt_collate(const tx_model *m, tx_batch *batch, const void *rows, const tx_batch_rule *rule);
void tx__gpt_losses(const tx_model *m, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum);

#endif
