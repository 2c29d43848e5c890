/* param.h - the parameter table (DESIGN idea 1). A model declares each parameter once; allocation, initial values,
 * optimizer groups, checkpoints, counting and the memory plan read this table and nothing else knows names or offsets.
 *
 *   flat buffers, every parameter starting on a multiple of TX_PARAM_ALIGN elements; in table order, until somebody
 *   lays them in another (zero/flat.h):
 *
 *     value  | wte....... | wpe.. | ln1.g | ln1.b | qkv......... | ...     what layers compute with: fp32, bf16 or fp16
 *     grad   | the same offsets                                            fp32, or what zero/zero.h rounds it to
 *     master | the same offsets                                            fp32; value's own memory where that is fp32
 *     m, v   | the same offsets                                            fp32
 *
 *  A table is one rank's: of a parameter that tensor parallelism splits it has this rank's shard, of a pipeline stage
 * its own layers. Names and everything that is addressed by place (initial values, checkpoints) are global, so they are
 * the same in every layout. */
#ifndef TX_NN_PARAM_H
#define TX_NN_PARAM_H

#include "backend/ops.h"
#include "base/hash_table.h"
#include "base/status.h"
#include "triax/model.h"
#include "triax/optimizer.h"

#define TX_PARAM_ALIGN    TX_SUMSQ_BLOCK /* so that a fragment of a tensor has whole blocks of the norm's */
#define TX_PARAM_NAME_MAX 128

/* What the first contribution to a gradient in an iteration does: it is added to zeros, or, of a matrix that only
 * products contribute to before anything else, written. Zeros need neither be written nor read then. */
typedef enum tx_first { TX_ADDS, TX_SETS } tx_first;

/* How a parameter lies on the ranks that share the tensors of a layer (Megatron-LM arXiv:1909.08053 §3; sequence
 * parallelism: arXiv:2205.05198 §4.2). */
typedef enum tx_over_tp {
    TX_SPLIT, /* a shard each */
    TX_SAME,  /* all of it on each, and each comes to the same gradient by itself */
    TX_PARTS, /* all of it on each; with sequence parallelism a rank's gradient is that of its part of the sequence, and
                 theirs have to be summed. Without, as TX_SAME */
    TX_HEADS  /* all of it on each; a rank's gradient is that of its heads, and theirs have to be summed */
} tx_over_tp;

/* One row of a layer's declaration: shape letters are looked up in the model's tx_dims ("q/t,h", "f", "V/t,h"). */
typedef struct tx_param_decl {
    const char *name;  /* inside its layer: "self_attention.query_key_value.weight" */
    const char *shape; /* dims joined by ',', each "[number]letter"; "/t" after one that tensor ranks split (TX_SPLIT),
                        * '+' at the end of the shape of a TX_PARTS, '*' of a TX_HEADS */
    tx_init init;
    tx_decay decay;
    tx_first first;
    size_t field;  /* offsetof the tx_weight in the layer's struct */
    unsigned when; /* traits that a model must all have for the row to be there; 0: it always is */
} tx_param_decl;

/* Sizes the shape letters stand for, of the whole model. 'V' is the padded vocabulary; only its first v_logical rows
 * are real. */
typedef struct tx_dims {
    int64_t h, f, V, v_logical, P; /* hidden, ffn, vocabulary rows, real ones, positions */
    int64_t T;                     /* token types, and classes of the binary head */
    int64_t E;                     /* choices of a gate: experts of a layer */
    int64_t q, a, u;               /* fused q+k+v rows, all heads side by side, rows of the MLP's first matrix */
    int64_t d;                     /* a head, of which there are n = a / d */
    int64_t k, r;                  /* rows of the keys of all groups; rank of adapters (nn/lora.h) */
    int u_parts;       /* blocks of equal size that u is made of, each split over the ranks: 2 with a gate; 0 is 1 */
    int n_tp, tp_rank; /* tensor-parallel ranks, 0 is 1; they divide what "/t" stands after */
    int reduce_group;  /* of what is declared (tx_group_kind); 0: TX_GROUP_DATA */
    bool frozen;       /* what is declared is not trained */
    bool tied, copy;   /* what is declared is on the pipeline's first and last stage; this is the last one's */
    unsigned traits;   /* the layers' own bits */
} tx_dims;

/* Parameters that a model uses together, rows [first, end) of the table: what ZeRO gathers and drops, and what the
 * stack reports as layers use them (tx_unit_hooks). */
typedef enum tx_unit_kind { TX_UNIT_LAYER, TX_UNIT_WORDS, TX_UNIT_EMBEDDING, TX_UNIT_HEAD } tx_unit_kind;
typedef struct tx_unit {
    tx_unit_kind kind;
    int chunk; /* of the pipeline stage */
    int first, end;
    bool apart; /* of its chunk: its gradients are not complete when those of the other layers are */
} tx_unit;

typedef struct tx_param {
    char name[TX_PARAM_NAME_MAX]; /* global name, as in checkpoints: "encoder.layers.0.mlp.dense_h_to_4h.bias" */
    int n_dims;
    int64_t dim[2];        /* of this rank's shard as stored: rows that pad the vocabulary included */
    int64_t rows_logical;  /* rows of dim[0] that are real, trained and saved; == dim[0] but for the vocabulary, where
                              it may be 0 */
    int64_t whole[2];      /* dims of the parameter over all ranks; padding included */
    int64_t whole_logical; /* rows of whole[0] that are real */
    int split_dim;         /* the dimension that is split, or -1 */
    int n_parts;           /* blocks that it is made of, each split over the ranks */
    int n_tp, tp_rank;     /* how many shards, and which one this is; 1 and 0 where nothing is split */
    tx_over_tp over_tp;
    bool of_vocabulary; /* a matrix with a row for each token: the word embedding, the output layer */
    int64_t fused[3];   /* rows of a query, key and value projection: those that belong to a group's queries, to its key
                         * and to its value, one after the other, and again for each group; 0: it is none */
    bool tied;          /* both ends of the pipeline have it: gradients are summed over the ends group */
    bool counted; /* this rank is the one of those with the same numbers that counts them in norms and saves them: the
                     first of the tensor-parallel ones, of a tied one the first stage's; and of a reduce group, whose
                     members have the same numbers without ZeRO, where experts are divided (tx_zero_open) */
    int reduce_group;      /* tx_group_kind (parallel/grid.h): over these ranks ZeRO sums its gradients and divides its
                              state: TX_GROUP_DATA, or of experts that ranks divide among them TX_GROUP_EXPERT_DATA */
    int64_t offset, numel; /* elements, in every flat buffer */
    int unit;
    tx_init init;
    double std; /* of its normal ones; 0: the method's */
    tx_decay decay;
    double lr_scale, decay_scale; /* factors of the learning rate and of weight decay; 1 */
    bool frozen;                  /* it is not trained: it has no gradient, no master and no state */
    int group;                    /* 1 for the first of those that tx_params_group was given; 0: none matches */
    tx_first first;
    tx_weight *weight; /* where the layer looks; filled by tx_params_bind */
} tx_param;

typedef struct tx_params {
    tx_param *param;
    int n, cap;
    int64_t numel; /* elements of a flat buffer */
    tx_unit *unit;
    int n_units, units_cap;
    tx_hash_table by_name; /* of param */
} tx_params;

/* Where a fragment of rows or columns of a shard lies in the whole parameter. */
typedef struct tx_param_piece {
    int64_t start[2], size[2]; /* a box of the whole, real rows only; size[0] may be 0. [1] is 0, 1 of a vector */
    int64_t at[2];             /* row and column of its first element in the shard */
} tx_param_piece;

enum { TX_PARAM_MAX_PIECES = 2 };

/* Elements [first, first + numel) of the shard of a row of the table, in memory order, that a rank keeps; in buffers
 * that hold only what is kept they begin at `at`. */
typedef struct tx_fragment {
    int row;
    int64_t first, numel, at;
} tx_fragment;

typedef struct tx_fragments {
    tx_fragment *fragment;
    int n;
    int64_t numel; /* of a kept buffer */
} tx_fragments;

/* The pieces of the shard; their number, at most TX_PARAM_MAX_PIECES. */
int tx_param_pieces(const tx_param *p, tx_param_piece *piece);

/* Elements [first, first + n) of the shard out of the whole parameter, whose padding rows are not read; the shard's own
 * are zeroed.   @x [n]   @whole [whole_logical, whole[1]] */
void tx_param_cut_range(const tx_param *p, float *x, const float *whole, int64_t first, int64_t n);

/* p as rank tp_rank of n_tp has it: only dim, numel, rows_logical, n_tp and tp_rank are another. n_tp divides the
 * dimension that is split, block by block: tx_param_divides. */
tx_param tx_param_shard(const tx_param *p, int n_tp, int tp_rank);
bool tx_param_divides(const tx_param *p, int n_tp);

/* Elements of the whole parameter, padding included, and of the largest one of a table. */
int64_t tx_param_whole_numel(const tx_param *p);
int64_t tx_params_largest_whole(const tx_params *ps);

/* Where row r of the shard lies in the whole; its columns begin at tx_param_column there. */
int64_t tx_param_row(const tx_param *p, int64_t r);
int64_t tx_param_column(const tx_param *p);

/* What is declared from here on is a unit of its own. TX_ERR_NOMEM. */
tx_status tx_params_begin_unit(tx_params *ps, tx_unit_kind kind, int chunk);

/* Appends those of n rows whose traits are there: names become "<prefix><name>", weights lie at `base` + field.
 * TX_ERR_NOMEM. */
tx_status tx_params_declare(tx_params *ps, const char *prefix, const tx_param_decl *decl, int n, void *base,
                            const tx_dims *dims);

/* Appends the parameter of a user-defined model, "<layer>.<name>", which has been checked. Of dims ranks, tied and copy
 * are read. TX_ERR_NOMEM. */
tx_status tx_params_add(tx_params *ps, const char *layer, const tx_param_spec *spec, tx_weight *weight,
                        const tx_dims *dims);

/* The groups' factors, of each parameter those of the first group that matches it.
 * @matched [n] which patterns match a parameter of this table.   TX_ERR_ARG: a group that cannot be */
tx_status tx_params_group(tx_params *ps, const tx_param_group *group, int n, bool *matched);

/* The parameter as a tensor of dtype t whose numbers are at `data`, or nowhere. */
tx_tensor tx_param_view(const tx_param *p, void *data, tx_dtype t);

/* Points every weight into the two flat buffers of ps->numel elements: values of dtype t, gradients of fp32, which may
 * be NULL (inference). */
void tx_params_bind(tx_params *ps, void *value, tx_dtype t, float *grad);

/* To be called before the first contribution to the gradients of rows [first, end): those of the TX_ADDS kind are
 * filled with zeros, the others' weights become fresh. Whoever contributes to those then says so. */
tx_status tx_params_zero_grad(tx_ctx *c, const tx_params *ps, int first, int end);
/* Instead of a contribution, where there is nothing: those of these rows that are fresh become zeros. */
tx_status tx_params_nothing(tx_ctx *c, const tx_params *ps, int first, int end);
void tx_params_contributed(const tx_params *ps, int first, int end); /* rows [first, end) are fresh no more */

/* What the stack (nn/stack.h) reports of the units of a table as it comes to them; parameters and gradients may be
 * somewhere else until then, and afterwards. `next` is a unit that is likely to be used next, or -1. */
typedef struct tx_unit_hooks {
    tx_status (*gather)(void *user, int unit, int next);    /* its values will be read, until they are left */
    tx_status (*release)(void *user, int unit, bool again); /* as often as used; again: backward will use it */
    tx_status (*pre_backward)(void *user, int unit);        /* gradients will be contributed */
    tx_status (*post_backward)(void *user, int unit,
                               bool last); /* this micro-batch contributes no more; last: none does */
    bool each_time;                        /* gradients have memory between pre_backward and post_backward alone */
    void *user;
} tx_unit_hooks;

/* The initial values of a user-defined model. */
typedef struct tx_initial {
    tx_initial_fn *fn;
    void *user;
} tx_initial;

/* How matrices begin: normal with std, which TX_INIT_SCALED divides by sqrt(2 n_layers) (Megatron-LM; GPT-2
 * §2.3), or with xavier_uniform all uniform within sqrt(6 / (rows + columns)) (Glorot and Bengio 2010), padding rows
 * not counted. */
typedef struct tx_init_method {
    double std;
    int n_layers;
    bool xavier_uniform;
    tx_initial own; /* of TX_INIT_OWN */
} tx_init_method;

/* Initial values of elements [first, first + n) of a parameter's shard: a pure function of (seed, name, global
 * element), the same in every layout; padding rows are zero. @x [n] */
void tx_param_init(const tx_param *p, float *x, int64_t first, int64_t n, uint64_t seed, tx_init_method method);

/* Master weights as layers compute with them, rounded to nearest even.   @to [n] of dtype t   @from [n] */
void tx_params_round(void *to, tx_dtype t, const float *from, int64_t n);

const tx_param *tx_params_find(const tx_params *ps, const char *name); /* NULL if there is none */

/* Elements of a shard that are real; they come first, because the rows that pad a table are its last ones. */
int64_t tx_param_n_real(const tx_param *p);

/* Real parameters (padding rows not counted) that this rank counts. */
int64_t tx_params_count(const tx_params *ps);

void tx_params_deinit(tx_params *ps);

#endif
