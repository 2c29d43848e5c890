/* char_lm_model.h - a character transformer's sizes, parameters and text, and its attention kernel, in plain C: what
 * both language models share. Arrays are row-major; b is a number of samples.
 *
 *      character + position -> 2 x [ x + attention(norm x), x + mlp(norm x) ] -> norm -> linear -> cross-entropy    */
#ifndef CHAR_LM_MODEL_H
#define CHAR_LM_MODEL_H

#include <stdint.h>

#ifndef WIDTH
#define WIDTH 32 /* -DWIDTH=256: a larger one */
#endif
enum { VOCAB = 28, LENGTH = 32, HIDDEN = WIDTH, HEADS = 4, HEAD = HIDDEN / HEADS, INNER = 4 * HIDDEN, BLOCKS = 2 };
#define EPSILON 1e-5

/* Parameters of one layer, in the order of its table. */
enum { WORD, POSITION, N_EMBEDDING };
enum { LN1_W, LN1_B, QKV_W, QKV_B, OUT_W, OUT_B, LN2_W, LN2_B, UP_W, UP_B, DOWN_W, DOWN_B, N_BLOCK };
enum { LN_W, LN_B, LOGIT_W, N_HEAD };

typedef struct char_lm_param {
    const char *name;
    int64_t dim[2]; /* [1] is 0 of a vector */
} char_lm_param;

/* Layers: the embedding, BLOCKS blocks, the head. */
typedef struct char_lm_layer {
    const char *name;
    const char_lm_param *param;
    int n_params;
} char_lm_layer;

enum { N_LAYERS = BLOCKS + 2 };
extern const char_lm_layer char_lm_layers[N_LAYERS];

/* Initial values of elements [first, first + n) of parameter "<layer>.<name>"; a function of these alone. */
void char_lm_initial(void *unused, const char *name, int64_t first, int64_t n, float *x);

/* Sample number i of an endless text of short sentences: what stands at each place, and what comes next.
 * @token [LENGTH]   @next [LENGTH] */
void char_lm_sample(int64_t i, int32_t *token, int32_t *next);

/* Causal attention: o = softmax(q kᵀ / sqrt(HEAD)) v by head.
 * @o [b, LENGTH, HIDDEN]   @p [b, HEADS, LENGTH, LENGTH], for backward   @qkv [b, LENGTH, 3, HEADS, HEAD] */
void char_lm_attention_fwd(float *o, float *p, const float *qkv, int64_t b);

/* @dqkv as qkv, written   @d_o as o */
void char_lm_attention_bwd(float *dqkv, const float *d_o, const float *p, const float *qkv, int64_t b);

#endif
