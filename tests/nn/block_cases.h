/* block_cases.h - whole layers, for test_layers.c: where norms are, and halves in turn and in parallel. */
static tx_block_call block_call(const rig *r)
{
    return (tx_block_call){ .x = r->x.value,
                            .y = r->y,
                            .d = r->x.grad,
                            .seen = r->keys,
                            .dropout = &r->key,
                            .pass = r->pass,
                            .lent = &r->lent };
}

static tx_status block_fwd(rig *r)
{
    const tx_block_call k = block_call(r);
    return tx_block_fwd(&r->ctx, &r->block, &r->block_saved, &k);
}

static tx_status block_bwd(rig *r)
{
    if (!r->ctx.dry) memcpy(r->x.grad.data, r->dy.data, (size_t)tx_numel(r->dy) * tx_dtype_size(r->dy.dtype));
    const tx_block_call k = block_call(r);
    return tx_block_bwd(&r->ctx, &r->block, &r->block_saved, &k);
}

static void make_block(rig *r, tx_block w, tx_norm_kind kind, bool bias)
{
    bool own = w.halves != TX_PARALLEL_ONE_NORM;
    r->block = w;
    r->block.layer = 1;
    if (w.norms_in || w.post_norm) add_norm(r, &r->block.ln1, kind, false);
    add_attention(r, &r->block.attn, bias);
    if ((w.norms_in && own) || w.post_norm) add_norm(r, &r->block.ln2, kind, false);
    if (w.norms_out) add_norm(r, &r->block.out1, kind, false);
    if (w.norms_out) add_norm(r, &r->block.out2, kind, false);
    if (w.halves != TX_IN_TURN) r->lent.branch = make(r->t, S, B, H);
    add_mlp(r, &r->block.mlp, bias);
    r->fwd = block_fwd, r->bwd = block_bwd;
}

#define BRANCHES .attn = { .n_groups = HEADS, .causal = true }, .mlp = { .activation = TX_GELU_TANH }
#define PLAIN    .norms_in = true, BRANCHES

static void block_gpt(rig *r)
{
    make_block(r, (tx_block){ PLAIN }, TX_LAYERNORM, true);
}

static void block_dropped(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .p_drop = 0.25 }, TX_LAYERNORM, true);
}

static void block_residual_post_norm(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .p_drop = 0.25, .residual_post_norm = true }, TX_LAYERNORM, true);
}

static void block_bert(rig *r)
{
    make_block(r, (tx_block){ BRANCHES, .p_drop = 0.25, .post_norm = true }, TX_LAYERNORM, true);
    r->block.attn.causal = false;
}

static void block_llama(rig *r)
{
    make_block(r,
               (tx_block){ .norms_in = true,
                           .attn = { .n_groups = 2, .causal = true, .n_rot = D },
                           .mlp = { .gated = true, .gate = TX_GLU_SILU, .recompute = true } },
               TX_RMSNORM, false);
}

static void block_experts(rig *r)
{
    block_dropped(r);
    add_moe(r, (tx_moe){ .router.how = { .k = 2 } }, GELU, false);
    r->block.moe = &r->moe;
}

/* Norms' outputs that lie where all layers' do, and are computed again. */
static void block_norms_again(rig *r)
{
    block_dropped(r);
    r->lent.norm = make(r->t, S * B, H, 0);
}

static void block_norms_out(rig *r)
{
    make_block(r, (tx_block){ BRANCHES, .norms_out = true, .residual_scale = 0.5 }, TX_RMSNORM, false);
}

static void block_norms_both(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .p_drop = 0.25, .norms_out = true }, TX_LAYERNORM, true);
}

static void block_norms_both_again(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .norms_out = true }, TX_RMSNORM, false);
    r->lent.norm = make(r->t, S * B, H, 0);
}

static void block_bert_again(rig *r)
{
    block_bert(r);
    r->lent.norm = make(r->t, S * B, H, 0);
}

static void block_parallel_one_norm(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .halves = TX_PARALLEL_ONE_NORM }, TX_LAYERNORM, true);
}

static void block_parallel_one_norm_again(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .p_drop = 0.25, .halves = TX_PARALLEL_ONE_NORM }, TX_LAYERNORM, true);
    r->lent.norm = make(r->t, S * B, H, 0);
}

static void block_parallel_two_norms(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .p_drop = 0.25, .residual_scale = 1.5, .halves = TX_PARALLEL_TWO_NORMS },
               TX_LAYERNORM, true);
}

static void block_parallel_experts_again(rig *r)
{
    make_block(r, (tx_block){ PLAIN, .halves = TX_PARALLEL_TWO_NORMS }, TX_RMSNORM, false);
    add_moe(r, (tx_moe){ .router.how = { .k = 2 } }, GELU, false);
    r->block.moe = &r->moe;
    r->lent.norm = make(r->t, S * B, H, 0);
}
