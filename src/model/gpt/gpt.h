/* gpt.h - models that continue text: GPT-2, GPT-3, and by their options Llama and what lies between.
 *
 *      x0 = drop(word[token] + position[pos]);  x_{l+1} = block_l(x_l);  loss = xent(norm(x_L) headᵀ)
 *
 *  The head is the word embedding, or with --untie-embeddings-and-output-weights a matrix of its own. Learned positions
 *  may be absent: rotary ones turn queries and keys inside the blocks.
 *  Radford et al. 2019; arXiv:2005.14165; Megatron-LM arXiv:1909.08053; Llama arXiv:2302.13971. */
#ifndef TX_MODEL_GPT_GPT_H
#define TX_MODEL_GPT_GPT_H

#include "model/model.h"
#include "nn/block.h"

typedef struct tx_gpt {
    tx_model base; /* first: a tx_model * is a tx_gpt * */
    tx_weight word, pos, output;
    const tx_weight *head; /* word or output */
    bool norms_embedding;  /* --embed-layernorm: norm(word[token]) takes the place of word[token] */
    tx_norm word_norm, final_norm;
    tx_block *block; /* [n_layers] */
    double p_drop;
    /* what the forward of the micro-batch in flight left for its backward; tensors lie on the activation stack */
    struct tx_gpt_saved {
        tx_block_saved *block; /* [n_layers] */
        tx_norm_saved word_norm, final_norm;
        tx_tensor e;      /* [s, b, h], input of the embedding's norm */
        tx_tensor x;      /* [s, b, h], input of the final norm */
        tx_tensor dy;     /* [s, b, h], gradient of the final norm's output */
        tx_tensor d;      /* [s, b, h], of its input; dy's memory where the stream has dy's dtype */
        size_t mark;      /* of the stack before forward */
        size_t head_mark; /* of the stack behind the layers */
    } saved;
} tx_gpt;

/* What a GPT may be without, beside its blocks' traits (block.h). */
enum { TX_WITH_POS_EMB = 256, TX_WITH_OUTPUT = 512, TX_WITH_E_NORM = 1024, TX_WITH_TIED = 2048 };

#endif
