/* labels: unit. A decoder on one rank: with its cache and without, alone and beside others. */
#include "random_model.h"

enum { N = 190, LEN = 200 };

typedef struct rig {
    tx_config *cfg;
    tx_model *model;
    void *value;
    tx_decoder *d;
} rig;

static rig open_threads(const char *flags, int64_t n_slots, int64_t max_rows, int n_threads)
{
    rig r;
    const tx_decoder_opts opts = {
        .backend = "cpu", .n_threads = n_threads, .n_slots = n_slots, .max_len = LEN, .max_rows = max_rows
    };
    ASSERT_OK(tx_config_parse_string(&r.cfg, "pretrain-gpt", flags));
    ASSERT_OK(random_model(&r.model, &r.value, r.cfg, NULL));
    ASSERT_OK(tx_decoder_create(&r.d, r.model, NULL, &opts));
    return r;
}

static rig open_rig(const char *flags, int64_t n_slots, int64_t max_rows)
{
    return open_threads(flags, n_slots, max_rows, 1);
}

static void close_rig(rig *r)
{
    tx_decoder_destroy(r->d);
    r->model->type->destroy(r->model);
    tx_free(r->value);
    tx_config_free(r->cfg);
}

static float *rows(int64_t n)
{
    float *x = calloc((size_t)n * VOCAB, sizeof *x);
    assert_non_null(x);
    return x;
}

/* Logits of all positions of text `number`, at once in slot 0. */
static float *whole(rig *r, int number, int64_t n)
{
    int32_t token[LEN];
    kept_logits k = { .row = rows(n) };
    text_of(number, token, n);
    tx_decoder_truncate(r->d, 0, 0);
    ASSERT_OK(tx_decoder_append(r->d, 0, token, n, &(tx_logits_wanted){ 0, keep_logits, &k }));
    assert_int_equal(k.n, n);
    assert_int_equal(tx_decoder_length(r->d, 0), n);
    return k.row;
}

/* The model's own forward, which has no cache: the loss of each token. */
static void assert_forward(rig *r, const float *logits, int64_t n)
{
    int32_t token[LEN], position[LEN];
    float loss[LEN];
    tx_ctx c;
    text_of(0, token, n);
    for (int i = 0; i < n; i++) position[i] = i;
    ASSERT_OK(tx_ctx_init(&c, "cpu", 1));
    for (int pass = 0; pass < 2; pass++) {
        tx_batch batch = { .token = tx_tensor2(token, TX_I32, n - 1, 1),
                           .position = tx_tensor2(position, TX_I32, n - 1, 1),
                           .label = tx_tensor1(token + 1, TX_I32, n - 1),
                           .loss = tx_tensor1(loss, TX_F32, n - 1) };
        ASSERT_OK(tx_model_fwd(&c, r->model, &batch, false));
        if (pass == 0) ASSERT_OK(tx_ctx_take_memory(&c));
    }
    for (int i = 0; i + 1 < n; i++) {
        double max = -INFINITY, sum = 0;
        const float *z = logits + i * VOCAB;
        for (int v = 0; v < VOCAB; v++) max = fmax(max, (double)z[v]);
        for (int v = 0; v < VOCAB; v++) sum += exp((double)z[v] - max);
        ASSERT_NEAR(max + log(sum) - (double)z[token[i + 1]], (double)loss[i], 1e-4, "loss");
    }
    tx_ctx_deinit(&c);
}

#define DROPS_NONE LIKE_DEEPSPEED "--disable-moe-token-dropping "
static const char *const shapes[] = { LIKE_GPT2, LIKE_LLAMA,   LIKE_BLOOM, LIKE_GPT_OSS, LIKE_GEMMA2,
                                      LIKE_PHI,  LIKE_MIXTRAL, DROPS_NONE, LIKE_OLMO };

static void one_by_one_is_all_at_once(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        rig r = open_rig(shapes[k], 2, 0);
        float *want = whole(&r, 0, N);
        assert_forward(&r, want, N);
        for (int64_t i = 0; i < N; i++) {
            const float *got;
            int64_t stride;
            int32_t token = token_of(0, i);
            char what[64];
            snprintf(what, sizeof what, "position %d", (int)i);
            ASSERT_OK(tx_decoder_step(r.d, (const int[]){ 1 }, &token, 1, &got, &stride));
            ASSERT_OK(same_logits(got, want + i * VOCAB, what));
        }
        assert_int_equal(tx_decoder_length(r.d, 1), N);
        free(want);
        close_rig(&r);
    }
}

/* Few rows: threads stay together for a step and take columns and heads as they come to them. */
static void threads_change_no_bit(void **state)
{
    (void)state;
    enum { SLOTS = 8, PAST = 40, STEPS = 6 };
    enum { N_SHAPES = sizeof shapes / sizeof *shapes };
    for (size_t k = 0; k <= N_SHAPES; k++) {
        const char *flags = k < N_SHAPES ? shapes[k] : LIKE_GPT2 "--lora-rank 4 --load x "; /* products of oneDNN's */
        rig r[2] = { open_rig(flags, SLOTS, 0), open_threads(flags, SLOTS, 0, 3) };
        int32_t token[SLOTS][PAST + STEPS];
        for (int i = 0; i < SLOTS; i++) text_of(i, token[i], PAST + STEPS);
        for (int j = 0; j < 2 * SLOTS; j++) ASSERT_OK(tx_decoder_append(r[j % 2].d, j / 2, token[j / 2], PAST, NULL));
        for (int step = 0; step < STEPS; step++) {
            static const int64_t sizes[STEPS] = { 1, 1, 2, 5, 8, 1 };
            const float *got[2];
            int64_t n = sizes[step], stride[2];
            int slot[SLOTS];
            int32_t next[SLOTS];
            for (int i = 0; i < n; i++) slot[i] = i, next[i] = token[i][tx_decoder_length(r[0].d, i)];
            for (int j = 0; j < 2; j++) ASSERT_OK(tx_decoder_step(r[j].d, slot, next, n, &got[j], &stride[j]));
            for (int64_t i = 0; i < n; i++)
                assert_memory_equal(got[0] + i * stride[0], got[1] + i * stride[1], VOCAB * sizeof(float));
        }
        for (int j = 0; j < 2; j++) close_rig(&r[j]);
    }
}

/* Pieces of all kinds: a decoder's longest, powers of two, what is left; behind a past. */
static void pieces_are_all_at_once(void **state)
{
    (void)state;
    static const int64_t max_rows[] = { 1, 7, 64, 70, 150 };
    rig r = open_rig(LIKE_LLAMA, 1, 0);
    float *want = whole(&r, 0, N);
    close_rig(&r);
    for (size_t k = 0; k < sizeof max_rows / sizeof *max_rows; k++) {
        int32_t token[N];
        kept_logits got = { .row = rows(N), .first = 3 };
        text_of(0, token, N);
        r = open_rig(LIKE_LLAMA, 3, max_rows[k]);
        ASSERT_OK(tx_decoder_append(r.d, 2, token, 2, NULL));
        ASSERT_OK(tx_decoder_append(r.d, 2, token + 2, N - 2, &(tx_logits_wanted){ 3, keep_logits, &got }));
        assert_int_equal(got.n, N - 3);
        for (int64_t i = 0; i < got.n; i++)
            ASSERT_OK(same_logits(got.row + i * VOCAB, want + (3 + i) * VOCAB, "piece"));
        free(got.row);
        close_rig(&r);
    }
    free(want);
}

/* Slots of different lengths, in steps that some of them are in, each as it is alone. */
static void steps_of_many_are_each_alone(void **state)
{
    (void)state;
    enum { SLOTS = 70, STEPS = 12 };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        rig r = open_rig(shapes[k], SLOTS, 0);
        float *want[SLOTS];
        int64_t prompt[SLOTS];
        for (int i = 0; i < SLOTS; i++) {
            prompt[i] = 1 + 31 * i % 47;
            want[i] = whole(&r, i, prompt[i] + STEPS);
        }
        tx_decoder_truncate(r.d, 0, 0);
        for (int i = 0; i < SLOTS; i++) {
            int32_t token[LEN];
            text_of(i, token, prompt[i]);
            ASSERT_OK(tx_decoder_append(r.d, i, token, prompt[i], NULL));
        }
        for (int step = 0; step < STEPS; step++) {
            int slot[SLOTS], n = 0;
            int32_t token[SLOTS];
            const float *got;
            int64_t stride;
            for (int i = SLOTS - 1; i >= 0; i--) {
                if (step % 3 == 1 && i % 5) continue;
                slot[n] = i;
                token[n++] = token_of(i, tx_decoder_length(r.d, i));
            }
            ASSERT_OK(tx_decoder_step(r.d, slot, token, n, &got, &stride));
            for (int i = 0; i < n; i++)
                ASSERT_OK(same_logits(got + i * stride, want[slot[i]] + (tx_decoder_length(r.d, slot[i]) - 1) * VOCAB,
                                      "step"));
        }
        for (int i = 0; i < SLOTS; i++) free(want[i]);
        close_rig(&r);
    }
}

/* bf16: the same calls give the same bits. */
static void the_same_calls_have_the_same_bits(void **state)
{
    (void)state;
    enum { SLOTS = 5, STEPS = 20 };
    static float got[2][STEPS][SLOTS][VOCAB];
    for (int run = 0; run < 2; run++) {
        rig r = open_rig(LIKE_LLAMA "--bf16", SLOTS, 0);
        for (int i = 0; i < SLOTS; i++) {
            int32_t token[LEN];
            text_of(i, token, 9 * i + 1);
            ASSERT_OK(tx_decoder_append(r.d, i, token, 9 * i + 1, NULL));
        }
        for (int step = 0; step < STEPS; step++) {
            const int slot[SLOTS] = { 0, 1, 2, 3, 4 };
            int32_t token[SLOTS];
            const float *logits;
            int64_t stride;
            for (int i = 0; i < SLOTS; i++) token[i] = token_of(i, tx_decoder_length(r.d, i));
            ASSERT_OK(tx_decoder_step(r.d, slot, token, SLOTS, &logits, &stride));
            for (int i = 0; i < SLOTS; i++) memcpy(got[run][step][i], logits + i * stride, sizeof got[0][0][0]);
        }
        close_rig(&r);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    for (int v = 0; v < VOCAB; v++) assert_true(isfinite(got[0][STEPS - 1][0][v]));
}

static void copies_go_their_own_ways(void **state)
{
    (void)state;
    rig r = open_rig(LIKE_GPT2, 3, 0);
    float *want[2] = { whole(&r, 0, 60), NULL };
    int32_t token[LEN], other[LEN];
    kept_logits got[2] = { { .row = rows(60), .first = 40 }, { .row = rows(60), .first = 40 } };
    text_of(0, token, 60);
    text_of(0, other, 40);
    for (int i = 40; i < 60; i++) other[i] = token_of(5, i);
    kept_logits k = { .row = want[1] = rows(60) };
    tx_decoder_truncate(r.d, 0, 0);
    ASSERT_OK(tx_decoder_append(r.d, 0, other, 60, &(tx_logits_wanted){ 0, keep_logits, &k }));
    tx_decoder_truncate(r.d, 0, 40);
    assert_int_equal(tx_decoder_length(r.d, 0), 40);
    ASSERT_OK(tx_decoder_copy(r.d, 2, 0));
    assert_int_equal(tx_decoder_length(r.d, 2), 40);
    assert_int_equal(tx_decoder_length(r.d, 1), 0);
    ASSERT_OK(tx_decoder_append(r.d, 0, token + 40, 20, &(tx_logits_wanted){ 40, keep_logits, &got[0] }));
    ASSERT_OK(tx_decoder_append(r.d, 2, other + 40, 20, &(tx_logits_wanted){ 40, keep_logits, &got[1] }));
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 20; i++)
            ASSERT_OK(same_logits(got[j].row + i * VOCAB, want[j] + (40 + i) * VOCAB, j ? "copy" : "original"));
    ASSERT_OK(tx_decoder_copy(r.d, 2, 2));
    ASSERT_OK(tx_decoder_copy(r.d, 2, 1)); /* empty */
    assert_int_equal(tx_decoder_length(r.d, 2), 0);
    for (int j = 0; j < 2; j++) free(want[j]), free(got[j].row);
    close_rig(&r);
}

static tx_status refuse(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    (void)n_rows, (void)logits, (void)stride;
    *(int *)user += 1;
    return TX_FAIL(TX_ERR_IO, "full at %lld", (long long)first);
}

static void errors_leave_the_decoder_usable(void **state)
{
    (void)state;
    rig r = open_rig(LIKE_GPT2, 2, 0);
    float *want = whole(&r, 0, N);
    int32_t token[LEN], bad = VOCAB, negative = -1;
    const float *got;
    int64_t stride;
    int calls = 0;
    text_of(0, token, LEN);
    ASSERT_FAILS(tx_decoder_append(r.d, 0, token, LEN - N + 1, NULL), TX_ERR_ARG, "201 tokens, there is room for 200");
    ASSERT_FAILS(tx_decoder_append(r.d, 1, &bad, 1, NULL), TX_ERR_ARG, "token 509");
    ASSERT_FAILS(tx_decoder_step(r.d, (const int[]){ 1 }, &negative, 1, &got, &stride), TX_ERR_ARG, "token -1");
    assert_int_equal(tx_decoder_length(r.d, 0), N);
    assert_int_equal(tx_decoder_length(r.d, 1), 0);
    ASSERT_FAILS(tx_decoder_append(r.d, 1, token, N - 1, &(tx_logits_wanted){ 0, refuse, &calls }), TX_ERR_IO,
                 "full at 0");
    assert_int_equal(calls, 1);
    tx_decoder_truncate(r.d, 1, 0);
    ASSERT_OK(tx_decoder_append(r.d, 1, token, N - 1, NULL));
    ASSERT_OK(tx_decoder_step(r.d, (const int[]){ 1 }, token + N - 1, 1, &got, &stride));
    ASSERT_OK(same_logits(got, want + (N - 1) * VOCAB, "behind errors"));
    free(want);
    tx_decoder *none;
    const tx_decoder_opts opts = { .backend = "cpu", .n_threads = 1, .n_slots = 1, .max_len = LEN + 1 };
    ASSERT_FAILS(tx_decoder_create(&none, r.model, NULL, &opts), TX_ERR_ARG, "the model has 200 positions");
    close_rig(&r);
}

/* Rotary positions have no table to end. */
static void rotary_positions_go_on(void **state)
{
    (void)state;
    rig r = open_rig(LIKE_LLAMA, 1, 0);
    const tx_decoder_opts opts = { .backend = "cpu", .n_threads = 1, .n_slots = 1, .max_len = 2 * LEN };
    int32_t token[2 * LEN];
    kept_logits got = { .row = rows(1), .first = 2 * LEN - 1 };
    text_of(0, token, 2 * LEN);
    tx_decoder_destroy(r.d);
    ASSERT_OK(tx_decoder_create(&r.d, r.model, NULL, &opts));
    ASSERT_OK(tx_decoder_append(r.d, 0, token, 2 * LEN, &(tx_logits_wanted){ 2 * LEN - 1, keep_logits, &got }));
    assert_int_equal(got.n, 1);
    free(got.row);
    close_rig(&r);
}

/* Dynamic NTK: all pieces of a prompt are turned as its whole length has it, and short ones as without it. */
static void lengths_that_matter(void **state)
{
    (void)state;
    rig r = open_rig(LIKE_DYNAMIC, 2, 7), plain = open_rig(LIKE_LLAMA, 1, 0);
    assert_true(tx_decoder_keeps_keys(plain.d) && !tx_decoder_keeps_keys(r.d));
    float *want = whole(&r, 0, N - 1), *of_plain = whole(&plain, 0, N - 1);
    assert_forward(&r, want, N);
    assert_true(same_logits(want + (N - 2) * VOCAB, of_plain + (N - 2) * VOCAB, "long") != TX_OK);
    int32_t token[N];
    kept_logits got = { .row = rows(N), .first = 50 };
    text_of(0, token, N);
    tx_decoder_expect(r.d, 1, N - 1);
    ASSERT_OK(tx_decoder_append(r.d, 1, token, 50, NULL));
    ASSERT_OK(tx_decoder_append(r.d, 1, token + 50, N - 51, &(tx_logits_wanted){ 50, keep_logits, &got }));
    for (int64_t i = 50; i < N - 1; i++)
        ASSERT_OK(same_logits(got.row + (i - 50) * VOCAB, want + i * VOCAB, "in two calls"));
    free(want);
    free(got.row);
    want = whole(&r, 0, 64);
    for (int64_t i = 0; i < 64; i++) ASSERT_OK(same_logits(want + i * VOCAB, of_plain + i * VOCAB, "short"));
    free(want);
    free(of_plain);
    close_rig(&r);
    close_rig(&plain);
}

/* Experts that have room for few tokens when they are trained take all of a text that goes on, and draw none. */
static void generation_drops_nothing(void **state)
{
    (void)state;
    rig few = open_rig(LIKE_DEEPSPEED "--moe-eval-capacity-factor 0.2 --moe-train-capacity-factor 0.2 ", 1, 0);
    rig all = open_rig(DROPS_NONE, 1, 0);
    float *got = whole(&few, 0, N), *want = whole(&all, 0, N);
    assert_memory_equal(got, want, (size_t)N * VOCAB * sizeof *got);
    free(got);
    free(want);
    close_rig(&few);
    close_rig(&all);
}

/* Nothing is taken once the decoder is there. */
static void calls_allocate_nothing(void **state)
{
    (void)state;
    rig r = open_rig(LIKE_LLAMA, 3, 0);
    int32_t token[LEN];
    const float *got;
    int64_t stride;
    kept_logits k = { .row = rows(LEN) };
    text_of(0, token, LEN);
    uint64_t before = tx_alloc_count();
    ASSERT_OK(tx_decoder_append(r.d, 0, token, 150, &(tx_logits_wanted){ 0, keep_logits, &k }));
    ASSERT_OK(tx_decoder_append(r.d, 1, token, 3, NULL));
    ASSERT_OK(tx_decoder_copy(r.d, 2, 0));
    ASSERT_OK(tx_decoder_step(r.d, (const int[]){ 2, 0, 1 }, token, 3, &got, &stride));
    assert_int_equal(tx_alloc_count(), before);
    free(k.row);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(one_by_one_is_all_at_once),
        cmocka_unit_test(pieces_are_all_at_once),
        cmocka_unit_test(steps_of_many_are_each_alone),
        cmocka_unit_test(the_same_calls_have_the_same_bits),
        cmocka_unit_test(copies_go_their_own_ways),
        cmocka_unit_test(errors_leave_the_decoder_usable),
        cmocka_unit_test(rotary_positions_go_on),
        cmocka_unit_test(calls_allocate_nothing),
        cmocka_unit_test(generation_drops_nothing),
        cmocka_unit_test(lengths_that_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
