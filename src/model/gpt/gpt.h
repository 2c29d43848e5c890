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
#include "nn/kept_input.h"

/* What the forward of a micro-batch through a chunk left for its backward; tensors lie on the activation stack. s is
 * the positions of a rank. */
typedef struct tx_gpt_saved {
    tx_block_saved *block; /* of the chunk's layers; in one piece with all slots'. The x of a group that is computed
                            * again is what is kept of its input (nn/kept_input.h) */
    tx_norm_saved word_norm, final_norm;
    tx_tensor e;      /* [s, b, h], input of the embedding's norm */
    tx_tensor x;      /* [s, b, h], input of the final norm, or what is behind the chunk's last layer */
    tx_tensor dy;     /* [s, b, h], gradient of the final norm's output */
    tx_tensor d;      /* [s, b, h], of its input; dy's memory where the stream has dy's dtype */
    size_t mark;      /* of the stack before forward */
    size_t head_mark; /* of the stack behind the layers */
    size_t host_mark; /* of the host's stack before forward */
} tx_gpt_saved;

typedef struct tx_gpt {
    tx_model base;   /* first: a tx_model * is a tx_gpt * */
    unsigned traits; /* of the whole model, also of what other stages have */
    tx_weight word, pos, output;
    tx_weight *head;      /* word or output */
    bool norms_embedding; /* --embed-layernorm: norm(word[token]) takes the place of word[token] */
    tx_norm word_norm, final_norm;
    tx_block *block; /* this stage's, chunk by chunk */
    struct {
        int words, embedding; /* the words' matrix, which may be the head's as well; positions and a norm */
        int layers;           /* the first one of block[]; the others follow */
        int norm, head;
    } unit; /* of the parameter table; -1: not on this stage */
    int n_blocks;
    int at[TX_MAX_CHUNKS]; /* where a chunk's layers begin among them */
    double p_drop;
    tx_gpt_saved *saved; /* one a slot */
} tx_gpt;

tx_status tx__gpt_declare(tx_gpt *g, const tx_config *cfg, const tx_grid *grid); /* gpt_params.c */

/* gpt_create.c: tx_model_type's */
tx_status tx__gpt_create(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid);
tx_status tx__gpt_hold(tx_model *m, int n_slots);
void tx__gpt_destroy(tx_model *m);

/* What a GPT may be without, beside its blocks' traits (block.h). A word embedding that is the head as well is written
 * by the head first. */
enum { TX_WITH_POS = 256, TX_WITH_OUTPUT = 512, TX_WITH_ENORM = 1024, TX_WITH_WORDS = 2048, TX_WITH_HEAD = 4096 };

#endif
