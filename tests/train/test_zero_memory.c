/* labels: unit parallel. What ZeRO's stages take: the formulas of the paper, and the bytes that are asked for.
 */
#include "support.h"

#include <omp.h>
#include <stdatomic.h>

#include "train/plan.h"
#include "train/trainer.h"

#define RUN                                                                                                       \
    "--num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 --lr 1e-3 --train-iters 4 --threads 1 " \
    "--tokenizer-type NullTokenizer --data-path none --micro-batch-size 1 "
#define LAYERS RUN "--num-layers 6 --hidden-size 384 --vocab-size 511 "   /* all but 2 % of it is in layers */
#define WORDS  RUN "--num-layers 4 --hidden-size 256 --vocab-size 50256 " /* 80 % is one matrix */

static tx_config *parsed(const char *model, const char *more)
{
    char all[1024];
    tx_config *cfg;
    snprintf(all, sizeof all, "%s%s", model, more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    return cfg;
}

/* ---- plans, and the formulas ---- */

/* Bytes of a parameter's states with Adam on each of n ranks. ZeRO, arXiv:1910.02054, figure 1, with gradients of
 * `grad` bytes. */
static double bytes_of_states(int stage, bool half, double grad, double n)
{
    double value = half ? 2 : 4, optimizer = half ? 12 : 8; /* with the fp32 weights of bf16 and fp16 */
    return (stage < 3 ? value : value / n) + (stage < 2 ? grad : grad / n) + (stage < 1 ? optimizer : optimizer / n);
}

#define ALLOWED 0.03

static void check_plan(const char *model, const char *dtype, int stage, int n, int tp)
{
    char flags[256];
    tx_run_plan plan;
    snprintf(flags, sizeof flags, "%s --zero-stage %d --world-size %d --tensor-model-parallel-size %d", dtype, stage,
             n * tp, tp);
    tx_config *cfg = parsed(model, flags);
    ASSERT_OK(tx_plan_stage(&plan, cfg, cfg->vocab_size + 1, 0));
    double params = 0;
    for (int k = 0; k < TX_N_PARAM_KINDS; k++) params += (double)plan.n_params[k];
    assert_true(params >= 10e6);
    const tx_memory *m = &plan.memory;
    double states = (double)(m->params + m->grads + m->optimizer);
    double expected = params / tp * bytes_of_states(stage, *dtype, strstr(dtype, "--grad-dtype") ? 2 : 4, n);
    if (!(fabs(states / expected - 1) <= ALLOWED))
        fail_msg("%s: %.0f bytes of states, by the formula %.0f: off by %.1f %%", flags, states, expected,
                 100 * (states / expected - 1));
    assert_true((m->persistent > 0) == (stage == 3) && (m->gathered > 0) == (stage == 3));
    assert_true((m->buckets > 0) == (stage >= 2 || strstr(dtype, "--grad-dtype")));
    tx_config_free(cfg);
}

static void states_are_as_the_paper_has_them(void **state)
{
    (void)state;
    static const char *const dtypes[] = { "", "--bf16", "--fp16", "--bf16 --grad-dtype bf16",
                                          "--fp16 --grad-dtype fp16" };
    for (int n = 1; n <= 8; n++)
        for (int stage = 0; stage <= 3; stage++)
            for (int i = 0; i < 5; i++) {
                check_plan(LAYERS, dtypes[i], stage, n, 1);
                check_plan(WORDS, dtypes[i], stage, n, 1);
                check_plan(LAYERS, dtypes[i], stage, n, 2);
            }
}

/* With MiCS a rank has what a rank of a smaller job has, which is one row. */
static void a_row_takes_what_it_would_alone(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++)
        for (int row = 1; row <= 4; row *= 2) {
            char mics[128], alone[128];
            tx_run_plan a, b;
            snprintf(mics, sizeof mics, "--bf16 --zero-stage %d --world-size 8 --mics-shard-size %d", stage, row);
            snprintf(alone, sizeof alone, "--bf16 --zero-stage %d --world-size %d", stage, row);
            tx_config *of_mics = parsed(LAYERS, mics), *of_alone = parsed(LAYERS, alone);
            ASSERT_OK(tx_plan_stage(&a, of_mics, 512, 0));
            ASSERT_OK(tx_plan_stage(&b, of_alone, 512, 0));
            if (memcmp(&a.memory, &b.memory, sizeof a.memory)) fail_msg("%s is not %s", mics, alone);
            ASSERT_NEAR(tx_zero_formula_bytes(&a.formula), tx_zero_formula_bytes(&b.formula), 0, mics);
            tx_config_free(of_mics);
            tx_config_free(of_alone);
        }
}

/* What comes and goes is a few layers' and the words' matrix, however large the rest is. */
static void what_comes_and_goes_does_not_grow_with_layers(void **state)
{
    (void)state;
    tx_run_plan six, twelve;
    const char *how = "--zero-stage 3 --world-size 4 --zero-param-persistence-threshold 0";
    char more[128];
    snprintf(more, sizeof more, "%s --num-layers 12", how);
    tx_config *a = parsed(LAYERS, how), *b = parsed(LAYERS, more);
    ASSERT_OK(tx_plan_stage(&six, a, 512, 0));
    ASSERT_OK(tx_plan_stage(&twelve, b, 512, 0));
    assert_int_equal(six.memory.gathered, twelve.memory.gathered);
    assert_int_equal(six.memory.buckets, twelve.memory.buckets);
    assert_true(six.memory.gathered < six.memory.params * 4);
    tx_config_free(a);
    tx_config_free(b);
}

/* So much of the state is in the host's memory or on a disk, to a block of each array, and the rest is where it was. */
static void a_ratio_is_of_the_state(void **state)
{
    (void)state;
    static const double ratios[] = { 0, 0.3, 0.7, 1 };
    for (int i = 0; i < 2 * 3 * 4 * 2; i++) {
        char flags[256];
        double ratio = ratios[i / 2 % 4];
        const char *dtype = i % 2 ? "--bf16" : "";
        bool disk = i / 8 % 2;
        int stage = 1 + i / 16;
        snprintf(flags, sizeof flags,
                 "%s --zero-stage %d --world-size 2 --offload-optimizer %s "
                 "--offload-optimizer-nvme-path D --offload-optimizer-ratio %g",
                 dtype, stage, disk ? "nvme" : "cpu", ratio);
        tx_run_plan plan;
        tx_config *cfg = parsed(LAYERS, flags);
        ASSERT_OK(tx_plan_stage(&plan, cfg, 512, 0));
        size_t far = disk ? plan.memory.nvme : plan.memory.host, none = disk ? plan.memory.host : plan.memory.nvme;
        size_t all = far + plan.memory.optimizer, arrays = i % 2 ? 3 : 2;
        assert_true(all > 0 && none == 0 && (plan.memory.passing > 0) == (disk && ratio > 0));
        double over = (double)far - ratio * (double)all;
        if (over < -1 || over > (double)(arrays * 2048 * sizeof(float)))
            fail_msg("%s: %zu of %zu bytes are offloaded", flags, far, all);
        tx_config_free(cfg);
    }
}

/* Of matrices Muon keeps one number less, also where the state is offloaded: to a block of each stretch of others. */
static void a_second_moment_is_of_no_matrix(void **state)
{
    (void)state;
    static const char *const tiers[] = { "cpu", "nvme" };
    for (int i = 0; i < 2 * 3; i++) {
        char flags[256];
        tx_run_plan adam, muon, near;
        snprintf(flags, sizeof flags,
                 "--bf16 --zero-stage %d --world-size 2 --offload-optimizer %s --offload-optimizer-nvme-path D "
                 "--hidden-size 256 --zero-param-persistence-threshold 0 --optimizer",
                 1 + i / 2, tiers[i % 2]);
        char *word = flags + strlen(flags);
        strcpy(word, " adam");
        tx_config *a = parsed(LAYERS, flags);
        strcpy(word, " muon");
        tx_config *m = parsed(LAYERS, flags);
        strcpy(word, " muon --offload-optimizer none");
        tx_config *n = parsed(LAYERS, flags);
        ASSERT_OK(tx_plan_stage(&adam, a, 512, 0));
        ASSERT_OK(tx_plan_stage(&muon, m, 512, 0));
        ASSERT_OK(tx_plan_stage(&near, n, 512, 0));
        size_t far = muon.memory.host + muon.memory.nvme, all = adam.memory.host + adam.memory.nvme;
        size_t over = far - near.memory.optimizer, blocks = (size_t)(4 * a->num_layers + 3) * 2 * 2048 * sizeof(float);
        assert_int_equal(muon.memory.optimizer, 0);
        if (far >= all || far < near.memory.optimizer || over > blocks)
            fail_msg("%s: %zu bytes are offloaded, %zu without offload, Adam's %zu", flags, far, near.memory.optimizer,
                     all);
        tx_config_free(a);
        tx_config_free(m);
        tx_config_free(n);
    }
}

/* ---- runs ---- */

static _Atomic size_t taken; /* bytes asked of the heap, by all ranks */

static void *counting_alloc(void *user, size_t bytes)
{
    (void)user;
    taken += bytes;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void *counting_realloc(void *user, void *p, size_t bytes)
{
    (void)user;
    return realloc(p, bytes);
}

typedef struct job {
    const tx_config *cfg;
    tx_memory planned;
} job;

static tx_status zeros(void *user, int64_t micro, const void **rows)
{
    static const int32_t tokens[64];
    (void)user;
    (void)micro;
    *rows = tokens;
    return TX_OK;
}

static tx_status compare(const tx_trainer *t, const tx_memory *planned)
{
    tx_memory m = tx_trainer_memory(t);
    if (memcmp(&m, planned, sizeof m) != 0)
        return TX_FAIL(TX_ERR_NUMERIC, "rank %d takes something else than was planned", t->grid->rank);
    if (t->ctx.acts.peak != t->ctx.acts.cap || t->ctx.scratch.peak != t->ctx.scratch.cap)
        return TX_FAIL(TX_ERR_NUMERIC, "rank %d does not use all of its arenas", t->grid->rank);
    return TX_OK;
}

static tx_status run_rank(tx_world *w, void *user)
{
    job *j = user;
    tx_grid grid;
    tx_trainer *t = NULL;
    tx_status st;
    omp_set_num_threads(1);
    const tx_layout layout = tx_layout_of(j->cfg);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, j->cfg, 512, 5, true, &grid));
    TX_GOTO(tx_trainer_train(t, zeros, NULL));
    st = compare(t, &j->planned);
out:
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

/* Beside what is planned: tables of the model and the backend, one batch, and for each group what its ranks meet on. */
#define SLACK ((size_t)1 << 20)

static void check_run(const char *dtype, int stage, int n)
{
    static const tx_allocator counting = { counting_alloc, counting_realloc, failing_free, NULL };
    char flags[256];
    tx_run_plan plan;
    snprintf(flags, sizeof flags, "%s --zero-stage %d --world-size %d", dtype, stage, n);
    tx_config *cfg = parsed(LAYERS, flags);
    ASSERT_OK(tx_plan_stage(&plan, cfg, 512, 0));
    job j = { cfg, plan.memory };
    size_t least = (size_t)n * tx_memory_total(&plan.memory), most;
    /* all; near ones, far ones; and a copy's, which are the near ones */
    int groups = plan.sizes.near > 1 ? 1 + plan.sizes.far * (1 + plan.sizes.mics) + plan.sizes.near : 1;
    most = least + (size_t)(n + groups) * SLACK;
    taken = 0;
    tx_allocator_set(&counting);
    tx_status st = tx_world_threads(n, run_rank, &j);
    tx_allocator_set(NULL);
    ASSERT_OK(st);
    if (taken < least || taken > most)
        fail_msg("%s: %zu bytes on %d ranks planned, %zu taken", flags, least, n, (size_t)taken);
    tx_config_free(cfg);
}

static void ranks_take_what_was_planned(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        check_run("--bf16", stage, 2);
        check_run("--bf16 --grad-dtype bf16", stage, 3);
        check_run("--fp16 --grad-dtype fp16 --grad-reduce-dtype fp32 --global-batch-size 4", stage, 2);
        check_run("--grad-reduce-dtype bf16 --no-overlap-grad-reduce", stage, 2);
        check_run("", stage, 4);
        if (stage) check_run("--bf16 --offload-optimizer cpu --offload-optimizer-ratio 0.3", stage, 2);
        if (stage) check_run("--bf16 --offload-optimizer cpu --optimizer muon", stage, 1); /* ranks differ */
    }
    check_run("--bf16 --zero-quantized-weights --zero-quantized-gradients --zero-hpz-partition-size 2", 3, 4);
    check_run("--zero-quantized-weights --zero-param-persistence-threshold 0", 3, 3);
    check_run("--zero-quantized-gradients --zero-loco-err-beta 0.8 --zero-hpz-partition-size 2", 3, 4);
    check_run("--bf16 --zero-quantized-gradients --zero-loco-err-beta 0.5", 3, 3);
    for (int stage = 1; stage <= 3; stage++) {
        check_run("--bf16 --mics-shard-size 2", stage, 4);
        check_run("--bf16 --grad-dtype bf16 --grad-reduce-dtype fp32 --mics-shard-size 1", stage, 2);
    }
    check_run("--zero-quantized-weights --zero-quantized-gradients --mics-shard-size 2", 3, 4);
    check_run("--optimizer onebitadam --onebit-freeze-step 2", 0, 2);
    check_run("--bf16 --optimizer onebitlamb --onebit-freeze-step 2", 0, 2);
    check_run("--optimizer zerooneadam --var-freeze-step 1", 0, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_as_the_paper_has_them),
        cmocka_unit_test(a_row_takes_what_it_would_alone),
        cmocka_unit_test(what_comes_and_goes_does_not_grow_with_layers),
        cmocka_unit_test(a_ratio_is_of_the_state),
        cmocka_unit_test(a_second_moment_is_of_no_matrix),
        cmocka_unit_test(ranks_take_what_was_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
