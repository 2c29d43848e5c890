/* labels: parallel resume threads */
/* QK-Clip: after it no head's score of the same batch is above the threshold, and weights are what the formula makes of
 * them; skipped updates clip nothing; and the largest score is the same however it is computed. */
#include "support.h"

#include <omp.h>

#include "base/half.h"
#include "train/trainer.h"

enum { S = 16, BATCH = 8, MAX_RANKS = 8 };
#include "dealer.h"

/* A rate of 0: nothing but clipping changes weights. */
static tx_config *config_of(const char *flags)
{
    char all[2000];
    tx_config *cfg;
    snprintf(all, sizeof all,
             "--num-layers 2 --hidden-size 32 --num-attention-heads 8 --num-key-value-heads 4 --seq-length 16 "
             "--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 8 --lr 0 --weight-decay 0 "
             "--train-iters 64 --threads 1 --seed 5 --tokenizer-type NullTokenizer --vocab-size 63 --data-path x "
             "--init-method-std 0.3 --hidden-dropout 0 --attention-dropout 0 --log-max-attention-logit %s",
             flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    return cfg;
}

static tx_trainer *open_trainer(const tx_config *cfg)
{
    tx_trainer *t;
    ASSERT_OK(tx_trainer_create(&t, cfg, 64, -1, true, NULL));
    return t;
}

static void train(tx_trainer *t, int n)
{
    dealer d = { .t = t, .again = true };
    for (int i = 0; i < n; i++) ASSERT_OK(tx_trainer_train(t, deal, &d));
}

/* Biases of queries and keys, which begin at 0, become something. */
static void set_biases(tx_trainer *t)
{
    for (int i = 0; i < t->zero.n_ranges; i++) {
        tx_optim_range *r = &t->zero.range[i];
        if (!strstr(r->name, "query_key_value.bias")) continue;
        for (int64_t k = 0; k < r->numel; k++) r->value[k] = (float)((double)((r->first + k) * 37 % 11) / 5 - 1);
    }
    ASSERT_OK(tx_zero_publish(&t->zero));
}

static float *copy_masters(const tx_trainer *t)
{
    float *x;
    size_t n = (size_t)t->model->params.numel;
    ASSERT_OK(tx_alloc(&x, n, sizeof *x, "weights"));
    memcpy(x, tx_zero_masters(&t->zero), n * sizeof *x);
    return x;
}

/* One layer, so that what its queries and keys see stays as it is: the largest score of a group that was clipped is the
 * threshold then, whatever its biases are and however positions turn its heads. */
static void scores_come_down_to_the_threshold(void **state)
{
    (void)state;
    static const char *const forms[] = { "", "--use-rotary-position-embeddings --no-position-embedding",
                                         "--qk-clip-alpha 0.9 --zero-stage 1" };
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        char flags[400];
        snprintf(flags, sizeof flags, "--num-layers 1 --qk-clip --qk-clip-threshold 1.5 %s", forms[form]);
        tx_config *cfg = config_of(flags);
        tx_trainer *t = open_trainer(cfg);
        set_biases(t);
        train(t, 1);
        float before[8];
        memcpy(before, t->logits, sizeof before);
        int clipped = 0;
        train(t, 1);
        for (int g = 0; g < 4; g++) {
            float was = fmaxf(before[2 * g], before[2 * g + 1]), is = fmaxf(t->logits[2 * g], t->logits[2 * g + 1]);
            clipped += was > 1.5f;
            ASSERT_NEAR(is, was > 1.5f ? 1.5 : was, 4e-6, "largest score of a group");
        }
        assert_true(clipped > 0 && before[0] > 0);
        tx_trainer_destroy(t);
        tx_config_free(cfg);
    }
}

/* The factor of an element of a query, key and value projection, by the formula. */
static double factor_of(const tx_trainer *t, const float *logits, int64_t row, double threshold, double alpha)
{
    int64_t d = t->model->head_dim, group = row / (4 * d), part = row / d % 4; /* two queries, a key, a value */
    double most = fmax(logits[2 * group], logits[2 * group + 1]), gamma = most > threshold ? threshold / most : 1;
    return part < 2 ? pow(gamma, alpha) : part == 2 ? pow(gamma, 1 - alpha) : 1;
}

static void compare_with_formula(const char *flags, bool half)
{
    const double threshold = 1.2, alpha = 0.3;
    char all[400];
    snprintf(all, sizeof all, "--qk-clip --qk-clip-threshold 1.2 --qk-clip-alpha 0.3 %s", flags);
    tx_config *cfg = config_of(all);
    tx_trainer *t = open_trainer(cfg);
    const tx_params *ps = &t->model->params;
    int changed = 0;
    set_biases(t);
    float *before = copy_masters(t);
    train(t, 1);
    const float *after = tx_zero_masters(&t->zero);
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        bool fused = strstr(p->name, "query_key_value") != NULL;
        int layer = fused ? atoi(p->name + strlen("encoder.layers.")) : 0;
        int64_t columns = p->n_dims == 2 ? p->dim[1] : 1;
        for (int64_t k = 0; k < p->numel; k++) {
            const float was = before[p->offset + k], is = after[p->offset + k];
            double f = fused ? factor_of(t, t->logits + 8 * layer, k / columns, threshold, alpha) : 1;
            changed += is != was;
            if (f == 1) assert_true(is == was);
            ASSERT_NEAR(is, f * was, 1.2e-7 * fabs(was), p->name);
            uint16_t low = half ? ((const uint16_t *)t->zero.value)[p->offset + k] : 0;
            if (half) assert_int_equal(low, tx_f32_to_bf16(is));
        }
    }
    assert_true(changed > 0);
    double most = 0;
    for (int i = 0; i < 16; i++) most = fmax(most, t->logits[i]);
    assert_true(t->max_attention_logit == most && most > threshold);
    tx_free(before);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

static void weights_are_what_the_formula_makes(void **state)
{
    (void)state;
    compare_with_formula("", false);
    compare_with_formula("--bf16", true);
    compare_with_formula("--optimizer muon", false);
    compare_with_formula("--optimizer sgd --recompute-granularity full --recompute-method uniform", false);
}

/* Every score is above the threshold, but the gradients overflow. */
static void a_skipped_update_clips_nothing(void **state)
{
    (void)state;
    tx_config *cfg = config_of("--qk-clip --qk-clip-threshold 1e-3 --fp16 --initial-loss-scale 4294967296");
    tx_trainer *t = open_trainer(cfg);
    float *before = copy_masters(t);
    train(t, 1);
    assert_true(t->last_step == TX_STEP_OVERFLOWED && t->max_attention_logit > 1e-3);
    assert_memory_equal(before, tx_zero_masters(&t->zero), (size_t)t->model->params.numel * sizeof *before);
    tx_free(before);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

/* Below the threshold, or only logged, a run has the bits of one that does not look. */
static void looking_changes_no_bit(void **state)
{
    (void)state;
    static const char *const how[] = { "--lr 1e-3", "--lr 1e-3 --qk-clip --qk-clip-threshold 1e6" };
    float *weights[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        tx_config *cfg = config_of(how[i / 2]);
        if (i == 0) cfg->log_max_attention_logit = false;
        tx_trainer *t = open_trainer(cfg);
        train(t, 3);
        assert_int_equal(t->logits != NULL, i > 0);
        weights[i] = copy_masters(t);
        n = (size_t)t->model->params.numel * sizeof(float);
        tx_trainer_destroy(t);
        tx_config_free(cfg);
    }
    for (int i = 1; i < 3; i++) assert_memory_equal(weights[i], weights[0], n);
    for (int i = 0; i < 3; i++) tx_free(weights[i]);
}

/* ---- ranks ---- */

typedef struct run {
    const tx_config *cfg;
    double most[MAX_RANKS];
} run;

static tx_status run_rank(tx_world *w, void *user)
{
    run *r = user;
    const tx_layout layout = tx_layout_of(r->cfg);
    tx_grid grid;
    tx_trainer *t = NULL;
    tx_status st;
    omp_set_num_threads(1);
    tx_world_set_timeout(w, 100);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, r->cfg, 64, -1, true, &grid));
    dealer d = { .t = t, .again = true };
    for (int i = 0; i < 2; i++) TX_GOTO(tx_trainer_train(t, deal, &d));
    r->most[grid.rank] = t->max_attention_logit;
out:
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

/* The largest score after one update with clipping, as all ranks log it. */
static void every_rank_logs_the_largest_score(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int n_ranks;
    } layouts[] = { { "", 1 },
                    { "--tensor-model-parallel-size 2", 4 },
                    { "--pipeline-model-parallel-size 2 --zero-stage 2", 4 },
                    { "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel", 4 },
                    { "--recompute-granularity full --recompute-method uniform", 1 } };
    double want = 0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char flags[400];
        snprintf(flags, sizeof flags, "--optimizer sgd --lr 1e-2 --qk-clip --qk-clip-threshold 1.2 --world-size %d %s",
                 layouts[i].n_ranks, layouts[i].flags);
        tx_config *cfg = config_of(flags);
        run r = { .cfg = cfg };
        ASSERT_OK(tx_world_threads(layouts[i].n_ranks, run_rank, &r));
        if (!i) want = r.most[0];
        for (int k = 0; k < layouts[i].n_ranks; k++) {
            assert_true(r.most[k] == r.most[0]);
            ASSERT_NEAR(r.most[k], want, 1e-5 * want, layouts[i].flags);
        }
        tx_config_free(cfg);
    }
    assert_true(want > 1);
}

/* ---- a resumed run, and a device ---- */

static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    tx_config *cfg = config_of("--lr 1e-3 --qk-clip --qk-clip-threshold 0.8");
    tx_trainer *straight = open_trainer(cfg), *resumed = open_trainer(cfg);
    tx_source from;
    train(straight, 2);
    ASSERT_OK(tx_trainer_save(straight, scratch_dir, NULL, NULL));
    train(straight, 2);
    ASSERT_OK(tx_source_open(&from, in_scratch("iter_0000002"), NULL, tx_grid_group(resumed->grid, TX_GROUP_WORLD)));
    ASSERT_OK(tx_trainer_load(resumed, &from));
    tx_source_close(&from);
    train(resumed, 2);
    assert_memory_equal(tx_zero_masters(&straight->zero), tx_zero_masters(&resumed->zero),
                        (size_t)straight->model->params.numel * sizeof(float));
    assert_true(straight->max_attention_logit == resumed->max_attention_logit);
    tx_trainer_destroy(straight);
    tx_trainer_destroy(resumed);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_come_down_to_the_threshold), cmocka_unit_test(weights_are_what_the_formula_makes),
        cmocka_unit_test(a_skipped_update_clips_nothing),    cmocka_unit_test(looking_changes_no_bit),
        cmocka_unit_test(every_rank_logs_the_largest_score), SCRATCH_TEST(a_resumed_run_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
