/* random_model.h - models with random weights, the same in every layout of ranks, and logits of theirs told apart.
 * What may run on ranks that are threads, where cmocka cannot fail, returns a status. */
#ifndef TX_TESTS_RANDOM_MODEL_H
#define TX_TESTS_RANDOM_MODEL_H

#include "support.h"

#include "base/half.h"
#include "base/rng.h"
#include "infer/decoder.h"

#define MODEL_SIZES                                                                                           \
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 200 --max-position-embeddings 200 " \
    "--micro-batch-size 1 --global-batch-size 1 --lr 1 --train-iters 1 --data-path none --vocab-size 509 "    \
    "--tokenizer-type NullTokenizer --make-vocab-size-divisible-by 8 --hidden-dropout 0 --attention-dropout 0 "
#define LIKE_GPT2 MODEL_SIZES
#define LIKE_LLAMA                                                                             \
    MODEL_SIZES "--normalization rmsnorm --swiglu --ffn-hidden-size 48 --disable-bias-linear " \
                "--use-rotary-position-embeddings --untie-embeddings-and-output-weights "      \
                "--no-position-embedding --num-key-value-heads 2 --kv-channels 12 "
#define LIKE_DYNAMIC LIKE_LLAMA "--rope-scaling-type dynamic --rope-scaling-factor 3 --rope-original-positions 64 "
#define LIKE_OLMO                                                                              \
    MODEL_SIZES "--normalization rmsnorm --swiglu --ffn-hidden-size 48 --disable-bias-linear " \
                "--use-rotary-position-embeddings --untie-embeddings-and-output-weights "      \
                "--num-key-value-heads 2 --qk-layernorm-whole --rope-scaling-type yarn "       \
                "--rope-scaling-factor 4 --rope-original-positions 64 --rotary-interleaved "   \
                "--no-rope-freq 4 "
#define LIKE_BLOOM                                                                            \
    MODEL_SIZES "--position-embedding-type alibi --embed-layernorm --num-attention-heads 12 " \
                "--kv-channels 8 --num-key-value-heads 4 "
#define LIKE_GPT_OSS                                                                                    \
    LIKE_LLAMA "--window-size 70 --window-attn-skip-freq 2 --attention-logit-softcap 5 --softmax-type " \
               "learnable --attention-scale 0.2 "
#define LIKE_GEMMA2                                                                             \
    MODEL_SIZES "--normalization rmsnorm --gated-activation gelu_tanh --ffn-hidden-size 48 "    \
                "--disable-bias-linear --use-rotary-position-embeddings --norm-placement both " \
                "--embedding-scale 5 --residual-scale 0.8 --final-logit-softcap 4 --logits-scale 0.7 "
#define LIKE_PHI                                                                         \
    MODEL_SIZES "--parallel-residual one_norm --output-bias --disable-norm-bias --relu " \
                "--untie-embeddings-and-output-weights --use-rotary-position-embeddings "
#define LIKE_MIXTRAL                                                           \
    LIKE_LLAMA "--num-experts 6 --moe-router-topk 2 --moe-ffn-hidden-size 16 " \
               "--moe-shared-expert-intermediate-size 8 --moe-shared-expert-gate "
#define LIKE_DEEPSPEED MODEL_SIZES "--num-experts 4 --topk 2 --mlp-type residual --moe-min-capacity 1 "

enum { VOCAB = 509 };

/* Matrices, biases and what shifts are random and large enough to tell sequences apart. */
static inline tx_status random_weights(const tx_model *m, float *x)
{
    const tx_init_method method = { .std = 0.2, .n_layers = 1 };
    for (int i = 0; i < m->params.n; i++) {
        tx_param p = m->params.param[i];
        if (p.init != TX_INIT_ONE) p.init = TX_INIT_NORMAL;
        tx_param_init(&p, x + p.offset, 0, p.numel, 7, method);
    }
    return TX_OK;
}

/* This rank's part of the model that the flags of pretrain-gpt say. @value its parameters, freed with tx_free */
static inline tx_status random_model(tx_model **out, void **value, const tx_config *cfg, const tx_grid *grid)
{
    tx_model *m = NULL;
    float *x = NULL;
    tx_status st;
    TX_GOTO(tx_model_type_of(cfg)->create(&m, cfg, VOCAB, grid));
    TX_GOTO(tx_alloc(&x, (size_t)m->params.numel, sizeof *x, "test"));
    TX_GOTO(random_weights(m, x));
    if (m->dtype != TX_F32) {
        void *half;
        TX_GOTO(tx_alloc(&half, (size_t)m->params.numel, tx_dtype_size(m->dtype), "test"));
        tx_params_round(half, m->dtype, x, m->params.numel);
        tx_free(x);
        x = half;
    }
    tx_params_bind(&m->params, x, m->dtype, NULL);
    *out = m;
    *value = x;
    return TX_OK;
out:
    if (m) m->type->destroy(m);
    tx_free(x);
    return st;
}

/* Token i of text `number`. */
static inline int32_t token_of(int number, int64_t i)
{
    const tx_rng rng = { .seed = 11, .stream = (uint32_t)number };
    uint32_t w[4];
    tx_rng_u32x4(&rng, (uint64_t)i, w);
    return (int32_t)(w[0] % VOCAB);
}

static inline void text_of(int number, int32_t *token, int64_t n)
{
    for (int64_t i = 0; i < n; i++) token[i] = token_of(number, i);
}

/* A tx_logits_fn that keeps them all: [positions, VOCAB], from position `first` on. */
typedef struct kept_logits {
    float *row;
    int64_t first, n;
} kept_logits;

static inline tx_status keep_logits(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    kept_logits *k = user;
    if (first != k->first + k->n) return TX_FAIL(TX_ERR_NUMERIC, "logits of %lld out of turn", (long long)first);
    for (int64_t i = 0; i < n_rows; i++, k->n++)
        memcpy(k->row + k->n * VOCAB, logits + i * stride, VOCAB * sizeof(float));
    return TX_OK;
}

/* Near, and of the same largest one where that is decided by more than 1e-4. */
static inline tx_status same_logits(const float *got, const float *want, const char *what)
{
    int best = 0, best_got = 0;
    double second = -INFINITY;
    for (int v = 0; v < VOCAB; v++) {
        if (!(fabs((double)got[v] - (double)want[v]) <= 1e-4))
            return TX_FAIL(TX_ERR_NUMERIC, "%s: logit %d is %.9g, expected %.9g", what, v, (double)got[v],
                           (double)want[v]);
        if (want[v] > want[best]) best = v;
        if (got[v] > got[best_got]) best_got = v;
    }
    for (int v = 0; v < VOCAB; v++)
        if (v != best) second = fmax(second, (double)want[v]);
    if (best_got == best || (double)want[best] - second <= 1e-4) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC, "%s: token %d, expected %d by %.2e", what, best_got, best,
                   (double)want[best] - second);
}

#endif
