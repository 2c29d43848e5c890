/* gpt.h - GPT-2 and GPT-3: learned positions, pre-LayerNorm layers, head tied to the word embedding.
 *
 *      x0 = drop(word[token] + position[pos]);  x_{l+1} = block_l(x_l);  loss = xent(LN(x_L) wordᵀ)
 *
 *  Radford et al. 2019; arXiv:2005.14165; Megatron-LM arXiv:1909.08053. */
#ifndef TX_MODEL_GPT_GPT_H
#define TX_MODEL_GPT_GPT_H

#include "model/model.h"
#include "nn/block.h"

typedef struct tx_gpt {
    tx_model base; /* first: a tx_model * is a tx_gpt * */
    tx_weight word, pos;
    tx_norm final_norm;
    tx_block *block; /* [n_layers] */
    double p_drop;
    /* what the forward of the micro-batch in flight left for its backward; tensors lie on the activation stack */
    struct tx_gpt_saved {
        tx_block_saved *block; /* [n_layers] */
        tx_norm_saved final_norm;
        tx_tensor x; /* [s, b, h], input of the final norm */
        tx_tensor d; /* [s, b, h], gradient of the final norm's output */
        size_t mark; /* of the stack before forward */
    } saved;
} tx_gpt;

/* gpt_names.c: Hugging Face's names, layouts and config.json. */
tx_status tx__gpt_hf_options(json_t **out, const json_t *hf_config);
tx_status tx__gpt_hf_config(json_t **out, const tx_model *m);
tx_status tx__gpt_hf_name(char *name, size_t cap, const tx_model *m, const tx_param *p);
void tx__gpt_hf_layout(const tx_model *m, const tx_param *p, float *theirs, float *ours, bool to_hf, int64_t dim[2]);

#endif
