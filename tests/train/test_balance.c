/* labels: parallel resume threads */
/* Balancing by a bias: it is what the loads make it, evens out the load of a router that prefers some experts, and has
 * the same bits in every layout and after a resume in another one. Ranks are threads. */
#include "support.h"

#include <omp.h>

#include "train/trainer.h"

enum { S = 16, BATCH = 8, LAYERS = 4, EXPERTS = 8, MAX_RANKS = 4, MAX_ITERATIONS = 64 };
#include "dealer.h"

typedef struct run {
    const char *flags;
    int n_ranks;
    int64_t iterations;
    const char *load, *save;
    bool evaluates;                         /* loads and trains nothing */
    float bias[MAX_RANKS][LAYERS][EXPERTS]; /* of the layers that the rank has */
    bool has[MAX_RANKS][LAYERS];
    double loads[LAYERS][EXPERTS]; /* of the second half of the iterations */
    const tx_config *cfg;
} run;

/* The rule, of one layer. */
static tx_status expect(float *bias, const tx_expert_record *r, float rate)
{
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++) sum += r->load[e];
    if (sum != BATCH * S * 2) return TX_FAIL(TX_ERR_NUMERIC, "%g choices", sum);
    for (int e = 0; e < EXPERTS; e++) {
        if (r->load[e] < sum / EXPERTS) bias[e] += rate;
        if (r->load[e] > sum / EXPERTS) bias[e] -= rate;
    }
    return TX_OK;
}

static void add_loads(run *r, const tx_trainer *t)
{
    for (int k = 0; k < t->n_expert_layers; k++)
        for (int e = 0; e < EXPERTS; e++) r->loads[t->expert[k].layer - 1][e] += t->expert[k].load[e];
}

/* What layers read, what masters hold, and what the loads have made of it. */
static tx_status check_bias(tx_trainer *t, run *r, float want[LAYERS][EXPERTS])
{
    const tx_model *m = t->model;
    float *own = t->expert_bias, before[LAYERS * EXPERTS], read[LAYERS * EXPERTS];
    size_t bytes = (size_t)tx_numel(m->expert_bias) * sizeof *own;
    memcpy(before, own, bytes);
    TX_TRY(tx__trainer_read_bias(t, NULL));
    TX_TRY(tx_device_read(t->ctx.device, read, m->expert_bias.data, bytes));
    if (memcmp(before, own, bytes) != 0 || memcmp(read, own, bytes) != 0)
        return TX_FAIL(TX_ERR_NUMERIC, "rank %d: the masters have another bias", t->grid->rank);
    for (int c = 0, k = 0; c < m->n_chunks; c++)
        for (int64_t i = m->chunk[c].first; i < m->chunk[c].end; i++, k++) {
            if (memcmp(own + k * EXPERTS, want[i], sizeof *want) != 0)
                return TX_FAIL(TX_ERR_NUMERIC, "rank %d: layer %d has another bias than its load makes", t->grid->rank,
                               (int)i);
            memcpy(r->bias[t->grid->rank][i], own + k * EXPERTS, sizeof *want);
            r->has[t->grid->rank][i] = true;
        }
    return TX_OK;
}

static tx_status load(tx_trainer *t, const char *dir, float want[LAYERS][EXPERTS])
{
    tx_source from;
    TX_TRY(tx_source_open(&from, dir, NULL, tx_grid_group(t->grid, TX_GROUP_WORLD)));
    tx_status st = tx_trainer_load(t, &from);
    tx_source_close(&from);
    const tx_model *m = t->model;
    for (int c = 0, k = 0; c < m->n_chunks; c++)
        for (int64_t i = m->chunk[c].first; i < m->chunk[c].end; i++, k++)
            memcpy(want[i], t->expert_bias + k * EXPERTS, sizeof *want);
    return st;
}

static tx_status run_rank(tx_world *w, void *user)
{
    run *r = user;
    const tx_layout layout = tx_layout_of(r->cfg);
    float want[LAYERS][EXPERTS] = { 0 };
    dealer d = { 0 };
    tx_grid grid;
    tx_trainer *t = NULL;
    tx_status st;
    omp_set_num_threads(1);
    tx_world_set_timeout(w, 100);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, r->cfg, 64, -1, !r->evaluates, &grid));
    if (r->load) TX_GOTO(load(t, r->load, want));
    d.t = t;
    memcpy(r->bias[grid.rank], want, sizeof want);
    while (!r->evaluates && t->iteration < r->iterations) {
        TX_GOTO(tx_trainer_train(t, deal, &d));
        for (int k = 0; k < t->n_expert_layers; k++)
            TX_GOTO(expect(want[t->expert[k].layer - 1], &t->expert[k], (float)r->cfg->moe_router_bias_update_rate));
        TX_GOTO(check_bias(t, r, want));
        if (!grid.rank && t->iteration > r->iterations / 2) add_loads(r, t);
    }
    if (r->save) TX_GOTO(tx_trainer_save(t, r->save, NULL, NULL));
out:
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

/* Weights stay nearly where they are, and those of routers are large: some experts are preferred. */
static void train(run *r)
{
    char flags[2000];
    tx_config *cfg;
    snprintf(flags, sizeof flags,
             "--num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 2 --global-batch-size 8 --lr 1e-7 --train-iters 64 --threads 1 --seed 5 "
             "--tokenizer-type NullTokenizer --vocab-size 63 --data-path x --world-size %d --init-method-std 0.5 "
             "--hidden-dropout 0 --attention-dropout 0 --num-experts 8 --moe-router-topk 2 "
             "--moe-router-score-function sigmoid --moe-router-enable-expert-bias %s",
             r->n_ranks, r->flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    r->cfg = cfg;
    ASSERT_OK(tx_world_threads(r->n_ranks, run_rank, r));
    tx_config_free(cfg);
}

/* The largest load by the mean one, in the layer where it is largest. */
static double imbalance(const run *r)
{
    double worst = 0, mean = (double)r->iterations / 2 * BATCH * S * 2 / EXPERTS;
    for (int i = 0; i < LAYERS; i++)
        for (int e = 0; e < EXPERTS; e++) worst = fmax(worst, r->loads[i][e] / mean);
    return worst;
}

static void a_load_evens_out(void **state)
{
    (void)state;
    static run still, balanced;
    still = (run){ .flags = "--moe-router-bias-update-rate 0", .n_ranks = 1, .iterations = MAX_ITERATIONS };
    balanced = (run){ .flags = "--moe-router-bias-update-rate 0.02", .n_ranks = 1, .iterations = MAX_ITERATIONS };
    train(&still);
    train(&balanced);
    if (!(imbalance(&still) > 1.5 && imbalance(&balanced) < 1.1))
        fail_msg("imbalance %g without a bias, %g with one", imbalance(&still), imbalance(&balanced));
}

/* A rank's layers as one rank has them. */
static void assert_same_bias(const run *one, const run *r)
{
    for (int rank = 0; rank < r->n_ranks; rank++)
        for (int i = 0; i < LAYERS; i++)
            if (r->has[rank][i] && memcmp(r->bias[rank][i], one->bias[0][i], sizeof r->bias[0][0]) != 0)
                fail_msg("%s: rank %d has another bias in layer %d", r->flags, rank, i);
}

#define RATE "--moe-router-bias-update-rate 0.01 "
static const struct {
    int n_ranks;
    const char *flags;
} layouts[] = {
    { 2, RATE "" },
    { 2, RATE "--zero-stage 1" },
    { 4, RATE "--zero-stage 3 --zero-param-persistence-threshold 0" },
    { 2, RATE "--tensor-model-parallel-size 2 --sequence-parallel" },
    { 2, RATE "--pipeline-model-parallel-size 2" },
    { 4, RATE "--pipeline-model-parallel-size 2 --zero-stage 1" },
    { 1, RATE "--checkpoint-activations" },
    { 2, RATE "--zero-stage 2 --offload-optimizer cpu" },
    { 2, RATE "--expert-model-parallel-size 2" },
    { 4, RATE "--expert-model-parallel-size 2 --zero-stage 2" },
    { 4, RATE
      "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --tensor-model-parallel-size 2 --zero-stage 3" },
};

static void every_layout_has_the_same_bias(void **state)
{
    (void)state;
    static run one, other;
    one = (run){ .flags = RATE, .n_ranks = 1, .iterations = 10 };
    train(&one);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        other = (run){ .flags = layouts[i].flags, .n_ranks = layouts[i].n_ranks, .iterations = 10 };
        train(&other);
        assert_same_bias(&one, &other);
    }
}

/* Emulated ones beside the CPU, also with the masters in the host's memory. */
static void a_gpu_has_the_same_bias(void **state)
{
    static run one, other;
    static const char *const flags[] = { RATE "--device gpu --zero-stage 2",
                                         RATE "--device gpu --offload-optimizer cpu --zero-stage 1" };
    const char *module = getenv("TX_GPU_MODULE_32");
    (void)state;
    if (!module || !strcmp(module, "none")) skip();
    setenv("TX_GPU_MODULE", module, 1);
    one = (run){ .flags = RATE "--device cpu", .n_ranks = 1, .iterations = 2 };
    train(&one);
    for (int i = 0; i < 2; i++) {
        other = (run){ .flags = flags[i], .n_ranks = 2, .iterations = 2 };
        train(&other);
        assert_same_bias(&one, &other);
    }
    unsetenv("TX_GPU_MODULE");
}

/* Its steps are smaller than what a bf16 of that size tells apart. */
static void a_bias_is_fp32_in_bf16(void **state)
{
    (void)state;
    static run one, other;
    static const char *const flags[] = { "--bf16 --moe-router-bias-update-rate 0.0013",
                                         "--bf16 --moe-router-bias-update-rate 0.0013 --zero-stage 2" };
    one = (run){ .flags = flags[0], .n_ranks = 1, .iterations = 12 };
    other = (run){ .flags = flags[1], .n_ranks = 2, .iterations = 12 };
    one.save = in_scratch("one");
    train(&one);
    train(&other);
    assert_same_bias(&one, &other);
    char from[1024];
    snprintf(from, sizeof from, "%s", in_scratch("one/iter_0000012"));
    other = (run){ .flags = "--bf16", .n_ranks = 1, .load = from, .evaluates = true };
    train(&other);
    assert_memory_equal(other.bias[0], one.bias[0], sizeof one.bias[0]);
}

static void a_bias_is_resumed_in_another_layout(void **state)
{
    (void)state;
    static run whole, part;
    static const int pair[][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 4 }, { 9, 3 }, { 4, 10 } };
    char from[1024];
    whole = (run){ .flags = RATE, .n_ranks = 1, .iterations = 12 };
    train(&whole);
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        const char *dir = in_scratch("%zu", i);
        const int a = pair[i][0], b = pair[i][1];
        snprintf(from, sizeof from, "%s", in_scratch("%zu/iter_0000006", i));
        part = (run){ .flags = layouts[a].flags, .n_ranks = layouts[a].n_ranks, .iterations = 6, .save = dir };
        train(&part);
        part = (run){ .flags = layouts[b].flags, .n_ranks = layouts[b].n_ranks, .iterations = 12, .load = from };
        train(&part);
        assert_same_bias(&whole, &part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_evens_out),        cmocka_unit_test(every_layout_has_the_same_bias),
        SCRATCH_TEST(a_bias_is_fp32_in_bf16),      SCRATCH_TEST(a_bias_is_resumed_in_another_layout),
        cmocka_unit_test(a_gpu_has_the_same_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
