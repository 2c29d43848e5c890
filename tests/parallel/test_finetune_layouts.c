/* labels: parallel threads resume. Rows of conversations: any layout of ranks trains what one rank does and goes on
 * with the same bits, and conversations that share a row have the losses that each has alone. */
#include "support.h"

#include "worded_run.h"

enum { N = 10, S = 16 }; /* iterations, positions */

#define OF_TEXT  "--tokenizer-type NullTokenizer --vocab-size 511 --data-path none"
#define OF_TALKS "--vocab-file none --merge-file none --finetune-data none"

/* The flags of a case, of conversations instead of running text. */
static void talk(char *flags, size_t cap)
{
    char *at = strstr(flags, OF_TEXT), rest[4096];
    assert_non_null(at);
    snprintf(rest, sizeof rest, "%s", at + strlen(OF_TEXT));
    snprintf(at, cap - (size_t)(at - flags), "%s%s", OF_TALKS, rest);
}

static const char *const layouts_of_talks[] = {
    "2x2x2 sequence dropout",
    "1x2x2 interleaved dropout uniform llama",
    "1x1x4 dropout stage3",
    "2x1x2 sequence selective stage2 embed-norm",
    "1x4x1 gpipe",
    "4x1x2 sequence block mixtral",

    "1x1x2 stage1 gqa smooth",
};

static void layouts_train_what_one_rank_trains(void **state)
{
    (void)state;
    for (int i = 0; i < as_many(LENGTH(layouts_of_talks), 4); i++) {
        static layout_run r;
        const reference *ref;
        r = (layout_run){ .until = N };
        tx_status st = run_words(&r, &ref, layouts_of_talks[i], "", talk, N);
        if (!st) st = is_within(&r, ref, 0, fp32_bounds);
        if (st) fail_msg("%s: %s", layouts_of_talks[i], tx_last_error());
    }
    forget_references();
}

static void a_run_goes_on_in_the_middle_of_it(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x1 dropout", "2x2x1 sequence dropout", "1x1x2 dropout stage3" };
    for (int i = 0; i < as_many(LENGTH(words), 2); i++) {
        static layout_run whole, first, rest;
        char dir[512];
        snprintf(dir, sizeof dir, "%s", in_scratch(i ? i == 1 ? "b" : "c" : "a"));
        whole = (layout_run){ .save = in_scratch("end") };
        first = (layout_run){ .save = dir };
        rest = (layout_run){ .load = dir, .save = in_scratch("end") };
        ASSERT_OK(run_words(&whole, NULL, words[i], "", talk, N));
        ASSERT_OK(run_words(&first, NULL, words[i], "", talk, 5));
        ASSERT_OK(run_words(&rest, NULL, words[i], "", talk, N));
        const outcome a = of_all_ranks(&rest), b = of_all_ranks(&whole);
        ASSERT_OK(has_the_bits_of(&a, &b, 5, N, "of a run that was not interrupted"));
    }
}

/* ---- rows against their conversations ---- */

enum { ROWS = 4 };

typedef struct sums {
    const tx_config *cfg;
    bool alone;
    double sum;
    int64_t n;
} sums;

/* Conversation number k of a row, in a row of its own; false after the last. */
static bool take_alone(int32_t *out, const int32_t *row, int k)
{
    const tx_finetune_place *from = (const tx_finetune_place *)row;
    tx_finetune_place *to = (tx_finetune_place *)out;
    int n = 0, at = -1;
    for (int i = 0; i < S; i++)
        if (from[i].position == 0 && k-- == 0) at = i;
    for (int i = at; at >= 0 && i < S && (i == at || from[i].position); i++) to[n++] = from[i];
    for (int i = n; i < S; i++) to[i] = (tx_finetune_place){ 0, -1, i - n };
    return at >= 0;
}

static tx_status add_row(sums *all, tx_trainer *t, const int32_t *row)
{
    tx_loss_sum one[TX_MAX_LOSSES];
    TX_TRY(tx_trainer_evaluate(t, row, 1, one));
    all->sum += one->sum;
    all->n += one->n;
    return TX_OK;
}

static tx_status sum_rank(tx_world *w, void *user)
{
    sums *all = user;
    int32_t row[3 * S], alone[3 * S];
    tx_grid grid;
    tx_trainer *t = NULL;
    tx_status st;
    const tx_layout layout = tx_layout_of(all->cfg);
    TX_TRY(tx_grid_open(&grid, w, &layout, NULL));
    TX_GOTO(tx_trainer_create(&t, all->cfg, 512, 511, true, &grid));
    TX_ASSERT(tx_trainer_row_len(t) == 3 * S);
    for (int i = 0; i < ROWS; i++) {
        sample_of(t, row, i);
        if (!all->alone) TX_GOTO(add_row(all, t, row));
        for (int k = 0; all->alone && take_alone(alone, row, k); k++) TX_GOTO(add_row(all, t, alone));
    }
out:
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

static sums sum_of(const char *more, bool alone)
{
    char flags[1024];
    tx_config *cfg;
    snprintf(flags, sizeof flags,
             "--num-layers 3 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 1 --train-iters 1 --lr 1 --init-method-std 0.3 " OF_TALKS " %s",
             more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    sums all = { .cfg = cfg, .alone = alone };
    ASSERT_OK(tx_world_threads(1, sum_rank, &all));
    tx_config_free(cfg);
    return all;
}

static void a_row_is_the_sum_of_its_conversations(void **state)
{
    (void)state;
    static const char *const models[] = { "", "--use-rotary-position-embeddings --swiglu --normalization rmsnorm",
                                          "--position-embedding-type alibi" };
    for (size_t i = 0; i < LENGTH(models); i++) {
        char apart[200];
        snprintf(apart, sizeof apart, "%s --no-finetune-packing", models[i]);
        sums packed = sum_of(models[i], false), alone = sum_of(apart, true);
        assert_int_equal(packed.n, alone.n);
        assert_true(packed.n > 2 * ROWS);
        ASSERT_NEAR(packed.sum, alone.sum, 2e-6 * alone.sum, "the sum of losses");
        print_message("%s: %lld tokens, %.9g in rows, %.9g alone\n", models[i], (long long)packed.n, packed.sum,
                      alone.sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_the_sum_of_its_conversations),
        cmocka_unit_test(layouts_train_what_one_rank_trains),
        SCRATCH_TEST(a_run_goes_on_in_the_middle_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
