/* labels: unit */
/* Activation recomputation: the same gradients bit for bit, and less memory. */
#include "step_rig.h"

/* ---------------------------------------------------------------- the same numbers */

static const char *const how[] = {
    "--recompute-activations",
    "--recompute-granularity selective",
    "--recompute-granularity full --recompute-method uniform",
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 3",
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 5",
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 8",
    "--recompute-granularity full --recompute-method block",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 5",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 8",
    "--checkpoint-activations",
    "--checkpoint-activations --checkpoint-num-layers 2 --deepspeed-activation-checkpointing",
    "--checkpoint-activations --checkpoint-in-cpu",
    "--checkpoint-activations --checkpoint-num-layers 2 --checkpoint-in-cpu",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 3 --checkpoint-in-cpu",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 4 --checkpoint-in-cpu",
};
enum { N_HOW = sizeof how / sizeof *how };

static void check_same_gradients(const char *const *variant, int n, const char *backend, tx_dtype dtype)
{
    for (int v = 0; v < n; v++) {
        char flags[1024];
        snprintf(flags, sizeof flags, SMALL "%s %s", backend, variant[v]);
        rig stored, r;
        gradients(&stored, flags, "", dtype);
        const tx_params *ps = &stored.model->params;
        for (int64_t i = 0; i < ps->numel; i++) assert_true(isfinite(stored.grad[i]));
        for (int k = 0; k < N_HOW; k++) {
            gradients(&r, flags, how[k], dtype);
            for (int i = 0; i < ps->n; i++) {
                const tx_param *p = &ps->param[i];
                if (memcmp(stored.grad + p->offset, r.grad + p->offset, (size_t)p->numel * sizeof(float)))
                    fail_msg("%s, %s: another gradient of %s", flags, how[k], p->name);
            }
            assert_memory_equal(stored.batch.loss.data, r.batch.loss.data,
                                (size_t)tx_numel(r.batch.loss) * sizeof(float));
            demolish(&r);
        }
        demolish(&stored);
    }
}

static const char *const variants[] = {
    "",
    "--normalization rmsnorm --use-rotary-position-embeddings --swiglu --disable-bias-linear "
    "--untie-embeddings-and-output-weights --num-key-value-heads 1 --ffn-hidden-size 40",
    "--apply-residual-connection-post-layernorm --squared-relu",
    "--parallel-residual one_norm --relu --untie-embeddings-and-output-weights --output-bias",
    "--parallel-residual two_norms --residual-scale 0.5 --disable-norm-bias --disable-attention-bias",
    "--norm-placement both --final-logit-softcap 3 --gated-activation gelu_tanh --ffn-hidden-size 24",
    "--norm-placement branch --logits-scale 0.5 --embedding-scale 3 --hidden-dropout 0",
    "--reset-attention-mask --reset-position-ids --normalization rmsnorm",
    "--apply-residual-connection-post-layernorm --swiglu --ffn-hidden-size 24 --hidden-dropout 0 "
    "--attention-dropout 0 --label-smoothing 0.1",
    "--z-loss-weight 0.1 --untie-embeddings-and-output-weights",
    "--glu-activation geglu --no-bias-gelu-fusion --embed-layernorm",
    "--embed-layernorm --apply-layernorm-1p --use-rotary-position-embeddings",
    "--position-embedding-type alibi",
    "--window-size 3 --window-attn-skip-freq 2 --attention-logit-softcap 2 --softmax-type learnable",
    "--num-experts 4 --moe-router-topk 2 --moe-aux-loss-coeff 0.1 --moe-z-loss-coeff 0.1",
    "--num-experts 4 --topk 1 --mlp-type residual --disable-moe-token-dropping --swiglu --ffn-hidden-size 24",
    BERT,
    BERT "--bert-no-binary-head",
    BERT "--post-layernorm --openai-gelu",
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static void gradients_are_the_same_cpu(void **state)
{
    (void)state;
    check_same_gradients(variants, N_VARIANTS, "--backend cpu", TX_F32);
}

static void gradients_are_the_same_ref(void **state)
{
    (void)state;
    check_same_gradients(variants, N_VARIANTS, "--backend ref --threads 1", TX_F32);
}

/* bf16 weights and branches beside an fp32 residual stream. */
static void gradients_are_the_same_bf16(void **state)
{
    (void)state;
    check_same_gradients(variants + 1, 6, "--backend ref --threads 1", TX_BF16);
    check_same_gradients(variants + N_VARIANTS - 5, 5, "--backend ref --threads 1", TX_BF16);
}

/* ---------------------------------------------------------------- less memory */

/* What a dry step asks of the activation stack, and of the scratch. */
static size_t bytes(const char *flags, const char *more, size_t *scratch)
{
    rig r;
    build(&r, flags, more, TX_F32);
    size_t peak = r.ctx.acts.peak;
    if (scratch) *scratch = r.ctx.scratch.peak;
    demolish(&r);
    return peak;
}

static void memory_falls(void **state)
{
    (void)state;
    static const char *const flags = "--num-layers 12 --hidden-size 64 --seq-length 64 --micro-batch-size 2 ";
    static const char *const falling[] = {
        "",
        "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
        "--recompute-granularity selective",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
        "--recompute-granularity full --recompute-method block --recompute-num-layers 9",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    };
    size_t before = SIZE_MAX;
    for (size_t i = 0; i < sizeof falling / sizeof *falling; i++) {
        size_t now = bytes(flags, falling[i], NULL);
        print_message("%9zu bytes: %s\n", now, *falling[i] ? falling[i] : "everything kept");
        assert_true(now < before);
        before = now;
    }
    assert_int_equal(before, bytes(flags, "--checkpoint-activations", NULL));
}

/* In tokens' tensors of 64 wide: of each layer its output is kept, and everything of one layer. */
static void full_recomputation_keeps_one_tensor_a_layer(void **state)
{
    (void)state;
    size_t peak[2];
    for (int i = 0; i < 2; i++) {
        char flags[256];
        snprintf(flags, sizeof flags, "--num-layers %d --hidden-size 64 --seq-length 64 --micro-batch-size 2 ",
                 6 + 6 * i);
        peak[i] = bytes(flags, "--checkpoint-activations", NULL);
    }
    assert_int_equal(peak[1] - peak[0], 6 * 64 * 2 * 64 * sizeof(float));
}

/* Nothing of attention is as large as s x s, neither kept nor in passing. */
static void memory_of_attention_is_linear_in_the_sequence(void **state)
{
    (void)state;
    static const char *const recompute[] = { "", "--recompute-activations", "--checkpoint-activations" };
    for (size_t i = 0; i < sizeof recompute / sizeof *recompute; i++) {
        size_t scratch[2], acts[2];
        for (int k = 0; k < 2; k++) {
            char flags[256];
            snprintf(flags, sizeof flags, "--num-layers 2 --hidden-size 16 --micro-batch-size 1 --seq-length %d ",
                     512 << k);
            acts[k] = bytes(flags, recompute[i], &scratch[k]);
        }
        assert_int_equal(acts[1], 2 * acts[0]);
        assert_true(scratch[1] <= 2 * scratch[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_same_cpu),
        cmocka_unit_test(gradients_are_the_same_ref),
        cmocka_unit_test(gradients_are_the_same_bf16),
        cmocka_unit_test(memory_falls),
        cmocka_unit_test(full_recomputation_keeps_one_tensor_a_layer),
        cmocka_unit_test(memory_of_attention_is_linear_in_the_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
