/* ops.h - the table of all ops, and the contracts of those that only triax itself runs; the others', with the legend
 * that holds for all: triax/ops.h. */
#ifndef TX_BACKEND_OPS_H
#define TX_BACKEND_OPS_H

#include <math.h>

#include "backend/ctx.h"
#include "backend/tensor.h"
#include "base/exact.h"
#include "base/rng.h"
#include "triax/ops.h"

/* The position of row i; those of the rows from row i on; which of n rows has position p, or -1; and how many of n rows
 * are neighbours, from row i on. */
TX_DEVICE_CODE static inline int64_t tx_position_of(const tx_position_runs *r, int64_t i)
{
    if (i < r->turn) return r->first + i;
    return r->first + i + (r->each ? 1 + (i - r->turn) / r->each : 1) * r->jump;
}
static inline tx_position_runs tx_positions_from(const tx_position_runs *r, int64_t i)
{
    tx_position_runs y = *r;
    y.first = tx_position_of(r, i);
    if (i < r->turn)
        y.turn = r->turn - i;
    else if (r->each)
        y.turn = r->each - (i - r->turn) % r->each;
    else
        y.jump = 0;
    return y;
}
static inline int64_t tx_position_row(const tx_position_runs *r, int64_t n, int64_t p)
{
    int64_t i = p - r->first;
    if (i >= r->turn) { /* of the other runs */
        int64_t k = i - r->turn - r->jump, run = r->each + r->jump, in = r->each && k >= 0 ? k % run : k;
        if (k < 0 || (r->each && in >= r->each)) return -1;
        i = r->turn + (r->each ? k / run * r->each : 0) + in;
    }
    return i >= 0 && i < n ? i : -1;
}
static inline int64_t tx_positions_next(const tx_position_runs *r, int64_t i, int64_t n)
{
    int64_t left = n - i;
    if (i < r->turn)
        left = r->turn - i;
    else if (r->each)
        left = r->each - (i - r->turn) % r->each;
    return left < n - i ? left : n - i;
}

/* What a kept element is multiplied with. */
TX_DEVICE_CODE static inline double tx_dropout_scale(const tx_dropout *m)
{
    return 65536.0 / (65536.0 - (double)m->drop);
}

/* The e of an activation row's first element, and of the probability of (query 0, key 0) of a head. */
TX_DEVICE_CODE static inline uint64_t tx_dropout_row(const tx_dropout *m, int64_t i_s, int64_t i_b, int64_t h)
{
    uint64_t row = (m->sample + (uint64_t)i_b) * (uint64_t)m->s_global + (uint64_t)tx_position_of(&m->at, i_s);
    return row * (uint64_t)(m->columns ? m->columns : h) + (uint64_t)m->first_column;
}
TX_DEVICE_CODE static inline uint64_t tx_dropout_head(const tx_dropout *m, int64_t i_b, int64_t i_n)
{
    uint64_t s = (uint64_t)m->s_global;
    return ((m->sample + (uint64_t)i_b) * (uint64_t)m->n_heads + (uint64_t)m->first_head + (uint64_t)i_n) * s * s;
}

/* Whether a softmax has a term more. */
TX_DEVICE_CODE static inline bool tx_has_sink(const tx_attention_kind *k)
{
    return k->sink.data || k->off_by_one;
}

/* The slope of this call's head i_n, as its logarithm to base 2. */
TX_DEVICE_CODE static inline double tx_alibi_log2_slope(const tx_alibi *a, int64_t i_n)
{
    int64_t i = a->first_head + i_n, m = 1;
    while (2 * m <= a->n_heads) m *= 2;
    return i < m ? -8.0 * (double)(i + 1) / (double)m : -4.0 * (double)(2 * (i - m) + 1) / (double)m;
}

/* How long rope takes a sequence to be; its growth then, 1 where there is none; and with it the frequency of pair i. */
static inline int64_t tx_rope_length(const tx_rope_args *a, int64_t first, int64_t i_b)
{
    int64_t length = a->length ? a->length : first + a->x.dim[0];
    return a->past.n.data && a->past.end.data ? ((const int32_t *)a->past.end.data)[i_b] : length;
}
TX_DEVICE_CODE static inline double tx_rope_longer(const tx_rope_args *a, int64_t length)
{
    if (!(a->grows_by > 0) || length <= a->grows_from) return 1;
    return a->grows_by * (double)length / (double)a->grows_from - a->grows_by + 1;
}
TX_DEVICE_CODE static inline double tx_rope_frequency(const tx_rope_args *a, int64_t i, double longer)
{
    int64_t half = a->n_rot / 2;
    double f = a->frequency ? a->frequency[i] : pow(a->theta, -(double)i / (double)half);
    return longer > 1 && half > 1 ? f * pow(longer, -(double)i / (double)(half - 1)) : f;
}

/* row_dots: y[i] = Σ_j a[i,j] b[i,j] gamma[j]; what norms need of rows of which other ranks have the other columns. */
typedef struct tx_row_dots_args {
    tx_tensor y;     /* [rows], out; wide */
    tx_tensor a, b;  /* [rows, h], which may be one */
    tx_tensor gamma; /* [h], optional: 1 */
} tx_row_dots_args;

/* max_logits: the largest scaled score of each head, max = max(max, scale q k) over all pairs of a query and a key that
 * it sees, as attention_fwd has them but for its biases, which are never positive, and its softcap, which hides how
 * large they grow; queries that pad count as little as keys do. Scores are never in memory. */
typedef struct tx_max_logits_args {
    tx_tensor max;  /* [groups, r] fp32, contiguous, in and out; not negative */
    tx_tensor q, k; /* [s, b, groups, r, d], [s, b, groups, d], strides as in attention_fwd */
    double scale;
    bool causal;
    tx_tensor first_key, n_keys; /* as in attention_fwd */
    int64_t window;              /* likewise: kind.window */
    int64_t q_at, k_at;          /* likewise, */
    bool part;                   /* as well as this */
} tx_max_logits_args;

/* attention_join: of the results of attention_fwd for the same queries and other keys one:
 *  lse' = log(exp(lse) + exp(part_lse)),  o = exp(lse - lse') o + exp(part_lse - lse') part,  lse = lse'.
 *  A query that neither has seen keys of has o = 0, lse = -infinity. */
typedef struct tx_attention_join_args {
    tx_tensor o;        /* [sq, b, groups, r, d], last stride 1, in and out; value or wide */
    tx_tensor lse;      /* [b, groups, r, sq], in and out; wide */
    tx_tensor part;     /* as o; value or wide */
    tx_tensor part_lse; /* as lse */
} tx_attention_join_args;

/* How much of o and of part is in what both make, from their lse; *lse becomes the whole's. */
typedef struct tx_join_shares {
    double o, part;
} tx_join_shares;
TX_DEVICE_CODE static inline tx_join_shares tx_join_of(double *lse, double part)
{
    double most = *lse > part ? *lse : part, old = *lse;
    tx_join_shares share = { 0, 0 };
    if (most == -INFINITY) return share;
    *lse = most + log(exp(old - most) + exp(part - most));
    share.o = exp(old - *lse);
    share.part = exp(part - *lse);
    return share;
}

/* cache_append: puts the positions of this call after those in the cache: k_cache[past.n[b] + i, past.slot[b]] = k[i,
 * b], and v likewise. Strides as in attention_fwd. */
typedef struct tx_cache_append_args {
    tx_tensor k_cache, v_cache; /* [positions, slots, groups, d], in and out */
    tx_tensor k, v;             /* [s, b, groups, d] */
    tx_past past;
} tx_cache_append_args;

/* A factor that may be left out. */
TX_DEVICE_CODE static inline double tx__scale_or_1(double scale)
{
    return scale == 0 ? 1 : scale;
}

/* The part s of q that lies evenly on all n classes: q_j = (1 - s) [j = y] + s / n. */
TX_DEVICE_CODE static inline double tx_even_smoothing(double smoothing, int64_t n)
{
    return smoothing > 0 ? smoothing * (double)n / (double)(n - 1) : 0;
}

/* What the softmax in cross_entropy's gradient is multiplied with, which lse = log Σ exp has its share in. */
TX_DEVICE_CODE static inline double tx_z_slope(double z_weight, double lse)
{
    return z_weight > 0 ? 1 + 2 * z_weight * lse : 1;
}

/* Of classes that are split over ranks in `shard`, as columns of z: numbers first .. first + n_here, of n_valid in all;
 * n_here may be 0. Columns after them are padding. */
typedef struct tx_classes {
    int64_t first, n_here, n_valid;
} tx_classes;

/* Which of the tokens that have chosen an expert it has no room for. */
typedef enum tx_drop_policy {
    TX_DROP_LATER,   /* the last ones; of a token's choices in turn */
    TX_DROP_SECONDS, /* likewise, and second choices of all tokens before first ones (GShard arXiv:2006.16668) */
    TX_DROP_SMALL,   /* those of the smallest scores */
    TX_DROP_RANDOM   /* those of the smallest of random numbers, element t' E + e of the stream */
} tx_drop_policy;

/* How tokens choose k of E experts.  Scores are s = softmax(logits), or sigmoid(logits) each; a token chooses the k
 * largest of s + bias, the first of equal ones; with noisy_second the second one is the largest of logits + noise, of
 * Gumbel's distribution, but for the first one. Its weights are the scores of what it has chosen, or softmax_after the
 * softmax of those k logits alone (Mixtral arXiv:2401.04088); renormalise: divided by their sum over what has not been
 * dropped, which is at least eps of fp32; and all times `scale`. With a capacity an expert takes at most so many
 * tokens. Random numbers are elements t' E + e of random.rng, t' being the token's number in the run: of row i_s b +
 * i_b (random.sample + i_b) random.s_global + position of i_s. */
enum { TX_MAX_CHOICES = 64 }; /* k is at most that */
typedef enum tx_router_score { TX_ROUTER_SOFTMAX, TX_ROUTER_SIGMOID } tx_router_score;
typedef struct tx_router {
    tx_router_score score;
    int64_t k;
    bool softmax_after, renormalise;
    bool noisy_second;
    bool load_of_first; /* `chosen` counts first choices alone */
    int64_t capacity;   /* 0: nothing is dropped */
    tx_drop_policy drop;
    double scale;
    int64_t b;         /* samples; 0 is 1 */
    tx_dropout random; /* of noise and random numbers; its `drop` is not read */
} tx_router;

/* route_fwd: probs are s, of sigmoids divided by their sum.  stats = { Σ_t probs[t,e] for each e, Σ_t lse_t² },
 * lse_t = log Σ_e exp(logits[t,e]) (z-loss: arXiv:2202.08906). */
typedef struct tx_route_fwd_args {
    tx_tensor probs;  /* [T, E], out; wide */
    tx_tensor choice; /* [T, k] i32, out: an expert's number e, or -1 - e: dropped */
    tx_tensor weight; /* [T, k], out; wide; 0 where dropped */
    tx_tensor chosen; /* [E] i32, out: how many tokens chose it, dropped ones too */
    tx_tensor stats;  /* [E + 1], out; wide */
    tx_tensor logits; /* [T, E]; wide */
    tx_tensor bias;   /* [E], optional; any float */
    tx_router router;
} tx_route_fwd_args;

/* route_bwd: dlogits of weights' gradients, and of aux Σ_t Σ_e probs[t,e] chosen[e] + z Σ_t lse_t². */
typedef struct tx_route_bwd_args {
    tx_tensor dlogits;                       /* [T, E], out; wide */
    tx_tensor dweight;                       /* [T, k]; wide */
    tx_tensor logits, probs, choice, chosen; /* forward's */
    double aux, z;
    tx_router router;
} tx_route_bwd_args;

/* route_sums: sums += { aux Σ_e stats[e] chosen[e], z stats[E], choices that were dropped, choices of e for each e } */
typedef struct tx_route_sums_args {
    tx_tensor sums;   /* [at least 3 + E], in and out; fp32 */
    tx_tensor stats;  /* [E + 1]; wide */
    tx_tensor chosen; /* [E] i32 */
    tx_tensor choice; /* [T, k] i32 */
    double aux, z;
} tx_route_sums_args;

/* expert_order: pairs of a token and a choice, t k + j, that are not dropped, packed by expert, and for each in the
 * order of tokens. */
typedef struct tx_expert_order_args {
    tx_tensor row;    /* [T k] i32, out: packed row of a pair; -1: it is dropped */
    tx_tensor source; /* [n] i32, out: pair of a packed row; n is at least how many there are, the others are -1 */
    tx_tensor count;  /* [E] i32, out */
    tx_tensor choice; /* [T, k] i32 */
} tx_expert_order_args;

/* gather_rows: y[i] = x[index[i] / div]; 0 where the index is -1 */
typedef struct tx_gather_rows_args {
    tx_tensor y;     /* [n, h], out; n may be 0 */
    tx_tensor x;     /* [rows, h] */
    tx_tensor index; /* [n] i32 */
    int64_t div;
} tx_gather_rows_args;

/* gather_tokens: y[i, j] = x[position[i, j] - first, j]; 0 where x has no such position
 * scatter_tokens: y[position[i, j] - first, j] = x[i, j], where y has that position; the other rows of y stay.
 * Positions of a column are all different. Each is the other's transpose. */
typedef struct tx_gather_tokens_args {
    tx_tensor y;        /* [r, b, h], out */
    tx_tensor x;        /* [s, b, h] */
    tx_tensor position; /* [r, b] i32 */
    int64_t first;      /* position of x's first row */
} tx_gather_tokens_args;

typedef struct tx_scatter_tokens_args {
    tx_tensor y;        /* [s, b, h], in and out */
    tx_tensor x;        /* [r, b, h] */
    tx_tensor position; /* [r, b] i32 */
    int64_t first;      /* position of y's first row */
} tx_scatter_tokens_args;

/* combine_fwd: y[t] = Σ_j weight[t,j] z[row[t k + j]] + beta y[t], in the order of j; row -1 adds nothing; without
 * weights they are 1 (the gradient of gather_rows). beta is 1 with accumulate, else 0. */
typedef struct tx_combine_fwd_args {
    tx_tensor y;      /* [T, h], out */
    tx_tensor z;      /* [n, h]; n may be 0 */
    tx_tensor row;    /* [T k] i32 */
    tx_tensor weight; /* [T, k], optional; wide */
    bool accumulate;
} tx_combine_fwd_args;

/* combine_bwd: dz[row[t k + j]] = weight[t,j] dy[t],  dweight[t,j] = <dy[t], z[row[t k + j]]>, 0 of row -1 */
typedef struct tx_combine_bwd_args {
    tx_tensor dz;      /* [n, h], out; every row is one of `row`; n may be 0 */
    tx_tensor dweight; /* [T, k], out; wide */
    tx_tensor dy;      /* [T, h] */
    tx_tensor z;       /* [n, h] */
    tx_tensor row;     /* [T k] i32 */
    tx_tensor weight;  /* [T, k]; wide */
} tx_combine_bwd_args;

/* Tensors of one shape and dtype: the first one, and the others each `step` bytes behind the one before it, as members
 * of an array of structs are. */
typedef struct tx_tensors {
    const tx_tensor *first; /* NULL: they are absent */
    size_t step;
} tx_tensors;

static inline const tx_tensor *tx_nth_tensor(tx_tensors x, int64_t i)
{
    return (const tx_tensor *)(const void *)((const char *)x.first + (size_t)i * x.step);
}

/* Packed rows belong to groups: the first ones to group 0, and so on. `count` has how many belong to each, in the
 * host's memory, and in sum they are all; a group may have none.
 *
 * grouped_gemm: c = a op(b_g) + bias_g in the rows of group g,  op(X) = X or Xᵀ. */
typedef struct tx_grouped_gemm_args {
    tx_tensor c;     /* [rows, n], out; rows may be 0 */
    tx_tensor a;     /* [rows, k] */
    tx_tensors b;    /* each [k, n], or [n, k] with trans_b */
    tx_tensors bias; /* each [n], optional */
    tx_tensor count; /* [groups] i32 */
    bool trans_b;
} tx_grouped_gemm_args;

/* grouped_dw: dw_g = dyᵀ x + beta dw_g, dbias_g += Σ dy over the rows of group g (the gradients of c = x wᵀ + bias).
 *  accumulate: beta = 1, else 0, and then the dw of a group without rows becomes 0. */
typedef struct tx_grouped_dw_args {
    tx_tensors dw;    /* each [n, k]; wide */
    tx_tensors dbias; /* each [n], optional; accumulated; wide */
    tx_tensor dy;     /* [rows, n]; rows may be 0 */
    tx_tensor x;      /* [rows, k] */
    tx_tensor count;  /* [groups] i32 */
    bool accumulate;
} tx_grouped_dw_args;

/* cross_entropy in two halves, for classes that are split over ranks, which exchange `stats` in between.
 *
 * cross_entropy_part: stats[i] = { m = max_j z_ij, Σ_j exp(z_ij - m), z_i,yi or 0 where y_i is not here, Σ_j z_ij }
 * over the classes here; without any { -inf, 0, 0, 0 }. With keep z becomes exp(z - m).  Megatron-LM arXiv:1909.08053
 * §3 */
typedef struct tx_cross_entropy_part_args {
    tx_tensor stats; /* [rows, 4], out; wide */
    tx_tensor z;     /* [rows, v]; in, and out with keep; wide */
    tx_tensor y;     /* [rows] i32: -1, or a class's number */
    tx_classes classes;
    bool keep;
} tx_cross_entropy_part_args;

/* cross_entropy_join: cross_entropy's losses and, with weight, the gradient's columns here, from the stats of all parts
 *  and what cross_entropy_part kept in z. */
typedef struct tx_cross_entropy_join_args {
    tx_tensor loss;   /* [rows], out, nats; wide */
    tx_tensor z;      /* [rows, v], with weight; in, and out unless dz is there; wide */
    tx_tensor dz;     /* [rows, v], out, optional; value; not z's memory */
    tx_tensor stats;  /* [parts, rows, 4]; wide */
    tx_tensor y;      /* [rows] i32 */
    tx_tensor weight; /* [rows]; wide; optional */
    tx_classes classes;
    int64_t part; /* number of the own stats */
    double smoothing, z_weight;
    tx_tensor z_loss; /* [rows], out; wide; optional */
} tx_cross_entropy_join_args;

/* What a head learns from a teacher's logits t, in two halves as cross_entropy; T is the temperature, of both
 * softmaxes.
 *
 * distill_part: over the first n_here columns stats[i] = { m = max_j z_ij, Σ_j exp((z_ij - m) / T), n = max_j t_ij,
 * Σ_j e_ij, Σ_j e_ij (t_ij - z_ij) / T },  e_ij = exp((t_ij - n) / T), which replaces t_ij; without any { -inf, 0,
 * -inf, 0, 0 }.  z stays. */
typedef struct tx_distill_part_args {
    tx_tensor stats; /* [rows, 5], out; wide */
    tx_tensor t;     /* [rows, v], in and out; wide */
    tx_tensor z;     /* [rows, v]; wide */
    int64_t n_here;  /* columns that are classes; may be 0 */
    double temperature;
} tx_distill_part_args;

/* distill_join: loss[i] = factor T² KL(softmax(t_i / T) || softmax(z_i / T)) of all parts' classes, and t becomes the
 *  gradient of scale Σ_i loss[i] by z, scale factor T (softmax(z_i / T) - softmax(t_i / T)); 0 in columns from n_here
 * on */
typedef struct tx_distill_join_args {
    tx_tensor loss;  /* [rows], out, nats; wide */
    tx_tensor t;     /* [rows, v], in as distill_part has left it, and out; wide */
    tx_tensor z;     /* [rows, v]; wide */
    tx_tensor stats; /* [parts, rows, 5]; wide */
    int64_t part;    /* number of the own stats */
    int64_t n_here;
    double temperature, factor, scale;
} tx_distill_join_args;

static inline bool tx_logits_change(tx_logit_form form) /* by their form */
{
    return form.cap > 0 || tx__scale_or_1(form.scale) != 1;
}

/* softcap_fwd: y = what becomes of x */
typedef struct tx_softcap_fwd_args {
    tx_tensor y; /* [rows, v], row stride may exceed v; out; may be x's memory; wide */
    tx_tensor x; /* [rows, v], likewise; wide */
    tx_logit_form form;
} tx_softcap_fwd_args;

/* softcap_bwd: dx = dy scale (1 - (y / cap)²), or without a cap dy scale */
typedef struct tx_softcap_bwd_args {
    tx_tensor dx; /* [rows, v], out; value or wide; may be dy's memory */
    tx_tensor dy; /* [rows, v]; wide */
    tx_tensor y;  /* [rows, v]; wide; with a cap only */
    tx_logit_form form;
} tx_softcap_bwd_args;

/* How many chunks it takes so many rows in, v being the rows of W here; t the values' type. */
int64_t tx_head_loss_chunks(int64_t rows, int64_t v, tx_dtype t, bool on_device);

/* sumsq: out[k] = Σ x_i² over elements [k TX_SUMSQ_BLOCK, (k+1) TX_SUMSQ_BLOCK), in fp64. Fixed blocks, so that a norm
 *  does not depend on how many threads or ranks share the work. */
#define TX_SUMSQ_BLOCK 128
static inline int64_t tx_sumsq_blocks(int64_t n) /* of n elements */
{
    return (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
}
typedef struct tx_sumsq_args {
    tx_tensor out; /* [ceil(numel(x) / TX_SUMSQ_BLOCK)] fp64, out */
    tx_tensor x;
} tx_sumsq_args;

/* count_zeros: out = how many elements of x are exactly 0. */
typedef struct tx_count_zeros_args {
    tx_tensor out; /* [1] fp64, out */
    tx_tensor x;
} tx_count_zeros_args;

/* magnitudes: out[k] = { Σ |x_i|, Σ x_i², Σ sqrt |x_i|, max |x_i| } over sumsq's blocks, in fp64. */
typedef struct tx_magnitudes_args {
    tx_tensor out; /* [ceil(numel(x) / TX_SUMSQ_BLOCK), 4] fp64, out */
    tx_tensor x;
} tx_magnitudes_args;

/* exact_add: adds non-negative fp64 numbers to a sum without rounding. */
#define TX_EXACT_WORDS ((int64_t)(sizeof(tx_exact) / sizeof(int64_t)))
typedef struct tx_exact_add_args {
    tx_tensor sum; /* [TX_EXACT_WORDS] i64, in and out: a tx_exact (base/exact.h) */
    tx_tensor x;   /* [n] fp64 */
} tx_exact_add_args;

/* clip: what an update needs to know about gradients whose squares sum to `sum`, without waiting for the host:
 *  out = { norm = sqrt(sum) / loss_scale, factor, go }, go = 1 if norm is finite and else 0,
 *  factor = min(1, max_norm / (norm + 1e-6)) / loss_scale, as Megatron's clip_grad_norm; max_norm 0: nothing is clipped
 */
typedef struct tx_clip_args {
    tx_tensor out; /* [3] fp64, out */
    tx_tensor sum; /* as exact_add's */
    double loss_scale, max_norm;
} tx_clip_args;

/* adam: AdamW with decoupled decay and bias correction (arXiv:1711.05101; as apex FusedAdam, torch AdamW):
 *  g' = g grad_scale,  m = β1 m + (1-β1) g',  v = β2 v + (1-β2) g'²,
 *  p -= lr ( (m / (1-β1^t)) / (sqrt(v / (1-β2^t)) + eps) + weight_decay p ),  low = p
 *  coupled: g' = g grad_scale + weight_decay p, and p has no other decay (arXiv:1412.6980 with L2; torch Adam). */
typedef struct tx_adam_args {
    tx_tensor p, m, v; /* same shape, in and out; fp32 or fp64 */
    tx_tensor g;       /* same shape, any float */
    tx_tensor low; /* same shape, any float, out, optional: the copy of the master weights that layers compute with */
    double lr, beta1, beta2, eps, weight_decay;
    double grad_scale; /* clipping and loss scale in one factor */
    tx_tensor
        gate;  /* [3] fp64, optional: clip's. Its factor is multiplied to grad_scale, and with go 0 nothing changes */
    int64_t t; /* 1 for the first step */
    bool coupled;
} tx_adam_args;

/* sgd: momentum with coupled weight decay (as apex FusedSGD, torch SGD):
 *  g' = g grad_scale + weight_decay p,  m = momentum m + (1 - dampening) g',  p -= lr m,  low = p
 *  nesterov: p -= lr (g' + momentum m).
 *  torch does not dampen the first step: its caller gives 0 there. */
typedef struct tx_sgd_args {
    tx_tensor p, m; /* same shape, in and out; m is 0 before the first step; fp32 or fp64 */
    tx_tensor g;    /* as adam's */
    tx_tensor low;  /* as adam's */
    double lr, momentum, weight_decay;
    double dampening; /* 0: none */
    bool nesterov;
    double grad_scale;
    tx_tensor gate; /* as adam's */
} tx_sgd_args;

/* lion: the sign of an average, with decoupled decay (arXiv:2302.06675; as DeepSpeed's FusedLion):
 *  g' = g grad_scale,  p -= lr ( sign(β1 m + (1-β1) g') + weight_decay p ),  m = β2 m + (1-β2) g',  low = p
 *  The sign of 0 is 0, as in the paper and in torch. */
typedef struct tx_lion_args {
    tx_tensor p, m; /* as sgd's */
    tx_tensor g;    /* as adam's */
    tx_tensor low;  /* as adam's */
    double lr, beta1, beta2, weight_decay;
    double grad_scale;
    tx_tensor gate; /* as adam's */
} tx_lion_args;

/* adagrad: coupled weight decay, no decay of the rate (Duchi et al. 2011; as torch's and DeepSpeed's Adagrad):
 *  g' = g grad_scale + weight_decay p,  v += g'²,  p -= lr g' / (sqrt(v) + eps),  low = p */
typedef struct tx_adagrad_args {
    tx_tensor p, v; /* same shape, in and out; v is 0 before the first step; fp32 or fp64 */
    tx_tensor g;    /* as adam's */
    tx_tensor low;  /* as adam's */
    double lr, eps, weight_decay;
    double grad_scale;
    tx_tensor gate; /* as adam's */
} tx_adagrad_args;

/* ---- LAMB (arXiv:1904.00962; as DeepSpeed's FusedLamb): an update is scaled by the ratio of two norms, each of a
 * whole tensor. So it is two ops, between which norms of fragments are summed and lamb_ratio follows from them. ---- */

/* A parameter's direction: u = (m / correct1) / (sqrt(v / correct2) + eps) + weight_decay p, or with eps_inside with
 * sqrt(v / correct2 + eps). correct1, correct2: 1, or what corrects the moments for their beginning with 0. */
typedef struct tx_lamb_rule {
    double beta1, beta2, eps, weight_decay, correct1, correct2;
    bool eps_inside;
} tx_lamb_rule;

/* lamb_moments: g' = g grad_scale,  m = β1 m + (1-β1) g',  v = β2 v + (1-β2) g'²,
 *  sums = { Σ p², Σ u² } over sumsq's blocks; 0 where the gate is closed. */
typedef struct tx_lamb_moments_args {
    tx_tensor m, v; /* same shape, in and out; fp32 or fp64 */
    tx_tensor p;    /* same shape and type */
    tx_tensor g;    /* as adam's */
    tx_tensor sums; /* [2, blocks] fp64, out */
    tx_lamb_rule rule;
    double grad_scale;
    tx_tensor gate; /* as adam's */
} tx_lamb_moments_args;

/* lamb_ratio: out = |p| / |u| kept within [least, most], 1 where either norm is 0; NaN where it is not finite. */
typedef struct tx_lamb_ratio_args {
    tx_tensor out;  /* [n] fp64, out */
    tx_tensor sums; /* [n, 2, TX_EXACT_WORDS] i64: Σ p² and Σ u² as tx_exacts */
    double least, most;
} tx_lamb_ratio_args;

/* lamb_update: p -= lr ratio u,  low = p, after lamb_moments, whose u it computes again: that costs less than keeping
 *  it. */
typedef struct tx_lamb_update_args {
    tx_tensor p;     /* in and out; fp32 or fp64 */
    tx_tensor m, v;  /* same shape and type */
    tx_tensor low;   /* as adam's */
    tx_tensor ratio; /* [1] fp64, optional: 1 without it */
    tx_lamb_rule rule;
    double lr;
    tx_tensor gate; /* as adam's */
} tx_lamb_update_args;

/* lamb_fresh: 1-bit LAMB's moments (arXiv:2104.06069), where x is the next m, and v is frozen: m' = x,
 *  g = (x - β1 m) / (1-β1),  fresh = β2 fresh + (1-β2) g²,  w = m' / (sqrt(v) + eps),  u = w + weight_decay p,
 *  sums = { Σ w², Σ u² } over sumsq's blocks, 0 where the gate is closed,
 *  most = max(most, (sqrt(v) + eps) / (sqrt(fresh) + eps)). Of the rule the rest is not read. */
typedef struct tx_lamb_fresh_args {
    tx_tensor m, fresh; /* same shape, in and out; fp32 or fp64 */
    tx_tensor x, v, p;  /* same shape and type */
    tx_tensor sums;     /* [2, blocks] fp64, out */
    tx_tensor most;     /* [1] fp64, in and out, not negative */
    tx_lamb_rule rule;
    tx_tensor gate; /* as adam's */
} tx_lamb_fresh_args;

/* lamb_coeff: 1-bit LAMB's coefficients of n tensors. Without most: average = beta average + (1-beta) ratio, where
 * ratio is not 1. With it: f = most ratio + 1 - ratio, within [least, largest], then at most (1 + threshold) last and
 * at least (1 - threshold) last;  last = f,  ratio = average f. */
typedef struct tx_lamb_coeff_args {
    tx_tensor ratio;   /* [n] fp64, in, and with most out */
    tx_tensor average; /* [n] fp32, in, and without most out */
    tx_tensor most;    /* [n] fp64, optional */
    tx_tensor last;    /* [n] fp32, in and out, with most alone */
    double beta, least, largest, threshold;
    tx_tensor gate; /* as adam's */
} tx_lamb_coeff_args;

TX_DEVICE_CODE static inline double tx_lamb_factor(double f, double last, double least, double largest,
                                                   double threshold)
{
    f = f > largest ? largest : f;
    f = f < least ? least : f;
    f = f > last * (1 + threshold) ? last * (1 + threshold) : f;
    return f < last * (1 - threshold) ? last * (1 - threshold) : f;
}

/* blend: y = α x + β z, element by element, with
 *  α = alpha (the gate's factor, unless only `go` is read) / max(sqrt(Σ norm²), TX_BLEND_LEAST),  low = y.
 *  Without z there is no β z. y may be x's or z's memory. Types may all differ. With `diagonal` y is a square matrix,
 *  and gets so many identities more before it is rounded. */
#define TX_BLEND_LEAST 1e-15
typedef struct tx_blend_args {
    tx_tensor y;    /* any shape, contiguous, out; any float */
    tx_tensor x;    /* as y */
    tx_tensor z;    /* as y; optional */
    tx_tensor low;  /* as y; out, optional */
    tx_tensor norm; /* [n] fp64, optional: of the parts of what is divided by their norm */
    tx_tensor gate; /* [3] fp64, optional: clip's. With go 0 nothing changes */
    double alpha, beta, diagonal;
    bool only_go; /* the gate's factor is not read */
} tx_blend_args;

/* root_mul: y = x (sqrt(v) + eps), which takes back what Adam divides by. */
typedef struct tx_root_mul_args {
    tx_tensor y; /* any shape, contiguous, out; fp32 or fp64. It may be x's memory */
    tx_tensor x; /* as y */
    tx_tensor v; /* as y */
    double eps;
} tx_root_mul_args;

/* ---- compressed sums (zero/compressed.h): of a number its sign, and of all numbers one size ---- */

/* sign_pack: bits of x, 32 in a word, the first one lowest: 1 where x >= 0, and 0 behind the last one. x becomes what
 * is left out: x - s where the bit is 1, x + s where it is 0, with s the scale in fp32. */
typedef struct tx_sign_pack_args {
    tx_tensor bits;  /* [ceil(n / 32)] i32, out */
    tx_tensor x;     /* [n] fp32, in and out */
    tx_tensor scale; /* [1 or more] fp64: the first one is read */
} tx_sign_pack_args;

/* sign_sum: y = factor Σ_r ±scale_r, + where the bit of row r is 1; or that is added to y. Summed in fp64 in the order
 * of rows, and rounded once. */
typedef struct tx_sign_sum_args {
    tx_tensor y;     /* [n] fp32, out */
    tx_tensor bits;  /* [rows, ceil(n / 32)] i32; rows may lie further apart */
    tx_tensor scale; /* [rows, 1] fp64; likewise */
    tx_tensor mask;  /* as y, optional: where it is 0, y is */
    double factor;
    bool accumulate;
} tx_sign_sum_args;

/* ---- quantized sums (zero/quantized.h): blocks of signed integers, and of each block one size ----
 *
 *  A block is of TX_QUANTIZED_BLOCK elements, the last one filled up with zeros, and takes 1 + block bits / 32 words:
 * first its scale s in fp32, then integers q of 8 or 4 bits, the first one lowest; they stand for s q.
 *
 *      s = max |x| / limit,  q = x / s, rounded to the nearest (an even one), at most the limit: 127 or 7
 *
 *  s is 0 where it would be no normal number, and NaN where an element is not finite: so are all of the block then. */
#define TX_QUANTIZED_BLOCK 512

static inline int64_t tx_quantized_words(int64_t n, int bits)
{
    return (n + TX_QUANTIZED_BLOCK - 1) / TX_QUANTIZED_BLOCK * (1 + TX_QUANTIZED_BLOCK * bits / 32);
}

typedef struct tx_quantize_args {
    tx_tensor words; /* [tx_quantized_words] i32, out */
    tx_tensor x;     /* [n] float */
    int bits;        /* 8 or 4 */
} tx_quantize_args;

/* dequantize_sum: y = Σ_r s_r q_r of rows of words; or that is added to y. Summed in fp64 in the order of rows, and
 * rounded once. */
typedef struct tx_dequantize_sum_args {
    tx_tensor y;     /* [n] float, out */
    tx_tensor words; /* [rows, tx_quantized_words] i32; rows may lie further apart */
    int bits;
    bool accumulate;
} tx_dequantize_sum_args;

/* ---- the table ---- */

/* A row: `run` does the work in the memory `scratch`; the function `scratch` (optional) returns its size in bytes.
 * `composed` rows are called in a dry run too: they are made of other TX_RUNs, or report there that they cannot run. */
#define OP(name, ...)                                                           \
    typedef struct tx_##name##_row {                                            \
        tx_status (*run)(tx_ctx * c, const tx_##name##_args *a, void *scratch); \
        size_t (*scratch)(const tx_ctx *c, const tx_##name##_args *a);          \
        bool composed;                                                          \
    } tx_##name##_row;                                                          \
    tx_status tx_op_##name(tx_ctx *c, const tx_##name##_args *a);               \
    tx_status tx__check_##name(const tx_##name##_args *a);
#include "backend/ops.def"

struct tx_ops {
#define OP(name, ...) tx_##name##_row name;
#include "backend/ops.def"
};
typedef struct tx_ops tx_ops;

#endif
