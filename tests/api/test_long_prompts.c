/* labels: unit */
/* Prompts longer than what a step of the batch computes of them: the others go on meanwhile, and pieces make the whole.
 */
#include "../infer/batch_run.h"
#include "decoder_logits.h"
#include "engine_test.h"

enum { V = 509, LONG = 2 * TX_BATCHER_PIECE + 276, SHORT = 5, MAX_LEN = LONG + 16 };

static tx_engine *engine;
static tx_config *config;
static int32_t prompt[LONG];

static int setup(void **state)
{
    (void)state;
    const tx_rng rng = { .seed = 5 };
    engine = create(&config, "--max-position-embeddings 2048 --init-method-std 0.2");
    for (int i = 0; i < LONG; i++) prompt[i] = (int32_t)(V * tx_rng_uniform(&rng, (uint64_t)i));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tx_engine_destroy(engine);
    tx_config_free(config);
    return 0;
}

typedef struct taker {
    tx_sequence s;
    int32_t got[16];
    int64_t n, n_of_prompt;
    double logprob[LONG];
} taker;

static bool take(void *user, tx_sequence *s, const tx_token_made *t)
{
    taker *k = user;
    (void)s;
    if (t->of_prompt) {
        assert_int_equal(t->index, k->n_of_prompt);
        assert_int_equal(t->id, prompt[t->index]);
        k->logprob[k->n_of_prompt++] = t->logprob;
    } else {
        k->got[k->n++] = t->id;
    }
    return true;
}

static void prepare(taker *k, int64_t n_prompt, int64_t max_new)
{
    *k = (taker){ .s = { .prompt = prompt,
                         .n_prompt = n_prompt,
                         .max_new = max_new,
                         .eod = -1,
                         .sampler = { .greedy = true },
                         .token = take } };
    k->s.user = k;
}

static tx_decoder *three_slots(void)
{
    tx_decoder *d;
    ASSERT_OK(tx_decoder_create(&d, engine->trainer->model, NULL,
                                &(tx_decoder_opts){ .backend = "cpu", .n_slots = 3, .max_len = MAX_LEN }));
    return d;
}

/* What the model says of each of the prompt's tokens, all positions in one call. */
static tx_status keep_logprobs(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    double *out = user;
    for (int64_t i = 0; i < n_rows && first + i + 1 < LONG; i++)
        out[first + i + 1] = tx_logprob(logits + i * stride, V, prompt[first + i + 1]);
    return TX_OK;
}

static void others_go_on(void **state)
{
    (void)state;
    static taker runs, reads, follows;
    float logits[V];
    int32_t first = 0;
    tx_decoder *d = three_slots();
    tx_batcher *b;
    logits_behind(d, prompt, LONG, logits);
    tx_decoder_truncate(d, 0, 0);
    for (int32_t v = 1; v < V; v++)
        if (logits[v] > logits[first]) first = v;
    ASSERT_OK(tx_batcher_create(&b, d));
    prepare(&runs, SHORT, 12);
    prepare(&reads, LONG, 4);
    prepare(&follows, LONG, 4);
    ASSERT_OK(tx_batcher_add(b, &runs.s));
    ASSERT_OK(tx_batcher_step(b));
    ASSERT_OK(tx_batcher_add(b, &reads.s));
    ASSERT_OK(tx_batcher_add(b, &follows.s));
    for (int step = 1; step <= 6; step++) {
        ASSERT_OK(tx_batcher_step(b));
        assert_int_equal(runs.n, step + 1); /* a token a step, whatever is read */
        assert_int_equal(reads.n, step < 3 ? 0 : step == 6 ? 4 : step - 2);
        /* the same prompt is copied, all but its last token: there is room for that in the step of the last piece */
        assert_int_equal(follows.n, reads.n);
    }
    ASSERT_OK(run_batch(b));
    assert_int_equal(reads.got[0], first);
    assert_memory_equal(reads.got, follows.got, 4 * sizeof *reads.got);
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

static void scored_in_pieces(void **state)
{
    (void)state;
    static taker scored, stopped;
    static double expected[LONG];
    tx_decoder *d = three_slots();
    tx_batcher *b;
    ASSERT_OK(tx_decoder_append(d, 0, prompt, LONG, &(tx_logits_wanted){ 0, keep_logprobs, expected }));
    tx_decoder_truncate(d, 0, 0);
    ASSERT_OK(tx_batcher_create(&b, d));
    prepare(&scored, LONG, 0);
    scored.s.prompt_logprobs = true;
    prepare(&stopped, LONG, 4);
    ASSERT_OK(tx_batcher_add(b, &scored.s));
    ASSERT_OK(tx_batcher_add(b, &stopped.s));
    ASSERT_OK(tx_batcher_step(b));
    assert_int_equal(scored.n_of_prompt, TX_BATCHER_PIECE + 1);
    ASSERT_OK(tx_batcher_step(b));
    ASSERT_OK(tx_batcher_step(b));
    assert_int_equal(scored.n_of_prompt, LONG);
    tx_batcher_cancel(b, &stopped.s); /* in the middle of its prompt */
    ASSERT_OK(run_batch(b));
    assert_int_equal(stopped.s.finish, TX_FINISH_CANCELLED);
    assert_true(isnan(scored.logprob[0]));
    for (int i = 1; i < LONG; i++) ASSERT_NEAR(scored.logprob[i], expected[i], 1e-4, "log-probability");
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(others_go_on), cmocka_unit_test(scored_in_pieces) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
