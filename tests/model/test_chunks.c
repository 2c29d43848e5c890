/* labels: unit */
/* Layers that compute their positions in chunks: the gradients of those that compute all at once, the same bits
 * wherever they keep what they keep, and memory that does not grow with the sequence. */
#include "step_rig.h"

#define CHUNKS(n) "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size " #n " "

/* How far a gradient is from another run's, and the largest number of that. */
typedef struct distance {
    double off, most;
} distance;

static distance distance_of(const rig *from, const rig *r, const tx_param *p)
{
    distance d = { 0 };
    for (int64_t k = p->offset; k < p->offset + p->numel; k++) {
        d.most = fmax(d.most, fabs((double)from->grad[k]));
        d.off = fmax(d.off, fabs((double)from->grad[k] - (double)r->grad[k]));
        assert_true(isfinite(r->grad[k]));
    }
    return d;
}

/* Chunks add up in another order, all in fp32. */
static void assert_close(const rig *all, const rig *r, const char *what)
{
    const tx_params *ps = &all->model->params;
    for (int i = 0; i < ps->n; i++) {
        if (ps->param[i].frozen) continue;
        distance d = distance_of(all, r, &ps->param[i]);
        if (!(d.off <= 2e-5 * d.most))
            fail_msg("%s: gradient of %s is off by %g of %g", what, ps->param[i].name, d.off, d.most);
    }
    const float *a = all->batch.loss.data, *b = r->batch.loss.data;
    for (int64_t k = 0; k < tx_numel(all->batch.loss); k++)
        if (!(fabs((double)a[k] - (double)b[k]) <= 2e-5 * (1 + fabs((double)a[k]))))
            fail_msg("%s: loss %lld is %g, not %g", what, (long long)k, (double)b[k], (double)a[k]);
}

/* What is rounded to bf16 is rounded once more, each part of a sum beside the sum: all gradients together have at most
 * twice the variance that they have when computed at once. */
static void assert_as_close(const rig *exact, const rig *all, const rig *r, const char *what)
{
    const tx_params *ps = &exact->model->params;
    double off = 0, other = 0;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        for (int64_t k = p->offset; k < p->offset + p->numel && !p->frozen; k++) {
            off += pow((double)r->grad[k] - (double)exact->grad[k], 2);
            other += pow((double)all->grad[k] - (double)exact->grad[k], 2);
        }
    }
    if (!(sqrt(off) <= sqrt(2) * sqrt(other)))
        fail_msg("%s: gradients are off by %g, at once by %g", what, sqrt(off), sqrt(other));
}

static void assert_same(const rig *a, const rig *b, const char *what)
{
    const tx_params *ps = &a->model->params;
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        if (memcmp(a->grad + p->offset, b->grad + p->offset, (size_t)p->numel * sizeof(float)))
            fail_msg("%s: another gradient of %s", what, p->name);
    }
    assert_memory_equal(a->batch.loss.data, b->batch.loss.data, (size_t)tx_numel(a->batch.loss) * sizeof(float));
}

static const char *const variants[] = {
    "",
    "--normalization rmsnorm --use-rotary-position-embeddings --swiglu --disable-bias-linear "
    "--untie-embeddings-and-output-weights --num-key-value-heads 1 --ffn-hidden-size 40",
    "--apply-residual-connection-post-layernorm --squared-relu",
    "--parallel-residual one_norm --relu --use-rotary-position-embeddings --rotary-interleaved",
    "--parallel-residual two_norms --residual-scale 0.5 --disable-norm-bias --disable-attention-bias",
    "--norm-placement both --gated-activation gelu_tanh --ffn-hidden-size 24",
    "--norm-placement branch --embedding-scale 3 --hidden-dropout 0",
    "--reset-attention-mask --reset-position-ids --normalization rmsnorm",
    "--qk-layernorm --use-rotary-position-embeddings",
    "--use-rotary-position-embeddings --rotary-percent 0.5 --rope-scaling-type dynamic --rope-scaling-factor 2 "
    "--rope-original-positions 5",
    "--position-embedding-type alibi",
    "--window-size 3 --window-attn-skip-freq 2 --attention-logit-softcap 2 --softmax-type learnable",
    "--window-size 4 --softmax-type off-by-one --post-layernorm",
    "--lora-rank 2 --lora-dropout 0.3",
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static const char *const sizes[] = { CHUNKS(12), CHUNKS(100), CHUNKS(1), CHUNKS(5), CHUNKS(4) };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* What may be done in addition without another bit. */
static const char *const kept[] = {
    "--ds-sequence-parallel-fpdt-offloading",
    "--ds-sequence-parallel-fpdt-offloading --checkpoint-activations --checkpoint-in-cpu",
    ("--ds-sequence-parallel-fpdt-offloading --ds-sequence-parallel-fpdt-nvme-path @ --checkpoint-activations "
     "--checkpoint-in-cpu"),
    "--recompute-activations",
    "--checkpoint-activations --checkpoint-num-layers 2",
    "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
};
enum { N_KEPT = sizeof kept / sizeof *kept };

/* A folder in the place of the flags' @. */
static void put_folder(char *flags, size_t cap)
{
    char *at = strchr(flags, '@'), rest[512];
    if (!at) return;
    snprintf(rest, sizeof rest, "%s", at + 1);
    snprintf(at, cap - (size_t)(at - flags), "%s%s", scratch_dir, rest);
}

static void check(const char *backend, int first, int n)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        char flags[1024], more[512];
        snprintf(flags, sizeof flags, SMALL "%s %s", backend, variants[v]);
        rig all, chunked, r;
        gradients(&all, flags, "", TX_F32);
        for (int i = first; i < first + n; i++) {
            gradients(&chunked, flags, sizes[i], TX_F32);
            assert_close(&all, &chunked, variants[v]);
            snprintf(more, sizeof more, "%s%s", sizes[i], kept[(i + v) % N_KEPT]);
            put_folder(more, sizeof more);
            gradients(&r, flags, more, TX_F32);
            assert_same(&chunked, &r, more);
            demolish(&r);
            demolish(&chunked);
        }
        demolish(&all);
    }
}

static void gradients_are_those_of_all_at_once_cpu(void **state)
{
    (void)state;
    check("--backend cpu", 0, N_SIZES);
}

static void gradients_are_those_of_all_at_once_ref(void **state)
{
    (void)state;
    check("--backend ref --threads 1", 3, 1);
}

/* bf16 weights and branches beside an fp32 residual stream, where the type of a sum counts. */
static void gradients_are_those_of_all_at_once_bf16(void **state)
{
    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        char flags[1024];
        rig exact, all, r;
        snprintf(flags, sizeof flags, SMALL "--backend ref --threads 1 %s", variants[v]);
        gradients(&exact, flags, "", TX_F32);
        gradients(&all, flags, "", TX_BF16);
        gradients(&r, flags, CHUNKS(2), TX_BF16);
        assert_as_close(&exact, &all, &r, variants[v]);
        demolish(&r);
        demolish(&all);
        demolish(&exact);
    }
}

/* ---------------------------------------------------------------- memory */

#define HEADS "--num-layers 5 --hidden-size 64 --num-attention-heads 8 --num-key-value-heads 2 --micro-batch-size 2 "

/* What a dry step asks of the activation stack, and of the host's. */
static size_t bytes(const char *flags, const char *more, size_t *host)
{
    rig r;
    build(&r, flags, more, TX_F32);
    size_t peak = r.ctx.acts.peak;
    *host = r.ctx.host.peak;
    demolish(&r);
    return peak;
}

static size_t at_length(int s, const char *more, size_t *host)
{
    char flags[256];
    snprintf(flags, sizeof flags, HEADS "--seq-length %d ", s);
    return bytes(flags, more, host);
}

/* s ((2 g + n) d v + 4 n) bytes of a sample and layer, and in backward 8 s g d. */
static void what_is_kept_is_as_by_formula(void **state)
{
    (void)state;
    size_t host, s = 128, b = 2, g = 2, n = 8, d = 8, each = s * b * ((2 * g + n) * d * 4 + 4 * n);
    at_length(128, CHUNKS(16) "--ds-sequence-parallel-fpdt-offloading", &host); /* with the inputs of layers */
    assert_int_equal(host, 5 * (each + s * b * 64 * 4) + s * b * 8 * g * d);
    at_length(128, CHUNKS(16) "--ds-sequence-parallel-fpdt-offloading --checkpoint-activations", &host);
    assert_int_equal(host, each + s * b * 8 * g * d); /* a layer's at a time */
    at_length(128, CHUNKS(16) "--ds-sequence-parallel-fpdt-offloading --checkpoint-activations --checkpoint-in-cpu",
              &host);
    assert_int_equal(host, 5 * s * b * 64 * 4 + each + s * b * 8 * g * d);
    at_length(128, CHUNKS(16), &host);
    assert_int_equal(host, 0);
}

/* Of more positions there is more of the stream, whatever the MLP's width; of a chunk there is not. */
static void a_layers_memory_does_not_grow(void **state)
{
    (void)state;
    static const char *const how = CHUNKS(16) "--ds-sequence-parallel-fpdt-offloading --checkpoint-activations "
                                              "--checkpoint-in-cpu --ffn-hidden-size ";
    char narrow[256], wide[256];
    size_t host, narrow_at[2], wide_at[2], stream = 64 * 4 * 2;
    snprintf(narrow, sizeof narrow, "%s64", how);
    snprintf(wide, sizeof wide, "%s1024", how);
    for (int i = 0; i < 2; i++) {
        narrow_at[i] = at_length(128 << i, narrow, &host);
        wide_at[i] = at_length(128 << i, wide, &host);
    }
    assert_true(wide_at[0] > narrow_at[0]);
    assert_int_equal(wide_at[1] - wide_at[0], narrow_at[1] - narrow_at[0]);
    assert_int_equal((wide_at[1] - wide_at[0]) % (128 * stream), 0);
    assert_true(wide_at[1] - wide_at[0] <= 3 * 128 * stream);
}

int main(void)
{
    setenv("TX_AIO_IN_MEMORY", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_as_by_formula),
        cmocka_unit_test(a_layers_memory_does_not_grow),
        cmocka_unit_test(gradients_are_those_of_all_at_once_cpu),
        cmocka_unit_test(gradients_are_those_of_all_at_once_ref),
        cmocka_unit_test(gradients_are_those_of_all_at_once_bf16),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
