/* labels: parallel threads. ZeRO++: a second copy and the number of hops that do nothing change no bit; what is rounded
 * changes little, and is the same after a restart, with every layout. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

#include "zero/loco.h"
#include "zero/quantized.h"

enum { STEPS = 10, SAVED = 6 };

#define WEIGHTS   "--zero-quantized-weights "
#define GRADIENTS "--zero-quantized-gradients "
#define NEAR(n)   "--zero-hpz-partition-size " #n " "
#define LOCO      "--zero-loco-err-beta 0.8 "

/* What the words say (layout_cases.h), at stage 3, with more flags.   @load, @save folders, or NULL */
static outcome train(const char *words, const char *more, const char *load, const char *save)
{
    static layout_run r;
    layout_case c = case_of(words);
    char flags[4096];
    sizes l = sizes_of(&c);
    what_flags(flags, sizeof flags, &c);
    how_flags(flags + strlen(flags), sizeof flags - strlen(flags), &c);
    snprintf(flags + strlen(flags), sizeof flags - strlen(flags),
             " --zero-stage 3 --zero-param-persistence-threshold 200 %s", more);
    r = (layout_run){ .vocab = vocab_of(&c),
                      .n_ranks = n_ranks_of(&c),
                      .tp = l.tp,
                      .pp = l.pp,
                      .until = save ? SAVED : STEPS,
                      .load = load,
                      .save = save };
    ASSERT_OK(run_layout(&r, flags));
    return of_all_ranks(&r);
}

static void has_the_same_bits(const char *words, const char *more, const char *as)
{
    outcome a = train(words, more, NULL, NULL), b = train(words, as, NULL, NULL);
    if (has_the_bits_of(&a, &b, 0, STEPS, as)) fail_msg("%s %s: %s", words, more, tx_last_error());
}

static void second_copies_change_no_bit(void **state)
{
    (void)state;
    has_the_same_bits("1x1x4 many", WEIGHTS NEAR(2), WEIGHTS);
    has_the_same_bits("1x1x6 bf16 llama", WEIGHTS NEAR(3) "--zero-max-reuse-distance 1e9 ", WEIGHTS);
    has_the_same_bits("2x1x2 sequence fp16 uniform", WEIGHTS NEAR(2), WEIGHTS);
    has_the_same_bits("1x2x4 interleaved bf16-grads", WEIGHTS NEAR(2), WEIGHTS);
    has_the_same_bits("1x1x4 bert dropout", WEIGHTS NEAR(4) "--zero-max-live-parameters 1 ", WEIGHTS);
}

/* In one row, or in rows of one, there is one hop. */
static void one_hop_is_one_hop(void **state)
{
    (void)state;
    has_the_same_bits("1x1x4 many", GRADIENTS NEAR(4), GRADIENTS);
    has_the_same_bits("2x1x3 bf16-grads one", GRADIENTS NEAR(3), GRADIENTS "--no-overlap-grad-reduce ");
    has_the_same_bits("1x1x2 fp16 muon", WEIGHTS GRADIENTS NEAR(2), WEIGHTS GRADIENTS);
}

/* 8 bits move a loss by less than 4 do; and both move it. */
static void rounding_changes_little(void **state)
{
    (void)state;
    static const struct {
        const char *words, *more;
        double loss;
    } runs[] = { { "1x1x4", WEIGHTS, 2e-3 },
                 { "1x1x4", GRADIENTS NEAR(2), 2e-2 },
                 { "1x1x6 bf16 llama", WEIGHTS GRADIENTS NEAR(3), 2e-2 },
                 { "2x2x2 sequence shared", WEIGHTS GRADIENTS NEAR(2), 2e-2 } };
    for (int i = 0; i < LENGTH(runs); i++) {
        outcome plain = train(runs[i].words, "", NULL, NULL), o = train(runs[i].words, runs[i].more, NULL, NULL);
        double off = distance(&o, &plain, 0, STEPS).loss;
        print_message("%s %s: losses off by at most %.1e\n", runs[i].words, runs[i].more, off);
        if (!(off <= runs[i].loss) || o.weights == plain.weights)
            fail_msg("%s %s: a loss is off by %.1e, allowed %.1e and not 0", runs[i].words, runs[i].more, off,
                     runs[i].loss);
    }
}

static void goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const runs[][2] = { { "1x1x4", WEIGHTS GRADIENTS NEAR(2) },
                                           { "2x1x2 bf16", WEIGHTS GRADIENTS NEAR(2) },
                                           { "1x2x2 fp16-grads", WEIGHTS GRADIENTS NEAR(2) },
                                           { "1x1x4 many", GRADIENTS LOCO NEAR(2) },
                                           { "2x1x3 bf16 sequence", GRADIENTS LOCO "--zero-loco-reset-t 4 " },
                                           { "1x2x4 fp16-grads ramp-up 509", WEIGHTS GRADIENTS LOCO NEAR(2) } };
    for (int i = 0; i < LENGTH(runs); i++) {
        char dir[512];
        snprintf(dir, sizeof dir, "%s/%d", scratch_dir, i);
        const char *words = runs[i][0], *how = runs[i][1];
        outcome whole = train(words, how, NULL, NULL);
        train(words, how, NULL, dir);
        outcome again = train(words, how, dir, NULL);
        if (has_the_bits_of(&again, &whole, SAVED, STEPS, "of one run")) fail_msg("%s: %s", words, tx_last_error());
    }
}

/* ---- LoCo ---- */

enum { ROUNDS = 64 };

/* What is off in the end: the root of the mean square of the sums that were sent, less those that were meant. */
typedef struct drift {
    const tx_config *cfg;
    double square[MAX_RANKS], numel[MAX_RANKS];
} drift;

/* A gradient of its own in every round, around a mean that is too small for most of 4 bits. */
static float gradient(int rank, int round, int64_t i)
{
    const tx_rng rng = { .seed = 9, .stream = (uint32_t)(64 * rank + round) };
    uint32_t w[4];
    tx_rng_u32x4(&rng, (uint64_t)i, w);
    double noise = (double)w[0] / 0x1p32 + (double)w[1] / 0x1p32 - 1;
    return (float)((i % 512 ? 0.1 : 1) * noise + 0.02);
}

static tx_status sum_rounds(drift *d, tx_zero *z, int k, float *x, double *meant)
{
    const tx_bucket *b = &z->flat.bucket[k];
    int64_t part = tx_bucket_part(&z->flat, b), own = tx_bucket_own_in(&z->flat, b);
    int ranks = tx_grid_size(z->grid, TX_AXIS_DATA), rank = tx_grid_rank(z->grid, TX_AXIS_DATA);
    float *got = x + b->numel;
    memset(got, 0, (size_t)part * sizeof *got);
    memset(meant, 0, (size_t)part * sizeof *meant);
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t i = 0; i < b->numel; i++) x[i] = gradient(rank, round, i);
        for (int64_t i = 0; i < part; i++)
            for (int r = 0; r < ranks; r++) meant[i] += (double)gradient(r, round, own + i);
        TX_TRY(tx__quantized_sum(z, k, tx_tensor1(got, TX_F32, part), tx_tensor1(x, TX_F32, b->numel), true));
    }
    for (int64_t i = 0; i < part; i++) d->square[rank] += pow((double)got[i] - meant[i], 2);
    d->numel[rank] += (double)part;
    return TX_OK;
}

static tx_status sum_on_rank(tx_world *w, void *user)
{
    drift *d = user;
    tx_grid grid;
    tx_trainer *t = NULL;
    float *x = NULL;
    double *meant = NULL;
    tx_status st;
    omp_set_num_threads(1);
    const tx_layout layout = tx_layout_of(d->cfg);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, d->cfg, 512, 511, true, &grid));
    TX_GOTO(tx_alloc(&x, (size_t)(2 * t->model->params.numel), sizeof *x, "test"));
    TX_GOTO(tx_alloc(&meant, (size_t)t->model->params.numel, sizeof *meant, "test"));
    tx_zero_loco_scale(&t->zero, 1);
    for (int k = 0, n = 0; k < t->zero.flat.n_buckets && n < 2; k++) {
        if (!tx__quantizes_sum(&t->zero, k)) continue;
        n++;
        TX_GOTO(sum_rounds(d, &t->zero, k, x, meant));
    }
out:
    tx_free(meant);
    tx_free(x);
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

static double drift_of(const char *flags)
{
    char all[1024];
    drift d = { 0 };
    tx_config *cfg;
    double square = 0, numel = 0;
    snprintf(
        all, sizeof all,
        "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --lr "
        "1e-3 --train-iters 4 --threads 1 --tokenizer-type NullTokenizer --vocab-size 511 --data-path none "
        "--micro-batch-size 1 --global-batch-size 4 --world-size 4 --zero-stage 3 "
        "--zero-param-persistence-threshold 200 %s",
        flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    d.cfg = cfg;
    ASSERT_OK(tx_world_threads(4, sum_on_rank, &d));
    tx_config_free(cfg);
    for (int r = 0; r < 4; r++) square += d.square[r], numel += d.numel[r];
    assert_true(numel > 0);
    return sqrt(square / numel);
}

/* What 4 bits leave out adds up; with LoCo no more than an error of a few rounds is left. */
static void sums_do_not_drift(void **state)
{
    (void)state;
    static const char *const hops[] = { GRADIENTS, GRADIENTS NEAR(2), GRADIENTS NEAR(4) };
    for (int i = 0; i < LENGTH(hops); i++) {
        char with[256];
        snprintf(with, sizeof with, "%s%s", hops[i], LOCO);
        double lost = drift_of(hops[i]), kept = drift_of(with);
        print_message("%s: after %d sums off by %.2e, with LoCo by %.2e\n", hops[i], ROUNDS, lost, kept);
        if (!(kept < lost / 3)) fail_msg("%s: off by %.2e, without LoCo by %.2e", hops[i], kept, lost);
    }
}

/* By the mean of what the losses are off from those with exact sums. */
static double off_from(const outcome *o, const outcome *plain)
{
    double sum = 0;
    for (int i = 0; i < STEPS; i++) sum += fabs(o->loss[i] / plain->loss[i] - 1);
    return sum / STEPS;
}

static void losses_are_nearer(void **state)
{
    (void)state;
    static const char *const runs[][2] = { { "1x1x4 many sgd", GRADIENTS NEAR(2) },
                                           { "1x1x6 many sgd llama", GRADIENTS },
                                           { "2x1x4 many sgd bf16-grads", GRADIENTS NEAR(4) } };
    double lost = 0, kept = 0;
    for (int i = 0; i < LENGTH(runs); i++) {
        char with[256];
        snprintf(with, sizeof with, "%s%s", runs[i][1], LOCO);
        outcome plain = train(runs[i][0], "", NULL, NULL);
        outcome a = train(runs[i][0], runs[i][1], NULL, NULL), b = train(runs[i][0], with, NULL, NULL);
        print_message("%s %s: losses off by %.2e, with LoCo by %.2e\n", runs[i][0], runs[i][1], off_from(&a, &plain),
                      off_from(&b, &plain));
        lost += off_from(&a, &plain);
        kept += off_from(&b, &plain);
    }
    assert_true(kept < lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_copies_change_no_bit), cmocka_unit_test(one_hop_is_one_hop),
        cmocka_unit_test(rounding_changes_little),     cmocka_unit_test(goes_on_with_the_same_bits),
        cmocka_unit_test(sums_do_not_drift),           cmocka_unit_test(losses_are_nearer),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
