/* labels: unit op */
/* Each layer alone: norm, MLP, experts, attention and block. On ref, in double precision, backward is what finite
 * differences of forward say, for the input and for every weight; on cpu, in each type, both give what ref gives of the
 * same numbers, and the same bits twice. */
#include "support.h"

#include "numbers.h"

#include "nn/block.h"

enum { S = 6, B = 2, H = 16, HEADS = 4, D = 4, F = 24, EXPERTS = 4, MAX_LEAVES = 40 };

/* What a layer is a function of: its input, first, and its weights. */
typedef struct leaf {
    const char *name;
    tx_weight *weight;
    int64_t n;
} leaf;

typedef struct rig {
    tx_ctx ctx;
    tx_dtype t;
    leaf leaf[MAX_LEAVES];
    int n_leaves;
    tx_weight x; /* [S, B, H] */
    tx_tensor y, dy;
    tx_dropout_key key;
    tx_keys keys;
    tx_norm norm;
    tx_mlp mlp;
    tx_attention attn;
    tx_block block;
    tx_moe moe;
    tx_mlp expert[EXPERTS];
    tx_moe_pass pass;
    tx_status (*fwd)(struct rig *);
    tx_status (*bwd)(struct rig *); /* x.grad, of dtype t, written; the weights' added to */
    tx_norm_saved norm_saved;
    tx_mlp_saved mlp_saved;
    tx_attention_saved attn_saved;
    tx_block_saved block_saved;
    tx_moe_saved moe_saved;
    tx_block_rooms lent;
    bool with_sinks;
} rig;

#define BEFORE 0.25 /* what weights' gradients are before backward, which adds to them */

/* Values about `centre`, of a type that all types hold. */
static void add(rig *r, const char *name, tx_weight *w, double centre, int64_t d0, int64_t d1, int64_t d2)
{
    leaf *l = &r->leaf[r->n_leaves++];
    assert_true(r->n_leaves <= MAX_LEAVES);
    bool input = w == &r->x;
    *w = (tx_weight){ .value = make(r->t, d0, d1, d2), .grad = make(input ? r->t : tx_wide(r->t), d0, d1, d2) };
    *l = (leaf){ name, w, tx_numel(w->value) };
    double scale = d1 && !input ? 0.5 : 0.8;
    for (int64_t i = 0; i < l->n; i++) set(w->value, i, centre + scale * draw(r->n_leaves, i));
}

/* ---- layers ---- */

static tx_status norm_fwd(rig *r)
{
    return tx_norm_fwd(&r->ctx, &r->norm, &r->norm_saved, tx_as_rows(r->y), r->x.value);
}

static tx_status norm_bwd(rig *r)
{
    return tx_norm_bwd(&r->ctx, &r->norm, &r->norm_saved, (tx_norm_gradient){ .d = r->x.grad, .dy = r->dy },
                       r->x.value);
}

/* The branch's gradient joins the stream's. */
static tx_status norm_joined_bwd(rig *r)
{
    return tx_norm_bwd(&r->ctx, &r->norm, &r->norm_saved,
                       (tx_norm_gradient){ .d = r->x.grad, .dy = r->dy, .dres = r->dy }, r->x.value);
}

static tx_status norm_joined_fwd(rig *r)
{
    TX_TRY(norm_fwd(r));
    if (r->ctx.dry) return TX_OK;
    for (int64_t i = 0; i < tx_numel(r->y); i++) set(r->y, i, get(r->y, i) + get(r->x.value, i));
    return TX_OK;
}

static void add_norm_of(rig *r, tx_norm *w, tx_norm_kind kind, bool plus_one, int64_t n)
{
    *w = (tx_norm){ .kind = kind, .eps = 1e-5, .plus_one = plus_one };
    add(r, "gamma", &w->gamma, plus_one ? 0 : 1, n, 0, 0);
    if (kind == TX_LAYERNORM) add(r, "beta", &w->beta, 0, n, 0, 0);
}

static void add_norm(rig *r, tx_norm *w, tx_norm_kind kind, bool plus_one)
{
    add_norm_of(r, w, kind, plus_one, H);
}

static void layernorm(rig *r)
{
    add_norm(r, &r->norm, TX_LAYERNORM, false);
    r->fwd = norm_fwd, r->bwd = norm_bwd;
}

static void layernorm_1p(rig *r)
{
    add_norm(r, &r->norm, TX_LAYERNORM, true);
    r->fwd = norm_joined_fwd, r->bwd = norm_joined_bwd;
}

static void layernorm_without_bias(rig *r)
{
    r->norm = (tx_norm){ .kind = TX_LAYERNORM, .eps = 1e-5 };
    add(r, "gamma", &r->norm.gamma, 1, H, 0, 0);
    r->fwd = norm_joined_fwd, r->bwd = norm_joined_bwd;
}

static void rmsnorm(rig *r)
{
    add_norm(r, &r->norm, TX_RMSNORM, false);
    r->fwd = norm_joined_fwd, r->bwd = norm_joined_bwd;
}

static void rmsnorm_1p(rig *r)
{
    add_norm(r, &r->norm, TX_RMSNORM, true);
    r->fwd = norm_fwd, r->bwd = norm_bwd;
}

static tx_status mlp_fwd(rig *r)
{
    return tx_mlp_fwd(&r->ctx, &r->mlp, &r->mlp_saved, tx_as_rows(r->y), tx_as_rows(r->x.value));
}

static tx_status mlp_bwd(rig *r)
{
    return tx_mlp_bwd(&r->ctx, &r->mlp, &r->mlp_saved, tx_as_rows(r->x.grad), tx_as_rows(r->dy),
                      tx_as_rows(r->x.value));
}

static void add_linear(rig *r, const char *w, const char *b, tx_linear *l, int64_t out, int64_t in, bool bias)
{
    add(r, w, &l->w, 0, out, in, 0);
    if (bias) add(r, b, &l->b, 0, out, 0, 0);
}

static void add_mlp(rig *r, tx_mlp *w, bool bias)
{
    add_linear(r, "h_to_4h.weight", "h_to_4h.bias", &w->h_to_4h, w->gated ? 2 * F : F, H, bias);
    add_linear(r, "4h_to_h.weight", "4h_to_h.bias", &w->to_h, H, F, bias);
    w->to_h.summed = true;
}

static void make_mlp(rig *r, tx_mlp w, bool bias)
{
    r->mlp = w;
    add_mlp(r, &r->mlp, bias);
    r->fwd = mlp_fwd, r->bwd = mlp_bwd;
}

static void mlp_gelu(rig *r)
{
    make_mlp(r, (tx_mlp){ .activation = TX_GELU_TANH }, true);
}

static void mlp_gelu_erf_again(rig *r)
{
    make_mlp(r, (tx_mlp){ .activation = TX_GELU_ERF, .recompute = true }, false);
}

static void mlp_relu(rig *r)
{
    make_mlp(r, (tx_mlp){ .activation = TX_RELU }, true);
}

static void mlp_geglu_tanh(rig *r)
{
    make_mlp(r, (tx_mlp){ .gated = true, .gate = TX_GLU_GELU_TANH }, false);
}

static void mlp_squared_relu(rig *r)
{
    make_mlp(r, (tx_mlp){ .activation = TX_SQUARED_RELU }, true);
}

static void mlp_swiglu(rig *r)
{
    make_mlp(r, (tx_mlp){ .gated = true, .gate = TX_GLU_SILU }, false);
}

static void mlp_geglu_second_again(rig *r)
{
    make_mlp(r, (tx_mlp){ .gated = true, .gate = TX_GLU_GELU, .gate_second = true, .recompute = true }, true);
}

static tx_moe_call moe_call(const rig *r)
{
    return (tx_moe_call){ .x = tx_as_rows(r->x.value),
                          .y = tx_as_rows(r->y),
                          .dx = tx_as_rows(r->x.grad),
                          .dy = tx_as_rows(r->dy),
                          .pass = &r->pass,
                          .random = &r->key };
}

static tx_status moe_fwd(rig *r)
{
    const tx_moe_call k = moe_call(r);
    return tx_moe_fwd(&r->ctx, &r->moe, &r->moe_saved, &k);
}

/* In dy's memory. */
static tx_status moe_bwd(rig *r)
{
    tx_moe_call k = moe_call(r);
    if (!r->ctx.dry) memcpy(k.dx.data, k.dy.data, (size_t)tx_numel(k.dy) * tx_dtype_size(k.dy.dtype));
    k.dy = k.dx;
    return tx_moe_bwd(&r->ctx, &r->moe, &r->moe_saved, &k);
}

static void add_gate(rig *r, const char *w, const char *b, tx_gate *g, int64_t n, bool bias)
{
    add_linear(r, w, b, &g->w, n, H, bias);
    g->how.scale = g->how.scale > 0 ? g->how.scale : 1;
}

/* With experts that are as `mlp`. */
static void add_moe(rig *r, tx_moe w, tx_mlp mlp, bool bias)
{
    r->moe = w;
    r->moe.n_experts = EXPERTS;
    r->moe.experts = (tx_experts){ r->expert, EXPERTS };
    r->moe.layer = 1;
    r->moe.recompute = mlp.recompute;
    r->pass = (tx_moe_pass){ .b = B, .train = true, .scale = 0.5 };
    add_gate(r, "router.weight", "", &r->moe.router, EXPERTS, false);
    if (w.has_bias) add(r, "router.expert_bias", &r->moe.bias, 0, EXPERTS, 0, 0);
    for (int e = 0; e < EXPERTS; e++) {
        r->expert[e] = mlp;
        add_mlp(r, &r->expert[e], bias);
    }
    r->moe.shared = r->moe.residual = mlp;
    r->moe.shared_gate.how = (tx_router){ .score = TX_ROUTER_SIGMOID, .k = 1 };
    r->moe.coefficient.how = (tx_router){ .k = 2 };
    if (w.has_shared) add_mlp(r, &r->moe.shared, bias);
    if (w.has_shared_gate) add_gate(r, "shared gate", "", &r->moe.shared_gate, 1, false);
    if (w.has_residual) add_mlp(r, &r->moe.residual, bias);
    if (w.has_residual) add_gate(r, "coefficient.weight", "coefficient.bias", &r->moe.coefficient, 2, true);
}

static void make_moe(rig *r, tx_moe w, tx_mlp mlp, bool bias)
{
    add_moe(r, w, mlp, bias);
    r->fwd = moe_fwd, r->bwd = moe_bwd;
}

#define GELU                       \
    (tx_mlp)                       \
    {                              \
        .activation = TX_GELU_TANH \
    }
#define AGAIN                                                 \
    (tx_mlp)                                                  \
    {                                                         \
        .gated = true, .gate = TX_GLU_SILU, .recompute = true \
    }

static void moe_first(rig *r)
{
    make_moe(r, (tx_moe){ .router.how = { .k = 1 }, .aux_coeff = 0.3 }, GELU, true);
}

static void moe_mixtral_again(rig *r)
{
    make_moe(r, (tx_moe){ .router.how = { .k = 2, .softmax_after = true }, .aux_coeff = 0.3, .z_coeff = 0.2 }, AGAIN,
             false);
}

/* Some tokens are dropped. */
static void moe_two_of_few(rig *r)
{
    make_moe(r,
             (tx_moe){ .router.how = { .k = 2, .renormalise = true, .drop = TX_DROP_SECONDS, .load_of_first = true },
                       .aux_coeff = 0.3,
                       .train_factor = 0.7 },
             GELU, true);
}

/* Second choices are drawn; and with more choices the smallest scores are dropped, with one drawn ones. */
static void moe_noisy_second(rig *r)
{
    moe_two_of_few(r);
    r->moe.router.how.noisy_second = true;
}

static void moe_small_dropped(rig *r)
{
    make_moe(r,
             (tx_moe){ .router.how = { .k = 3, .renormalise = true, .drop = TX_DROP_SMALL },
                       .aux_coeff = 0.3,
                       .train_factor = 0.6 },
             AGAIN, false);
}

static void moe_drawn_dropped(rig *r)
{
    make_moe(
        r,
        (tx_moe){
            .router.how = { .k = 1, .drop = TX_DROP_RANDOM }, .train_factor = 0.6, .aux_coeff = 0.3, .z_coeff = 0.2 },
        GELU, true);
}

static void moe_sigmoid_shared(rig *r)
{
    make_moe(r,
             (tx_moe){ .router.how = { .score = TX_ROUTER_SIGMOID, .k = 3, .renormalise = true, .scale = 2.5 },
                       .has_bias = true,
                       .has_shared = true,
                       .aux_coeff = 0.3 },
             AGAIN, false);
}

static void moe_shared_gate(rig *r)
{
    make_moe(r,
             (tx_moe){ .router.how = { .k = 2, .renormalise = true },
                       .has_shared = true,
                       .has_shared_gate = true,
                       .z_coeff = 0.2 },
             GELU, true);
}

static void moe_residual_dropped(rig *r)
{
    make_moe(r, (tx_moe){ .router.how = { .k = 1 }, .has_residual = true, .train_factor = 0.6, .aux_coeff = 0.3 }, GELU,
             true);
}

/* To one expert; those that are over are dropped, and the others have none. */
static void moe_all_to_one(rig *r)
{
    make_moe(r, (tx_moe){ .router.how = { .k = 1 }, .train_factor = 1, .has_bias = true, .aux_coeff = 0.3 }, GELU,
             true);
    set(r->moe.bias.value, 2, 3);
}

static void moe_all_to_one_kept(rig *r)
{
    moe_all_to_one(r);
    r->moe.train_factor = 0;
}

static tx_status attention_fwd(rig *r)
{
    const tx_attention_call k = { .x = r->x.value, .y = r->y, .seen = r->keys, .dropout = &r->key };
    return tx_attention_layer_fwd(&r->ctx, &r->attn, &r->attn_saved, &k);
}

static tx_status attention_bwd(rig *r)
{
    const tx_attention_call k = { .x = r->x.value, .dx = r->x.grad, .dy = r->dy, .seen = r->keys, .dropout = &r->key };
    return tx_attention_layer_bwd(&r->ctx, &r->attn, &r->attn_saved, &k);
}

static void add_attention(rig *r, tx_attention *w, bool bias)
{
    w->n_heads = w->n_heads_whole = HEADS;
    w->d = D;
    w->rope_theta = 100;
    w->layer = 1;
    if (!(w->scale > 0)) w->scale = 1.0 / sqrt((double)D);
    add_linear(r, "query_key_value.weight", "query_key_value.bias", &w->qkv, (HEADS + 2 * w->n_groups) * D, H, bias);
    add_linear(r, "dense.weight", "dense.bias", &w->proj, H, HEADS * D, bias);
    if (w->qk_norm || w->qk_norm_whole) {
        add_norm_of(r, &w->q_norm, w->q_norm.kind, false, w->qk_norm_whole ? HEADS * D : D);
        add_norm_of(r, &w->k_norm, w->k_norm.kind, false, w->qk_norm_whole ? w->n_groups * D : D);
        w->q_norm.of_ranks = w->k_norm.of_ranks = w->qk_norm_whole;
    }
    if (r->with_sinks) add(r, "sink", &w->sink, 0, HEADS, 0, 0);
    w->proj.summed = true;
}

static void make_attention(rig *r, tx_attention w, bool bias)
{
    r->attn = w;
    add_attention(r, &r->attn, bias);
    r->fwd = attention_fwd, r->bwd = attention_bwd;
}

static void attention_causal(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = HEADS, .causal = true }, true);
}

static void attention_dropped(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = HEADS, .causal = true, .p_drop = 0.3 }, true);
}

static void attention_grouped_rotary(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = 2, .causal = true, .n_rot = D }, false);
}

static void attention_one_group_half_rotary(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = 1, .causal = true, .n_rot = D / 2, .p_drop = 0.2 }, true);
}

static void attention_qk_rmsnorm_rotary(rig *r)
{
    make_attention(r,
                   (tx_attention){ .n_groups = 2,
                                   .causal = true,
                                   .n_rot = D,
                                   .qk_norm = true,
                                   .q_norm.kind = TX_RMSNORM,
                                   .k_norm.kind = TX_RMSNORM },
                   false);
}

static void attention_qk_whole(rig *r)
{
    make_attention(r,
                   (tx_attention){ .n_groups = 2,
                                   .causal = true,
                                   .n_rot = D,
                                   .rope_interleaved = true,
                                   .qk_norm_whole = true,
                                   .q_norm.kind = TX_RMSNORM,
                                   .k_norm.kind = TX_RMSNORM },
                   false);
}

/* Longer than the text that its positions were made for, and with what YaRN multiplies. */
static void attention_rotary_scaled(rig *r)
{
    static const double frequency[D / 2] = { 1.5, 0.3 };
    make_attention(r,
                   (tx_attention){ .n_groups = 2,
                                   .causal = true,
                                   .n_rot = D,
                                   .rope_frequency = frequency,
                                   .rope_scale = 1.2,
                                   .rope_grows_by = 2,
                                   .rope_grows_from = 3 },
                   true);
}

static void attention_qk_layernorm(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = HEADS, .causal = true, .n_rot = D, .qk_norm = true }, true);
}

static void attention_window_capped(rig *r)
{
    make_attention(r,
                   (tx_attention){
                       .n_groups = 2, .causal = true, .n_rot = D, .scale = 0.7, .kind.window = 2, .kind.softcap = 1.5 },
                   false);
}

static void attention_sinks(rig *r)
{
    r->with_sinks = true;
    make_attention(r, (tx_attention){ .n_groups = 2, .causal = true, .kind.window = 3, .p_drop = 0.2 }, true);
}

static void attention_off_by_one(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = HEADS, .kind.off_by_one = true }, true);
}

/* Samples of which the last keys are padding. */
static void attention_padded(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = HEADS }, true);
    r->keys.n = make(TX_I32, B, 0, 0);
    for (int i = 0; i < B; i++) ((int32_t *)r->keys.n.data)[i] = S - 2 * i;
}

/* Documents that do not see each other. */
static void attention_documents(rig *r)
{
    make_attention(r, (tx_attention){ .n_groups = 2, .causal = true }, true);
    r->keys.first = make(TX_I32, S, B, 0);
    for (int s = 0; s < S; s++)
        for (int b = 0; b < B; b++) ((int32_t *)r->keys.first.data)[s * B + b] = s >= 2 + b ? 2 + b : 0;
}

#include "block_cases.h"

typedef struct layer_case {
    const char *name;
    void (*build)(rig *);
} layer_case;

#define CASE(f) \
    {           \
#f, f   \
    }
static const layer_case cases[] = {
    CASE(layernorm),
    CASE(layernorm_1p),
    CASE(layernorm_without_bias),
    CASE(rmsnorm),
    CASE(rmsnorm_1p),
    CASE(mlp_gelu),
    CASE(mlp_gelu_erf_again),
    CASE(mlp_squared_relu),
    CASE(mlp_relu),
    CASE(mlp_swiglu),
    CASE(mlp_geglu_tanh),
    CASE(mlp_geglu_second_again),
    CASE(moe_first),
    CASE(moe_mixtral_again),
    CASE(moe_two_of_few),
    CASE(moe_noisy_second),
    CASE(moe_small_dropped),
    CASE(moe_drawn_dropped),
    CASE(moe_sigmoid_shared),
    CASE(moe_shared_gate),
    CASE(moe_residual_dropped),
    CASE(moe_all_to_one),
    CASE(moe_all_to_one_kept),
    CASE(attention_causal),
    CASE(attention_dropped),
    CASE(attention_grouped_rotary),
    CASE(attention_one_group_half_rotary),
    CASE(attention_qk_rmsnorm_rotary),
    CASE(attention_qk_layernorm),
    CASE(attention_window_capped),
    CASE(attention_sinks),
    CASE(attention_off_by_one),
    CASE(attention_qk_whole),
    CASE(attention_rotary_scaled),
    CASE(attention_padded),
    CASE(attention_documents),
    CASE(block_gpt),
    CASE(block_dropped),
    CASE(block_residual_post_norm),
    CASE(block_bert),
    CASE(block_llama),
    CASE(block_norms_again),
    CASE(block_norms_out),
    CASE(block_norms_both),
    CASE(block_norms_both_again),
    CASE(block_bert_again),
    CASE(block_parallel_one_norm),
    CASE(block_parallel_one_norm_again),
    CASE(block_parallel_two_norms),
    CASE(block_parallel_experts_again),
    CASE(block_experts),
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* ---- a rig ---- */

static void begin(rig *r, const layer_case *c, const char *backend, tx_dtype t)
{
    *r = (rig){ .t = t };
    ASSERT_OK(tx_ctx_init(&r->ctx, backend, 2));
    add(r, "x", &r->x, 0, S, B, H);
    r->y = make(t, S, B, H);
    r->dy = make(t, S, B, H);
    for (int64_t i = 0; i < S * B * H; i++) set(r->dy, i, draw(99, i));
    r->key = (tx_dropout_key){ .seed = 5, .iteration = 1, .s_global = S, .on = true };
    c->build(r);
    ASSERT_OK(r->fwd(r)); /* dry */
    ASSERT_OK(r->bwd(r));
    ASSERT_OK(tx_ctx_take_memory(&r->ctx));
}

static void finish(rig *r)
{
    for (int i = 0; i < r->n_leaves; i++) {
        free(r->leaf[i].weight->value.data);
        free(r->leaf[i].weight->grad.data);
    }
    free(r->y.data);
    free(r->dy.data);
    free(r->keys.first.data);
    free(r->keys.n.data);
    free(r->lent.norm.data);
    free(r->lent.branch.data);
    tx_ctx_deinit(&r->ctx);
}

static void forward(rig *r)
{
    size_t mark = tx_arena_mark(&r->ctx.acts);
    ASSERT_OK(r->fwd(r));
    tx_arena_pop(&r->ctx.acts, mark);
}

static void forward_backward(rig *r)
{
    size_t mark = tx_arena_mark(&r->ctx.acts);
    for (int i = 0; i < r->n_leaves; i++)
        for (int64_t k = 0; k < r->leaf[i].n; k++) set(r->leaf[i].weight->grad, k, BEFORE);
    ASSERT_OK(r->fwd(r));
    ASSERT_OK(r->bwd(r));
    tx_arena_pop(&r->ctx.acts, mark);
}

/* What backward has given a number of a leaf. */
static double gradient(const rig *r, const leaf *l, int64_t i)
{
    return get(l->weight->grad, i) - (l->weight == &r->x ? 0 : BEFORE);
}

/* ---- what holds ---- */

/* The losses of a layer with experts, from what its router has chosen. */
static double own_losses(const rig *r)
{
    const tx_gate_saved *a = &r->moe_saved.router;
    const tx_router *how = &r->moe.router.how;
    double aux = 0, tokens = S * B, choices = how->load_of_first ? 1 : (double)how->k;
    if (r->fwd != moe_fwd) return 0;
    for (int e = 0; e < EXPERTS; e++) aux += get(a->stats, e) * ((const int32_t *)a->chosen.data)[e];
    return r->pass.scale * (r->moe.aux_coeff * EXPERTS * aux / (choices * tokens * tokens) +
                            r->moe.z_coeff * get(a->stats, EXPERTS) / tokens);
}

static double objective(rig *r)
{
    forward(r);
    double sum = own_losses(r);
    for (int64_t i = 0; i < tx_numel(r->y); i++) sum += get(r->dy, i) * get(r->y, i);
    return sum;
}

static void backward_is_what_differences_say(void **state)
{
    (void)state;
    const double step = 1e-5;
    for (int c = 0; c < N_CASES; c++) {
        rig r;
        begin(&r, &cases[c], "ref", TX_F64);
        forward_backward(&r);
        for (int i = 0; i < r.n_leaves; i++) {
            const leaf *l = &r.leaf[i];
            double *was = calloc((size_t)l->n, sizeof *was), f[2], slope = 0;
            assert_non_null(was);
            for (int64_t k = 0; k < l->n; k++) was[k] = get(l->weight->value, k);
            for (int64_t k = 0; k < l->n; k++) slope += gradient(&r, l, k) * draw(40 + i, k);
            for (int side = 0; side < 2; side++) {
                for (int64_t k = 0; k < l->n; k++)
                    set(l->weight->value, k, was[k] + (side ? step : -step) * draw(40 + i, k));
                f[side] = objective(&r);
            }
            double difference = (f[1] - f[0]) / (2 * step);
            if (!(fabs(difference - slope) <= 1e-8 + 1e-7 * fabs(slope)))
                fail_msg("%s: %s: by its gradient %.12g, by differences %.12g", cases[c].name, l->name, slope,
                         difference);
            for (int64_t k = 0; k < l->n; k++) set(l->weight->value, k, was[k]);
            free(was);
        }
        finish(&r);
    }
}

/* @bound  of the whole tensor's size */
static void near(const char *name, const char *what, double off, double size, double bound, double *most)
{
    double part = sqrt(off / (size > 0 ? size : 1));
    if (part / bound > *most) *most = part / bound;
    if (!(part <= bound)) fail_msg("%s: %s is off by %.2e of its size, allowed %.1e", name, what, part, bound);
}

static void compare(const layer_case *c, rig *got, rig *ref, double bound, double *most)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < tx_numel(ref->y); i++) {
        off += pow(get(got->y, i) - get(ref->y, i), 2);
        size += pow(get(ref->y, i), 2);
    }
    near(c->name, "y", off, size, bound, most);
    for (int k = 0; k < ref->n_leaves; k++) {
        const leaf *l = &got->leaf[k], *m = &ref->leaf[k];
        off = size = 0;
        for (int64_t i = 0; i < m->n; i++) {
            off += pow(gradient(got, l, i) - gradient(ref, m, i), 2);
            size += pow(gradient(ref, m, i), 2);
        }
        near(c->name, m->name, off, size, bound, most);
    }
}

/* A number of a layer goes through some ten roundings. */
static void cpu_is_ref(tx_dtype t, double epsilon)
{
    double most = 0;
    for (int c = 0; c < N_CASES; c++) {
        rig got, ref;
        begin(&got, &cases[c], "cpu", t);
        begin(&ref, &cases[c], "ref", TX_F64);
        for (int i = 0; i < ref.n_leaves; i++)
            for (int64_t k = 0; k < ref.leaf[i].n; k++)
                set(ref.leaf[i].weight->value, k, get(got.leaf[i].weight->value, k));
        for (int64_t k = 0; k < tx_numel(ref.dy); k++) set(ref.dy, k, get(got.dy, k));
        forward_backward(&ref);
        forward_backward(&got);
        compare(&cases[c], &got, &ref, 10 * epsilon, &most);

        /* and again, to the bit */
        size_t bytes = (size_t)tx_numel(got.y) * tx_dtype_size(t);
        void *y = malloc(bytes), *dx = malloc(bytes);
        assert_true(y && dx);
        memcpy(y, got.y.data, bytes);
        memcpy(dx, got.x.grad.data, bytes);
        forward_backward(&got);
        if (memcmp(y, got.y.data, bytes) || memcmp(dx, got.x.grad.data, bytes))
            fail_msg("%s: other bits the second time", cases[c].name);
        free(y);
        free(dx);
        finish(&ref);
        finish(&got);
    }
    print_message("%s: at most %.2f of the bound\n", tx_dtype_name(t), most);
}

static void cpu_in_fp32(void **state)
{
    (void)state;
    cpu_is_ref(TX_F32, ldexp(1, -23));
}

static void cpu_in_bf16(void **state)
{
    (void)state;
    cpu_is_ref(TX_BF16, ldexp(1, -8));
}

static void cpu_in_fp16(void **state)
{
    (void)state;
    cpu_is_ref(TX_F16, ldexp(1, -11));
}

/* ---- what neither differences nor ref can know ---- */

static void geglu(rig *r)
{
    make_mlp(r, (tx_mlp){ .gated = true, .gate = TX_GLU_GELU }, true);
}

/* The gate's rows second are the gate's rows first, the other way round. */
static void a_second_gate_is_a_first_one_elsewhere(void **state)
{
    (void)state;
    rig first, second;
    begin(&first, &(layer_case)CASE(geglu), "ref", TX_F64);
    begin(&second, &(layer_case)CASE(mlp_geglu_second_again), "ref", TX_F64);
    tx_weight *from = &first.mlp.h_to_4h.w, *to = &second.mlp.h_to_4h.w;
    for (int64_t i = 0; i < 2 * F * H; i++) set(to->value, (i + F * H) % (2 * F * H), get(from->value, i));
    from = &first.mlp.h_to_4h.b, to = &second.mlp.h_to_4h.b;
    for (int64_t i = 0; i < 2 * F; i++) set(to->value, (i + F) % (2 * F), get(from->value, i));
    forward_backward(&first);
    forward_backward(&second);
    assert_memory_equal(first.y.data, second.y.data, (size_t)tx_numel(first.y) * sizeof(double));
    for (int64_t i = 0; i < 2 * F; i++)
        ASSERT_NEAR(gradient(&second, &second.leaf[2], (i + F) % (2 * F)), gradient(&first, &first.leaf[2], i), 1e-12,
                    "a gradient of h_to_4h.bias");
    finish(&first);
    finish(&second);
}

/* Each of the cases that say so does drop. */
static void what_should_drop_does(void **state)
{
    (void)state;
    static const layer_case dropping[] = { CASE(moe_two_of_few),    CASE(moe_noisy_second),     CASE(moe_small_dropped),
                                           CASE(moe_drawn_dropped), CASE(moe_residual_dropped), CASE(moe_all_to_one) };
    for (int i = 0; i < 6; i++) {
        rig r;
        begin(&r, &dropping[i], "ref", TX_F64);
        forward(&r);
        int64_t all = S * B * r.moe.router.how.k, kept = r.moe_saved.router.n;
        if (kept >= all || !kept)
            fail_msg("%s: %lld of %lld are kept", dropping[i].name, (long long)kept, (long long)all);
        finish(&r);
    }
}

static void one_mlp(rig *r)
{
    make_mlp(r, GELU, true);
}

/* Weights come in the same order, so they are the same. */
static void one_expert(rig *r)
{
    r->expert[0] = GELU;
    add_mlp(r, &r->expert[0], true);
    r->moe = (tx_moe){ .experts = { r->expert, 1 }, .n_experts = 1, .layer = 1, .aux_coeff = 0.5 };
    r->moe.router.how.k = 1;
    add_gate(r, "router.weight", "", &r->moe.router, 1, false);
    r->pass = (tx_moe_pass){ .b = B, .train = true, .scale = 1 };
    r->fwd = moe_fwd, r->bwd = moe_bwd;
}

/* Whose weight is 1: the same bits as an MLP, where products of groups are one product each. */
static void an_only_expert_is_an_mlp(void **state)
{
    (void)state;
    rig mlp, moe;
    begin(&mlp, &(layer_case)CASE(one_mlp), "ref", TX_F64);
    begin(&moe, &(layer_case)CASE(one_expert), "ref", TX_F64);
    forward_backward(&mlp);
    forward_backward(&moe);
    assert_memory_equal(mlp.y.data, moe.y.data, (size_t)tx_numel(mlp.y) * sizeof(double));
    for (int i = 0; i < mlp.n_leaves; i++)
        assert_memory_equal(mlp.leaf[i].weight->grad.data, moe.leaf[i].weight->grad.data,
                            (size_t)mlp.leaf[i].n * sizeof(double));
    finish(&mlp);
    finish(&moe);
}

/* A site's mask is named by seed, iteration, layer and site, and by nothing else. */
static void masks_have_names(void **state)
{
    (void)state;
    const tx_dropout_key key = {
        .seed = 3, .iteration = 7, .sample = 11, .s_global = S, .at = { .first = 2 }, .on = true
    };
    tx_dropout_key off = key;
    off.on = false;
    tx_dropout a = tx_dropout_at(&key, 0.5, 1, TX_DROP_ATTENTION_OUT);
    assert_int_equal(a.drop, 32768);
    assert_int_equal(a.sample, 11);
    assert_int_equal(a.s_global, S);
    assert_int_equal(a.at.first, 2);
    assert_int_equal(a.rng.step, 7);
    assert_int_equal(a.rng.seed, 3);
    assert_int_equal(tx_dropout_at(&off, 0.5, 1, TX_DROP_MLP_OUT).drop, 0);
    assert_int_equal(tx_dropout_at(&key, 0, 1, TX_DROP_MLP_OUT).drop, 0);
    assert_int_equal(tx_dropout_at(&key, 1, 1, TX_DROP_MLP_OUT).drop, 65535);
    uint32_t seen[4 * 4];
    for (int i = 0; i < 16; i++) {
        seen[i] = tx_dropout_at(&key, 0.1, i / 4, (tx_dropout_site)(i % 4)).rng.stream;
        for (int k = 0; k < i; k++) assert_int_not_equal(seen[i], seen[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_is_what_differences_say),
        cmocka_unit_test(cpu_in_fp32),
        cmocka_unit_test(cpu_in_bf16),
        cmocka_unit_test(cpu_in_fp16),
        cmocka_unit_test(a_second_gate_is_a_first_one_elsewhere),
        cmocka_unit_test(what_should_drop_does),
        cmocka_unit_test(an_only_expert_is_an_mlp),
        cmocka_unit_test(masks_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
