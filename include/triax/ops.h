/* ops.h - operations on tensors and their contracts.
 *
 * A layer fills an argument struct by name and runs the op:
 *
 *      TX_RUN(c, layernorm_fwd, .y = a->ln1, .mu = a->mu1, .rs = a->rs1, .x = x, .gamma = w->g1, .beta = w->b1);
 *
 * TX_RUN checks the shapes, runs the op on the device of the ctx (CPU, GPU), and returns from the calling function on
 * error. In C++ call tx_op_layernorm_fwd(c, &args). In a dry run (tx_ctx_is_dry) an op only counts the memory and the
 * work that it needs, and reads and writes no numbers.
 *
 * Legend: s sequence, b micro-batch, h hidden, n heads, d head size, f ffn, v vocabulary; "rows" is s*b.
 * Tensors are contiguous unless the contract mentions strides. Optional tensors that are left out have data NULL.
 * "float" is fp32, bf16 or fp16. A backend computes in fp32 or better and rounds when it stores. The backend `ref` is
 * the specification: it computes in double, rounds when it stores, and also takes fp64, for checks by finite
 * differences. In one call
 *
 *      values   are activations and parameters, all of one dtype T;
 *      wide     are sums and statistics (mu, rs, lse, loss, weight) and gradients of parameters (col_sum's y, dgamma,
 *               dbeta, dword, dpos, dw), of tx_wide(T): fp32, or fp64 if T is fp64;
 *      stream   is the residual stream, of T or of tx_wide(T), the same for all stream tensors of the call.
 *
 * A tensor that is marked as neither wide nor stream is a value. Where a contract allows two tensors to share memory,
 * they must have the same dtype.
 *
 * Gradients of parameters are accumulated (+=; of matrices unless .accumulate is false). Gradients of activations are
 * written (=).
 * Every op is deterministic: the same arguments and number of threads give the same bits.
 * Errors: TX_ERR_SHAPE names the op and the tensors; TX_ERR_UNSUPPORTED: the backend does not support this dtype. */
#ifndef TRIAX_OPS_H
#define TRIAX_OPS_H

#include "triax/random.h"
#include "triax/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The backend, threads and memory with which a rank computes (model.h). One thread uses it at a time. */
typedef struct tx_ctx tx_ctx;

#ifndef __cplusplus
#define TX_RUN(c, op, ...)                                                           \
    do {                                                                             \
        tx_status tx_op_status_ = tx_op_##op((c), &(tx_##op##_args){ __VA_ARGS__ }); \
        if (tx_op_status_) return tx_op_status_;                                     \
    } while (0)
#endif

/* fill: x = value */
typedef struct tx_fill_args {
    tx_tensor x; /* any shape, float or i32, out */
    double value;
} tx_fill_args;
TX_API tx_status tx_op_fill(tx_ctx *c, const tx_fill_args *a);

/* cast: y = x, converted. Shapes are equal, dtypes may differ. The last dimension has stride 1, all other strides are
 * free. */
typedef struct tx_cast_args {
    tx_tensor y; /* out */
    tx_tensor x;
} tx_cast_args;
TX_API tx_status tx_op_cast(tx_ctx *c, const tx_cast_args *a);

/* copy: y = x, bit by bit, with the same shape and dtype. The last dimension has stride 1, all other strides are free.
 * y is x's memory, or does not overlap it. */
typedef struct tx_copy_args {
    tx_tensor y; /* out */
    tx_tensor x;
} tx_copy_args;
TX_API tx_status tx_op_copy(tx_ctx *c, const tx_copy_args *a);

/* add: y = a + b, element by element; y may be a's or b's memory. The gradients of a and of b are both y's gradient. */
typedef struct tx_add_args {
    tx_tensor y;    /* any shape, contiguous, out; stream, whatever the dtype of a and b */
    tx_tensor a, b; /* as y; stream, whatever the dtype of the other two */
} tx_add_args;
TX_API tx_status tx_op_add(tx_ctx *c, const tx_add_args *a);

/* gemm: C = op(A) op(B) + bias, or op(A) op(B) + C with accumulate,  op(X) = X or Xᵀ.  A linear layer is y = x Wᵀ + b:
 * trans_b with W [out, in]. Without accumulate C is never read, so it may contain NaN. Sums are in fp32 or better, and
 * rounded once; added to a C of two bytes, a device's library may have rounded the product before. */
typedef struct tx_gemm_args {
    tx_tensor c;    /* [m, n], row stride may exceed n; value or wide */
    tx_tensor a;    /* [m, k], or [k, m] with trans_a; row stride may exceed the row */
    tx_tensor b;    /* [k, n], or [n, k] with trans_b; row stride may exceed the row */
    tx_tensor bias; /* [n], optional: added to every row; not with accumulate */
    bool trans_a, trans_b, accumulate;
    bool symmetric; /* the caller knows that the product is, as X Xᵀ: half of it may be computed, and the other half be
                     * its mirror image; neither bias nor accumulate */
} tx_gemm_args;
TX_API tx_status tx_op_gemm(tx_ctx *c, const tx_gemm_args *a);

/* col_sum: y[j] += Σ_i x[i,j] (the gradient of a bias) */
typedef struct tx_col_sum_args {
    tx_tensor y; /* [n], accumulated; wide */
    tx_tensor x; /* [rows, n] */
} tx_col_sum_args;
TX_API tx_status tx_op_col_sum(tx_ctx *c, const tx_col_sum_args *a);

/* layernorm_fwd: y = (x - mu) rs gamma + beta, mu = mean(x), rs = 1/sqrt(var(x) + eps), var biased; per row. beta is
 *  optional. arXiv:1607.06450 */
typedef struct tx_layernorm_fwd_args {
    tx_tensor y;           /* [rows, h], out */
    tx_tensor mu, rs;      /* [rows], out, for backward; wide */
    tx_tensor x;           /* [rows, h]; stream */
    tx_tensor gamma, beta; /* [h]; beta optional */
    double eps;
} tx_layernorm_fwd_args;
TX_API tx_status tx_op_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a);

/* layernorm_bwd: with xhat = (x - mu) rs and g = dy gamma,
 *  dx = dres + rs (g - mean(g) - xhat mean(g xhat)),  dgamma += Σ_rows dy xhat,  dbeta += Σ_rows dy.
 *  dres is the gradient of the residual stream, added here; dx may be dres's or dy's memory. */
typedef struct tx_layernorm_bwd_args {
    tx_tensor dx;            /* [rows, h], out; stream */
    tx_tensor dgamma, dbeta; /* [h], accumulated; wide; dbeta optional */
    tx_tensor dy;            /* [rows, h] */
    tx_tensor x;             /* [rows, h]; stream */
    tx_tensor dres;          /* [rows, h], optional; stream */
    tx_tensor gamma, mu, rs; /* [h], [rows], [rows]; mu and rs wide */
} tx_layernorm_bwd_args;
TX_API tx_status tx_op_layernorm_bwd(tx_ctx *c, const tx_layernorm_bwd_args *a);

/* rmsnorm_fwd: y = x rs gamma, rs = 1/sqrt(mean(x²) + eps); per row. arXiv:1910.07467 */
typedef struct tx_rmsnorm_fwd_args {
    tx_tensor y;     /* [rows, h], out */
    tx_tensor rs;    /* [rows], out, for backward; wide */
    tx_tensor x;     /* [rows, h]; stream */
    tx_tensor gamma; /* [h] */
    double eps;
    tx_tensor squares; /* [rows], optional: Σ x² of whole rows, of which these are some columns; wide */
    int64_t columns;   /* of a whole row, with squares */
} tx_rmsnorm_fwd_args;
TX_API tx_status tx_op_rmsnorm_fwd(tx_ctx *c, const tx_rmsnorm_fwd_args *a);

/* rmsnorm_bwd: with xhat = x rs and g = dy gamma,  dx = dres + rs (g - xhat mean(g xhat)),  dgamma += Σ_rows dy xhat.
 *  dres and dx as in layernorm_bwd. Of some columns the mean is over whole rows: rs dots / columns. */
typedef struct tx_rmsnorm_bwd_args {
    tx_tensor dx;        /* [rows, h], out; stream */
    tx_tensor dgamma;    /* [h], accumulated; wide */
    tx_tensor dy;        /* [rows, h] */
    tx_tensor x;         /* [rows, h]; stream */
    tx_tensor dres;      /* [rows, h], optional; stream */
    tx_tensor gamma, rs; /* [h], [rows]; rs wide */
    tx_tensor dots;      /* [rows], optional: Σ g x of whole rows; wide */
    int64_t columns;     /* of a whole row, with dots */
} tx_rmsnorm_bwd_args;
TX_API tx_status tx_op_rmsnorm_bwd(tx_ctx *c, const tx_rmsnorm_bwd_args *a);

/* activation: element by element one of
 *  TX_GELU_TANH     0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))), the approximation of
 *  TX_GELU_ERF      x Φ(x). arXiv:1606.08415
 *  TX_SQUARED_RELU  max(x, 0)². arXiv:2109.08668
 *  TX_TANH          tanh x
 *  TX_RELU          max(x, 0), whose derivative at 0 is 0 */
typedef enum tx_activation { TX_GELU_TANH, TX_GELU_ERF, TX_SQUARED_RELU, TX_TANH, TX_RELU } tx_activation;
typedef struct tx_activation_fwd_args {
    tx_tensor y; /* out; may be x's memory */
    tx_tensor x;
    tx_activation kind;
} tx_activation_fwd_args;
typedef struct tx_activation_bwd_args {
    tx_tensor dx; /* out; may be dy's memory */
    tx_tensor dy, x;
    tx_activation kind;
} tx_activation_bwd_args;
TX_API tx_status tx_op_activation_fwd(tx_ctx *c, const tx_activation_fwd_args *a);
TX_API tx_status tx_op_activation_bwd(tx_ctx *c, const tx_activation_bwd_args *a);

/* glu_fwd: y = g(gate) up. arXiv:2002.05202. g is one of
 *  TX_GLU_SILU    z / (1 + exp(-z))
 *  TX_GLU_GELU    z Φ(z)
 *  TX_GLU_RELU    max(z, 0)
 *  TX_GLU_LINEAR  z
 *  TX_GLU_GELU_TANH  TX_GELU_TANH of z */
typedef enum tx_glu { TX_GLU_SILU, TX_GLU_GELU, TX_GLU_RELU, TX_GLU_LINEAR, TX_GLU_GELU_TANH } tx_glu;
typedef struct tx_glu_fwd_args {
    tx_tensor y; /* [rows, f], out */
    tx_tensor x; /* [rows, 2f]: a row's gate, then its up */
    tx_glu kind;
    bool gate_second; /* a row's up, then its gate */
} tx_glu_fwd_args;
TX_API tx_status tx_op_glu_fwd(tx_ctx *c, const tx_glu_fwd_args *a);

/* glu_bwd: dgate = dy up g'(gate), dup = dy g(gate) */
typedef struct tx_glu_bwd_args {
    tx_tensor dx; /* [rows, 2f], out; may be x's memory */
    tx_tensor dy; /* [rows, f] */
    tx_tensor x;
    tx_glu kind;
    bool gate_second;
} tx_glu_bwd_args;
TX_API tx_status tx_op_glu_bwd(tx_ctx *c, const tx_glu_bwd_args *a);

/* For samples that continue sequences whose keys and values are in a cache [positions, slots, groups, d]. All zero:
 * the samples begin here. The host reads these tensors' numbers. */
typedef struct tx_past {
    tx_tensor n;    /* [b] i32: the number of positions of a sample's sequence before this call */
    tx_tensor slot; /* [b] i32: the sequence's index in the cache's second dimension */
    tx_tensor end;  /* [b] i32, optional: its positions, with those that further calls read of the same text */
} tx_past;

/* rope: rotates heads by their position, in place. With m = n_rot / 2 and φ = (first + i_s) frequency[i], i < m:
 *  (x[i], x[i+m]) becomes (x[i] cos φ - x[i+m] sin φ, x[i+m] cos φ + x[i] sin φ) times scale; from n_rot on x stays.
 *  Angles are in fp64. inverse rotates back, times scale, which is what backward does to the gradient.
 * arXiv:2104.09864. Pairs are taken from the two halves, as in GPT-NeoX, or with `interleaved`, as in GPT-J, from
 * neighbours: (x[2i], x[2i+1]). With a past, past.n replaces first for each sample. Positions that are given replace
 * first + i_s. With grows_by g > 0 a sequence of l = first + s tokens, of a sample past.end or else past.n + s, which
 * are more than grows_from = l0, has frequencies frequency[i] (g l / l0 - g + 1)^(-i/(m-1)) (dynamic NTK); not with
 * positions that are given. */
typedef struct tx_rope_args {
    tx_tensor x;             /* [s, b, groups, r, d], in and out; strides as in attention_fwd */
    int64_t n_rot;           /* even, 2 .. d, at most TX_MAX_ROT */
    int64_t first;           /* position of i_s = 0 */
    double theta;            /* above 0, where there is no `frequency`: it is theta^(-i/m) */
    const double *frequency; /* [m], optional, in the host's memory */
    double scale;            /* 0 is 1 */
    double grows_by;         /* 0: they stay */
    int64_t grows_from;
    bool interleaved;
    bool inverse;
    tx_past past;       /* optional; its slots are ignored */
    tx_tensor position; /* [s, b] i32, optional: of each token, in the place of first + i_s; not with a past */
    int64_t length;     /* of the whole sequence, where a call has a part of it; 0: first + s */
} tx_rope_args;
enum { TX_MAX_ROT = 512 };
TX_API tx_status tx_op_rope(tx_ctx *c, const tx_rope_args *a);

/* Which positions of a sample the rows of a tensor have, where ranks divide samples: runs of neighbours. Row i has
 * position  first + i,  from row `turn` on  first + i + jump,  and where there are more than two runs, `each` rows each
 * after the first one, another `jump` at the beginning of each.  All zero: row i has position i. */
typedef struct tx_position_runs {
    int64_t first, turn, jump; /* not negative */
    int64_t each;              /* 0: two runs at most */
} tx_position_runs;

/* A dropout mask that depends on global coordinates only. Element e of the stream is kept iff
 *  tx_rng_u16(&rng, e) >= drop, with drop = round(p 65536), and scaled by 65536 / (65536 - drop); drop 0 keeps all. For
 *  activations e = ((sample + i_b) s_global + position of i_s) h + i_h, or, of some columns of more, with `columns` in
 * the place of h and first_column + i_h in that of i_h; for attention probabilities of head i_n of this call, query
 * position q (= i + sk - sq) and key k:  e = (((sample + i_b) n_heads + first_head + i_n) s_global + q) s_global + k.
 * With drop 0 the other members are ignored. */
typedef struct tx_dropout {
    tx_rng rng;
    uint32_t drop;       /* 0 .. 65535, in 65536ths */
    uint64_t sample;     /* global number of the micro-batch's first sample; sample i_b has number sample + i_b */
    int64_t s_global;    /* sequence length of the run */
    tx_position_runs at; /* activations: positions of the rows, if the sequence is split over ranks */
    int64_t n_heads;     /* attention: heads of the whole layer, over all tensor-parallel ranks */
    int64_t first_head;  /* attention: number of this call's first head among them */
    int64_t columns;     /* activations: all columns, where this call has some of them; 0: it has all */
    int64_t first_column;
} tx_dropout;

/* dropout_add_fwd: y = residual + drop(x) */
typedef struct tx_dropout_add_fwd_args {
    tx_tensor y;        /* [s, b, h], out; may be x's or residual's memory; stream */
    tx_tensor x;        /* [s, b, h]; stream, whatever the dtype of the others */
    tx_tensor residual; /* [s, b, h], optional; stream, whatever the dtype of the others */
    tx_dropout mask;
} tx_dropout_add_fwd_args;
TX_API tx_status tx_op_dropout_add_fwd(tx_ctx *c, const tx_dropout_add_fwd_args *a);

/* dropout_add_bwd: dx = drop'(dy) (the residual's gradient is dy itself) */
typedef struct tx_dropout_add_bwd_args {
    tx_tensor dx; /* [s, b, h], out; may be dy's memory */
    tx_tensor dy; /* [s, b, h]; stream */
    tx_dropout mask;
} tx_dropout_add_bwd_args;
TX_API tx_status tx_op_dropout_add_bwd(tx_ctx *c, const tx_dropout_add_bwd_args *a);

/* Attention with linear position biases (ALiBi), arXiv:2108.12409: head i of n, counted over the whole layer from
 * 0, has the slope  2^(-8 (i + 1) / m)  with m the largest power of two that is at most n, or, after the first m
 * heads, 2^(-4 (2 (i - m) + 1) / m).  All zero: no bias. */
typedef struct tx_alibi {
    int64_t n_heads;    /* of the whole layer, over all tensor-parallel ranks; 0: no bias */
    int64_t first_head; /* number of this call's first head among them */
} tx_alibi;

/* What attention has beside scaled scores and their softmax. All zero: nothing. */
typedef struct tx_attention_kind {
    int64_t window;  /* > 0: the query at position i sees no key before i - window; causal. arXiv:2004.05150 */
    double softcap;  /* > 0: a scaled score becomes softcap tanh(score / softcap), before biases and masks.
                      * arXiv:2408.00118 */
    tx_tensor sink;  /* [groups r], optional: the softmax of a head has one term more, exp(sink), which has no value, so
                      * that its probabilities sum to less than 1. arXiv:2309.17453 */
    bool off_by_one; /* the same with a sink of 0 in all heads; not with sink */
} tx_attention_kind;

/* attention_fwd: o = drop(softmax(scale q kᵀ + causal mask)) v, per sample and head. Grouped queries: head (g, r) of
 *  [groups, heads per group] reads key and value head g. arXiv:1706.03762; arXiv:2305.13245
 *  With sk > sq the queries are the last sq positions (key-value cache): query i sees keys j <= i + sk - sq.
 *  With a past k and v are the whole cache, and query i of sample b sees the keys j <= i + past.n[b] of its slot.
 *  With alibi, which is causal, slope (j - i) is added to the scaled score of the query at position i and the key at
 *  position j, counted from the beginning of the sample or, with a past, of the slot. Adding the same number to all
 *  scores of a query does not change a softmax, so this equals adding slope j, and position ids that restart
 *  (--reset-position-ids) do not change it.
 *  A backend may round the probabilities, and in backward dS, to the values' dtype before it multiplies them; scores,
 *  softmax and sums are wide.
 *  Where a call has a part of a sequence, its queries have positions q_at + i and its keys k_at + j: causal, window,
 *  first_key, n_keys, alibi and the mask are of positions. sq and sk are free then, and a query that sees none of the
 *  call's keys has o = 0 and lse = -infinity (with a sink, which one call alone should have, the sink). attention_join
 *  makes one result of several; backward of each call takes the o and lse of all.
 *  Only the log-sum-exp is kept for backward, so memory is linear in s. The last dimension of q, k, v, o has stride 1,
 *  all others are free: views into a fused [s, b, (q..q k v)...] tensor can be passed as they are. */
typedef struct tx_attention_fwd_args {
    tx_tensor o;    /* [sq, b, groups, r, d], out */
    tx_tensor lse;  /* [b, groups, r, sq], contiguous, out: log Σ_j exp(score_j), with a sink's term; optional
                     * (inference); wide */
    tx_tensor q;    /* [sq, b, groups, r, d] */
    tx_tensor k, v; /* [sk, b, groups, d]; with a past [positions, slots, groups, d] */
    double scale;
    bool causal;
    tx_dropout mask;
    tx_tensor first_key;    /* [sq, b] i32, contiguous, optional: query i of sample b sees no key before this one, so
                             * that documents of a sample are separate (--reset-attention-mask). Each query must see at
                             * least one key */
    tx_past past;           /* optional; causal */
    tx_tensor n_keys;       /* [b] i32, 1 .. sk, optional, without causal and past: all queries of sample b see only its
                             * keys j < n_keys[b]; the others are padding. Read by the host */
    tx_alibi alibi;         /* optional; causal */
    tx_attention_kind kind; /* optional */
    int64_t q_at, k_at;     /* positions of query 0 and key 0 of a part; not with a past; causal: not all keys after
                             * all queries */
    bool part;              /* it is one, though both are 0 */
} tx_attention_fwd_args;
TX_API tx_status tx_op_attention_fwd(tx_ctx *c, const tx_attention_fwd_args *a);

/* attention_bwd: with P = exp(scale q kᵀ + bias - lse), Z its dropout mask (0 or 1/keep), D_i = Σ_d do_i o_i:
 *  dv = (P Z)ᵀ do,  dS = P (Z (do vᵀ) - D) scale,  dq = dS k,  dk = dSᵀ q.  arXiv:2205.14135, algorithm 4.
 *  With a softcap dS is also multiplied by 1 - tanh²; dsink += -Σ exp(sink - lse) D over all queries of a head.
 *  dq, dk, dv are written and may be views into one fused tensor. sq == sk but in a part, of whose gradients the sum
 *  over all parts is the whole's. */
typedef struct tx_attention_bwd_args {
    tx_tensor dq, dk, dv; /* as q, k, v; out */
    tx_tensor do_, o, lse;
    tx_tensor q, k, v;
    double scale;
    bool causal;
    tx_dropout mask;
    tx_tensor first_key, n_keys; /* as in forward; dk and dv of padding keys are 0 */
    tx_alibi alibi;
    tx_attention_kind kind;
    tx_tensor dsink;    /* [groups r], accumulated, with kind.sink, optional; wide; of a part: as of all parts */
    int64_t q_at, k_at; /* as in forward */
    bool part;
} tx_attention_bwd_args;
TX_API tx_status tx_op_attention_bwd(tx_ctx *c, const tx_attention_bwd_args *a);

/* If a table is split over ranks: the rows on this rank. All zero: all of them. */
typedef struct tx_table_shard {
    int64_t first; /* number of the first row */
    int64_t whole; /* rows of the whole table; 0: the rows on this rank */
} tx_table_shard;

/* embedding_fwd: y[s,b] = scale word[token[s,b]] + pos[position[s,b]] + kind[type[s,b]]; a word whose row is on another
 * rank counts as 0 */
typedef struct tx_embedding_fwd_args {
    tx_tensor y;               /* [s, b, h], out; stream */
    tx_tensor token, position; /* [s, b] i32; a token outside [0, rows of the whole table) is TX_ERR_ARG, which names
                                * it */
    tx_tensor type;            /* [s, b] i32, with kind; a type outside kind's rows is TX_ERR_ARG, too */
    tx_tensor word, pos, kind; /* [v, h], [max positions, h], [types, h]; pos and kind optional */
    tx_table_shard shard;      /* of word */
    double scale;              /* 0 is 1 */
} tx_embedding_fwd_args;
TX_API tx_status tx_op_embedding_fwd(tx_ctx *c, const tx_embedding_fwd_args *a);

/* embedding_bwd: dword[token] += scale dy, dpos[position] += dy, dkind[type] += dy, in token order */
typedef struct tx_embedding_bwd_args {
    tx_tensor dword, dpos, dkind; /* [v, h], [max positions, h], [types, h], accumulated, wide; dpos, dkind optional */
    tx_tensor dy;                 /* [s, b, h]; value or wide */
    tx_tensor token, position, type;
    tx_table_shard shard; /* of dword */
    double scale;         /* 0 is 1 */
} tx_embedding_bwd_args;
TX_API tx_status tx_op_embedding_bwd(tx_ctx *c, const tx_embedding_bwd_args *a);

/* cross_entropy: loss[i] = -Σ_{j < n_valid} q_j log softmax(z_i)_j  with q = [j = y_i], or with smoothing α > 0 (and
 *  n_valid > 1)  1 - α at y_i and α / (n_valid - 1) everywhere else. With weight it also computes the
 *  gradient of z, weight[i] (softmax(z_i)_j - q_j), and 0 in columns j >= n_valid. The gradient goes into dz, and z is
 *  then overwritten too; without dz it goes into z itself. Without weight z is unchanged.
 *  With z_weight w > 0 the objective is loss[i] + z_loss[i], z_loss[i] = w (log Σ_{j < n_valid} exp z_ij)², so that the
 *  gradient of z also has weight[i] 2 w log Σ exp z_i softmax(z_i)_j; loss stays as it is. PaLM, arXiv:2204.02311 §5.
 *  y_i = -1 is ignored (both losses 0, gradient 0); any other y_i outside [0, n_valid) is TX_ERR_ARG. */
typedef struct tx_cross_entropy_args {
    tx_tensor loss;   /* [rows], out, nats; wide */
    tx_tensor z;      /* [rows, v], row stride may exceed v; in, and out if weight is present; value or wide */
    tx_tensor dz;     /* [rows, v], out, optional, with weight only; value; not z's memory */
    tx_tensor y;      /* [rows] i32 */
    tx_tensor weight; /* [rows]: d(total)/d(loss_i); wide; optional */
    int64_t n_valid;  /* columns from here on are padding of the vocabulary */
    double smoothing; /* below 1 */
    double z_weight;
    tx_tensor z_loss; /* [rows], out; wide; optional */
} tx_cross_entropy_args;
TX_API tx_status tx_op_cross_entropy(tx_ctx *c, const tx_cross_entropy_args *a);

/* What becomes of a head's products z:  cap tanh(scale z / cap), or without a cap scale z. Gemma 2,
 * arXiv:2408.00118 §2. */
typedef struct tx_logit_form {
    double scale; /* 0 is 1 */
    double cap;   /* 0: there is none */
} tx_logit_form;

/* Gathers what each part has computed, in the order of the parts.
 * @all [parts, rows, 4]
 * @mine [rows, 4] */
typedef tx_status tx_exchange_fn(tx_ctx *c, tx_tensor all, tx_tensor mine);

/* What a head learns from a teacher's, of the same classes:  loss[i] = factor T² Σ_{j < n_valid} p_j (log p_j - log
 * q_j), p = softmax(t_i / T) of the teacher's logits t = x Wᵀ, q = softmax(z_i / T), T being the temperature. The
 * objective also has scale Σ_i loss[i]; rows without a label count as the others. Hinton et al., arXiv:1503.02531. */
typedef struct tx_teacher_head {
    tx_tensor loss; /* [rows], out; wide; absent: there is no teacher */
    tx_tensor x, w; /* [rows, its h], [v, its h]; both of head_loss's dtype */
    tx_tensor bias; /* [v], optional; likewise */
    double temperature, factor, scale;
    tx_logit_form form; /* of its logits */
} tx_teacher_head;

/* head_loss: the output head and its loss as one op, in chunks of rows, so that the logits are never all in memory.
 *  z = x Wᵀ + bias in its form, losses as cross_entropy, and with weight also dx = dz W, dW = dzᵀ x + beta dW with
 * gemm's beta, and dbias += Σ_rows dz. Scratch: chunk × v, once more with a teacher, and with weight and a cap. Logits
 * are wide; dz is rounded to a value (dtype T) before it is multiplied and summed. If W's rows are split over n_parts
 * ranks, w, dw, bias and dbias have the rows of this rank. dx is this part's contribution, which the caller sums over
 * the parts. Losses are those of the whole vocabulary. Megatron-LM arXiv:1909.08053 §3. */
typedef struct tx_head_loss_args {
    tx_tensor loss;   /* [rows], out; wide */
    tx_tensor dx;     /* [rows, h], out; with weight only */
    tx_tensor dw;     /* [v, h], out, or accumulated; with weight only, optional; wide */
    tx_tensor x;      /* [rows, h] */
    tx_tensor w;      /* [v, h] */
    tx_tensor bias;   /* [v], optional */
    tx_tensor dbias;  /* [v], accumulated; with bias and weight only, optional; wide */
    tx_tensor y;      /* [rows] i32 */
    tx_tensor weight; /* [rows]; wide; optional: without it only loss is computed */
    int64_t n_valid;  /* of all parts */
    double smoothing;
    bool accumulate;
    int64_t n_parts, part;    /* 0: W is not split */
    tx_exchange_fn *exchange; /* with n_parts > 1 */
    double z_weight;
    tx_tensor z_loss;        /* [rows], out; wide; optional */
    tx_teacher_head teacher; /* optional, with weight only */
    tx_logit_form form;
} tx_head_loss_args;
TX_API tx_status tx_op_head_loss(tx_ctx *c, const tx_head_loss_args *a);

#ifdef __cplusplus
}
#endif
#endif
