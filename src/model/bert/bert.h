/* bert.h - BERT: a transformer that sees a sample from both sides, with two heads (Devlin et al. arXiv:1810.04805; as
 * Megatron-LM has it, arXiv:1909.08053 §5.3).
 *
 *      X   = y's rows that the heads read             first of all samples', then those of the masked tokens
 *      lm  = xent(norm(gelu(X W_lmᵀ + b_lm)) wordᵀ + b)             mean over the micro-batch's masked tokens
 *      sop = xent(tanh(X W_poolᵀ + b_pool) W_binᵀ + b_bin)          mean over its samples: is the second segment first?
 *
 *  y is a transformer's (model/transformer.h), which with --post-layernorm is the original's and Hugging Face's
 *  BertForPreTraining, else Megatron's. Of [s b] rows some 15 % are masked, so logits of the others are never computed.
 *  The heads but for the vocabulary's matrix are whole on every tensor rank, which all compute the same there. */
#ifndef TX_MODEL_BERT_BERT_H
#define TX_MODEL_BERT_BERT_H

#include "model/transformer.h"
#include "nn/linear.h"

/* What a micro-batch's heads left for backward; tensors lie on the activation stack. n rows of labels. */
typedef struct tx_bert_saved {
    tx_tensor x; /* [b + n, h], X */
    tx_tensor u; /* [n, h], before gelu */
    tx_tensor g; /* [n, h], after it */
    tx_norm_saved norm;
    tx_tensor pooled, dlogits; /* [b, h], before tanh; [b, 2] */
    tx_tensor tanh;            /* [b, h] */
} tx_bert_saved;

typedef struct tx_bert {
    tx_transformer t;         /* first: a tx_model * is a tx_bert * */
    tx_linear dense;          /* lm_head's [h, h] */
    tx_norm norm;             /* lm_head's */
    tx_weight bias;           /* lm_head's [V/t] */
    tx_linear pooler;         /* [h, h] */
    tx_linear binary;         /* [2, h] */
    tx_activation activation; /* lm_head's */
    bool has_binary;
} tx_bert;

extern const tx_model_type tx_model_bert;

enum { TX_WITH_BINARY = TX_HEAD_TRAITS };

/* bert_batch.c: tx_model_type's. A sample is [tokens s][types s][labels s][real tokens][is_random]. */
void tx__bert_shape(const tx_model *m, const tx_config *cfg, tx_batch *batch, int64_t s, int64_t b);
tx_status tx__bert_collate(const tx_model *m, tx_batch *batch, const void *rows, const tx_batch_rule *rule);
void tx__bert_losses(const tx_model *m, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum);

#endif
