/* kernels.h - the table of inner loops (kernels.def), one instance for each instruction set, and their structs.
 * cpu_*.c share the work among threads and call these; cpu_backend.c picks the table once, by cpuid. */
#ifndef TX_BACKEND_CPU_ISA_KERNELS_H
#define TX_BACKEND_CPU_ISA_KERNELS_H

#include "backend/ops.h"

/* adam's constants, folded: g' = scale g + l2 p, p -= rate m / (sqrt(v) root + eps) + decay p */
typedef struct tx__adam_step {
    float scale, beta1, beta2, one_minus_beta1, one_minus_beta2, rate, root, eps, decay, l2;
} tx__adam_step;

/* g' = scale g + decay p, m = momentum m + keep g', p -= of_grad g' + of_momentum m */
typedef struct tx__sgd_step {
    float scale, momentum, decay, keep, of_grad, of_momentum;
} tx__sgd_step;

/* p -= rate sign(beta1 m + one_minus_beta1 scale g) + decay p */
typedef struct tx__lion_step {
    float scale, beta1, beta2, one_minus_beta1, one_minus_beta2, rate, decay;
} tx__lion_step;

typedef struct tx__adagrad_step {
    float scale, rate, eps, decay;
} tx__adagrad_step;

/* LAMB's constants, folded: u = first m / (sqrt(second v + inside) + outside) + decay p,  p -= rate u */
typedef struct tx__lamb_step {
    float scale, beta1, beta2, one_minus_beta1, one_minus_beta2, first, second, inside, outside, decay, rate;
} tx__lamb_step;

typedef struct tx__lamb_arrays {
    float *m, *v;
    const float *p, *g;
    double *of_p, *of_u; /* squares of p and of u: a sum for each TX_SUMSQ_BLOCK elements */
} tx__lamb_arrays;

typedef struct tx__lamb_fresh {
    float *m, *fresh;
    const float *x, *v, *p;
    double *of_w, *of_u, *most; /* likewise; most is one's */
} tx__lamb_fresh;

typedef struct tx__blend_step {
    float alpha, beta;
} tx__blend_step;

typedef struct tx__drop {
    tx_rng rng;
    uint32_t drop;
    float scale;
} tx__drop;

/* n elements in each of `rows` rows of a mask: the first row's from e on, and each e_row after those of the one before
 * it. */
typedef struct tx__mask_elements {
    uint64_t e, e_row;
    int64_t rows, n;
} tx__mask_elements;

/* y = residual + mask x, each of its own type; residual NULL: 0 */
typedef struct tx__dropout_add {
    void *y;
    const void *x, *residual;
    tx_dtype y_type, x_type, residual_type;
} tx__dropout_add;

/* A row of a gated unit's backward, all of type t. */
typedef struct tx__glu_bwd {
    void *dgate, *dup;
    const void *dy, *gate, *up;
    tx_dtype t;
} tx__glu_bwd;

/* What a row's loss has beside the cross-entropy: tx_even_smoothing of the label's weight, and the z-loss. */
typedef struct tx__loss_terms {
    double even, z_weight;
    float *z_loss; /* out; NULL: not asked for */
} tx__loss_terms;

/* What becomes of a row's logits: tx_logit_form, whose scale is there. */
typedef struct tx__capped {
    float scale, cap;
} tx__capped;

/* What a row's gradient by a teacher depends on. */
typedef struct tx__taught {
    float cold;         /* 1 / temperature */
    float lse;          /* log Σ exp(cold z) */
    float scale, share; /* of softmax(cold z), and of what distill_part has left in t */
} tx__taught;

/* Rows of h for a norm, forward or backward; values are of type t, the stream's tensors of type s, which is t or fp32.
 * Without means (RMSNorm) mu, beta and dbeta are not there. */
typedef struct tx__norm_rows {
    tx_dtype t, s;
    int64_t h;
    double eps;                /* of forward */
    const float *gamma, *beta; /* [h]; beta NULL: there is none */
    const void *x;             /* s */
    void *y;                   /* t, of forward */
    float *mu, *rs;            /* [rows], out of forward and into backward */
    void *dx;                  /* s */
    const void *dy;            /* t */
    const void *dres;          /* s, NULL: none */
    float *dgamma, *dbeta;     /* [h] */
    const float *whole;        /* [rows], of whole rows: Σ x², or in backward Σ dy gamma x; NULL: they are these */
    int64_t columns;           /* of a whole row, with whole */
} tx__norm_rows;

/* Rows of h of which a dot is to be found; a and b are of type t. */
typedef struct tx__dot_rows {
    tx_dtype t;
    int64_t h;
    const void *a, *b;
    const float *gamma; /* [h]; NULL: 1 */
    float *y;           /* [rows] */
} tx__dot_rows;

/* One head of one sample. Tensors are of `dtype` - fp32, bf16 or fp16 -, lse is fp32 and so is what is computed in.
 * Rows of q, o, ... lie q_s, o_s, ... elements apart. Element e + query position × e_row + key of the dropout mask
 * belongs to (query, key). */
typedef struct tx__attn {
    tx_dtype dtype;
    float *lse; /* [sq], NULL: not wanted */
    void *o;
    const void *q, *k, *v;
    int64_t o_s, q_s, k_s, v_s;
    int64_t sq, sk, d; /* sk: keys that there are */
    int64_t q0;        /* position of query 0, counted from key 0; of a part it may be below 0 */
    float slope;       /* of the head's biases of positions; 0: none */
    float scale;
    bool causal;
    const tx__drop *drop; /* NULL: none */
    uint64_t e, e_row;
    const int32_t *first_key;          /* of query 0, NULL: 0 for all */
    int64_t first_key_s, first_key_at; /* what first_key counts key 0 as */
    int64_t window;                    /* 0: all before it */
    float softcap;                     /* 0: none */
    bool has_sink;
    float sink;
    /* backward; o and lse are inputs there */
    void *dq, *dk, *dv;
    const void *do_;
    int64_t dq_s, dk_s, dv_s, do_s;
    float *dsink; /* of this sample's head alone, out; NULL: not wanted */
} tx__attn;

/* How many keys there are up to the last one that query i sees, and the first that it sees. */
static inline int64_t tx__attn_end(const tx__attn *a, int64_t i)
{
    int64_t end = a->causal ? i + 1 + a->q0 : a->sk;
    return end < 0 ? 0 : end < a->sk ? end : a->sk;
}
static inline int64_t tx__attn_begin(const tx__attn *a, int64_t i)
{
    int64_t first = a->first_key ? a->first_key[i * a->first_key_s] - a->first_key_at : 0,
            begin = a->window ? i + a->q0 - a->window : 0;
    first = first > begin ? first : begin;
    return first > 0 ? first : 0;
}

/* The product of a few rows: c[m, n] = a[m, k] b[n, k]ᵀ + bias. a, b and bias are of type t, c of c_type, which is t or
 * fp32; rows of a, b and c lie lda, ldb and ldc elements apart. */
typedef struct tx__few {
    tx_dtype t, c_type;
    const void *a, *b, *bias; /* bias NULL: none */
    void *c;
    int64_t m, k, lda, ldb, ldc;
    /* the kernel's own: */
    int64_t ahead;
    bool whole;
} tx__few;

enum { TX__FEW_STRETCH = 1024 }; /* bytes */

/* Bytes of `work`: a copy of a in stretches. */
static inline size_t tx__few_work(int64_t m, int64_t k, size_t size)
{
    size_t row = ((size_t)k * size + TX__FEW_STRETCH - 1) / TX__FEW_STRETCH * TX__FEW_STRETCH;
    return m == 1 ? 0 : (size_t)m * row;
}

/* A block of a product: c [m, n] = op(a) op(b) + bias, sums over k. a, b and bias are of type t, c of c_type, which is
 * t or fp32; rows of a, b and c lie lda, ldb and ldc elements apart. */
typedef struct tx__tile_block {
    tx_dtype t, c_type;
    const void *a, *b, *bias; /* bias NULL: none */
    void *c;
    int64_t m, n, k, lda, ldb, ldc;
    bool accumulate; /* of_columns: c, which is fp32 there, is added to */
} tx__tile_block;

/* At most so many rows of a block (of_columns: of columns of a), and in by_rows and by_columns so many numbers, rows
 * and columns each rounded up to TX__LANES. What is copied of a goes through k in stretches of TX__BLOCK_K. */
enum { TX__BLOCK_K = 256, TX__BLOCK_M = 192, TX__BLOCK_SIZE = 32768 };

/* Floats of `work`: what is copied of a, a panel of b, sums. */
enum { TX__BLOCK_WORK = TX__BLOCK_K * (TX__BLOCK_M + 64) + TX__BLOCK_K * 64 + TX__BLOCK_SIZE };

/* Attention works on blocks of queries × keys. Sizes of packed rows are rounded up to TX__LANES, the widest vector in
 * floats, so that no loop over them has a remainder; what is added is zero.
 *  fwd: attn_pack_fwd copies k and v of a head to `packed`, attn_fwd runs one query head against them. attn_fwd_few
 * does the same for a few queries in place, without packing (generation). attn_pack_keys and attn_max, which gives the
 * largest of scores that is above 0, or 0, read no v and need as much room. bwd: attn_pack_bwd copies k and v and
 * clears dk, dv in `packed`; attn_bwd adds one query head to them and writes its dq; attn_unpack_bwd writes dk and dv
 * out. */
enum { TX__LANES = 16, TX__ATTN_Q = 64, TX__ATTN_K = 64, TX__ATTN_ABREAST = 4, TX__PEAK_CHAINS = 16 };

static inline int64_t tx__lanes(int64_t n)
{
    return (n + TX__LANES - 1) / TX__LANES * TX__LANES;
}

/* Blocks of queries that go through the keys side by side, so that a block of keys comes into the nearest cache once
 * for all of them. The order of all sums is as if they went one after the other. */
static inline int64_t tx__attn_abreast(int64_t sq)
{
    int64_t n = (sq + TX__ATTN_Q - 1) / TX__ATTN_Q;
    return n < TX__ATTN_ABREAST ? n : TX__ATTN_ABREAST;
}

/* Floats that `packed` and `work` have to hold. */
static inline int64_t tx__attn_fwd_packed(int64_t sk, int64_t d)
{
    return 2 * tx__lanes(sk) * tx__lanes(d); /* kᵀ, v */
}
static inline int64_t tx__attn_fwd_room(int64_t d) /* of a block of queries */
{
    return TX__ATTN_Q * (2 * tx__lanes(d) + 3); /* q, o; max, sum, room */
}
static inline int64_t tx__attn_fwd_work(int64_t sq, int64_t d)
{
    return tx__attn_abreast(sq) * tx__attn_fwd_room(d) + TX__ATTN_Q * 2 * TX__ATTN_K; /* p, mask */
}
static inline int64_t tx__attn_few_work(int64_t sk, int64_t d)
{
    return 2 * tx__lanes(sk) + 3 * tx__lanes(d); /* p; mask; a row of q, of k or v, of o */
}
static inline int64_t tx__attn_bwd_packed(int64_t sk, int64_t d)
{
    return 5 * tx__lanes(sk) * tx__lanes(d); /* kᵀ, vᵀ, k, dk, dv */
}
static inline int64_t tx__attn_bwd_room(int64_t d)
{
    return TX__ATTN_Q * (4 * tx__lanes(d) + 1); /* q, do; both across; dq; D */
}
static inline int64_t tx__attn_bwd_work(int64_t sq, int64_t d)
{
    return tx__attn_abreast(sq) * tx__attn_bwd_room(d) + TX__ATTN_Q * 4 * TX__ATTN_K; /* p, ds, mask, cap */
}

typedef struct tx__cpu_kernels {
#define K(result, name, args) result(*name) args;
#include "backend/cpu/isa/kernels.def"
#undef K
} tx__cpu_kernels;

extern const tx__cpu_kernels tx__cpu_kernels_generic, tx__cpu_kernels_avx2, tx__cpu_kernels_avx512,
    tx__cpu_kernels_avx512_bf16;

#endif
