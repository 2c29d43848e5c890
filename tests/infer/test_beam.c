/* labels: golden unit */
/* Beam search against every continuation there is, and against the rule followed without a cache. */
#include "trained_model.h"

#include "infer/beam.h"

/* Log-probabilities of what comes behind a sequence. */
static tx_status keep_logits(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    (void)first;
    double *out = user, max = -INFINITY, sum = 0;
    const float *x = logits + (n_rows - 1) * stride;
    for (int v = 0; v < VOCAB; v++) max = fmax(max, x[v]);
    for (int v = 0; v < VOCAB; v++) sum += exp(x[v] - max);
    for (int v = 0; v < VOCAB; v++) out[v] = x[v] - max - log(sum);
    return TX_OK;
}

static void log_probs(tx_decoder *d, const int32_t *prompt, int64_t n_prompt, const int32_t *more, int64_t n,
                      double out[VOCAB])
{
    tx_decoder_truncate(d, 0, 0);
    if (n == 0) {
        ASSERT_OK(tx_decoder_append(d, 0, prompt, n_prompt, &(tx_logits_wanted){ n_prompt - 1, keep_logits, out }));
    } else {
        ASSERT_OK(tx_decoder_append(d, 0, prompt, n_prompt, NULL));
        ASSERT_OK(tx_decoder_append(d, 0, more, n, &(tx_logits_wanted){ n_prompt + n - 1, keep_logits, out }));
    }
    tx_decoder_truncate(d, 0, 0);
}

typedef struct pair {
    double sum;
    int32_t a, b;
} pair;

static int likelier(const void *x, const void *y)
{
    double a = ((const pair *)x)->sum, b = ((const pair *)y)->sum;
    return (a < b) - (a > b);
}

static double kth_largest(const double x[VOCAB], int k)
{
    for (int i = 0; i < VOCAB; i++) {
        int n_above = 0;
        for (int j = 0; j < VOCAB; j++) n_above += x[j] > x[i];
        if (n_above == k - 1) return x[i];
    }
    fail_msg("equal log-probabilities");
    return 0;
}

/* Two tokens, no stop, against all 512 × 512. A pair whose first token is not among the W likeliest is less likely than
 * the W-th of these alone: the pairs above that are found, all and in order. */
static void every_pair(void **state)
{
    (void)state;
    enum { W = 100 };
    stored_text text[N_STORED];
    load_stored_texts(text);
    const int32_t *prompt = text[2].prompt;
    int64_t n = text[2].n_prompt < 20 ? text[2].n_prompt : 20;
    static double first[VOCAB], second[VOCAB];
    static pair all[VOCAB * VOCAB];
    tx_hypothesis out[W];
    tx_decoder *d = trained_decoder(2 * W, n + 2);
    log_probs(d, prompt, n, NULL, 0, first);
    for (int32_t a = 0; a < VOCAB; a++) {
        log_probs(d, prompt, n, &a, 1, second);
        for (int32_t b = 0; b < VOCAB; b++) all[a * VOCAB + b] = (pair){ first[a] + second[b], a, b };
    }
    qsort(all, VOCAB * VOCAB, sizeof *all, likelier);
    const tx_beam_opts o = { .width = W, .max_new = 2, .stop = -1, .length_penalty = 1 };
    ASSERT_OK(tx_beam_search(d, prompt, n, &o, out));
    double bound = kth_largest(first, W);
    int i = 0;
    for (; i < W && all[i].sum > bound; i++) {
        assert_int_equal(out[i].n, 2);
        ASSERT_NEAR(out[i].score, all[i].sum / 2, 1e-5, "score");
        if (i && all[i - 1].sum - all[i].sum < 1e-4) continue;
        if (all[i].sum - all[i + 1].sum < 1e-4) continue;
        assert_int_equal(out[i].token[0], all[i].a);
        assert_int_equal(out[i].token[1], all[i].b);
    }
    assert_true(i >= 5);
    tx_hypotheses_free(out, W);
    for (i = 0; i < 2 * W; i++) assert_int_equal(tx_decoder_length(d, i), 0);
    tx_decoder_destroy(d);
}

/* ---- the rule, each sequence computed from its beginning ---- */

enum { WIDTH = 4, STEPS = 12 };

typedef struct plain {
    int32_t token[STEPS];
    int64_t n;
    double sum; /* or the score, of one that has ended */
} plain;

static int better(const void *x, const void *y)
{
    double a = ((const plain *)x)->sum, b = ((const plain *)y)->sum;
    return (a < b) - (a > b);
}

static void end_plain(plain *ended, int *n_ended, const plain *p, int64_t length, double penalty)
{
    plain e = *p;
    e.sum = p->sum / pow((double)length, penalty);
    ended[(*n_ended)++] = e;
    qsort(ended, (size_t)*n_ended, sizeof *ended, better);
    if (*n_ended > WIDTH) *n_ended = WIDTH;
}

static void plain_search(tx_decoder *d, const int32_t *prompt, int64_t n, int32_t stop, double penalty,
                         plain ended[WIDTH + 1])
{
    static plain all[WIDTH * VOCAB];
    static double lp[VOCAB];
    plain live[WIDTH] = { 0 };
    int n_live = 1, n_ended = 0;
    for (int64_t at = 0; at < STEPS; at++) {
        for (int i = 0; i < n_live; i++) {
            log_probs(d, prompt, n, live[i].token, at, lp);
            for (int32_t v = 0; v < VOCAB; v++) {
                plain *p = &all[i * VOCAB + v];
                *p = live[i];
                p->token[at] = v;
                p->sum += lp[v];
                p->n = at + 1;
            }
        }
        qsort(all, (size_t)(n_live * VOCAB), sizeof *all, better);
        double best = all[0].sum;
        n_live = 0;
        for (int rank = 0; rank < 2 * WIDTH && n_live < WIDTH; rank++) {
            if (all[rank].token[at] != stop)
                live[n_live++] = all[rank];
            else if (rank < WIDTH) {
                all[rank].n--;
                end_plain(ended, &n_ended, &all[rank], at + 1, penalty);
            }
        }
        if (n_ended == WIDTH && ended[WIDTH - 1].sum >= best / pow((double)(at + 1), penalty)) return;
    }
    for (int i = 0; i < n_live; i++) end_plain(ended, &n_ended, &live[i], STEPS, penalty);
}

/* Stops that come often and never, penalties for and against long ones. */
static void by_the_rule(void **state)
{
    (void)state;
    static const struct {
        int32_t stop;
        double penalty;
        int text;
    } cases[] = { { 11, 1, 0 }, { 198, 0.5, 0 }, { 11, 2, 1 }, { -1, 1, 1 }, { 13, 0, 3 } };
    stored_text text[N_STORED];
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(2 * WIDTH, 128);
    int n_short = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        plain expected[WIDTH + 1] = { 0 };
        tx_hypothesis out[WIDTH];
        const stored_text *t = &text[cases[c].text];
        const tx_beam_opts o = {
            .width = WIDTH, .max_new = STEPS, .stop = cases[c].stop, .length_penalty = cases[c].penalty
        };
        plain_search(d, t->prompt, t->n_prompt, o.stop, o.length_penalty, expected);
        ASSERT_OK(tx_beam_search(d, t->prompt, t->n_prompt, &o, out));
        for (int i = 0; i < WIDTH; i++) {
            ASSERT_NEAR(out[i].score, expected[i].sum, 1e-4, "score");
            assert_int_equal(out[i].n, expected[i].n);
            assert_memory_equal(out[i].token, expected[i].token, (size_t)out[i].n * sizeof(int32_t));
            n_short += out[i].n < STEPS;
        }
        tx_hypotheses_free(out, WIDTH);
    }
    assert_true(n_short > WIDTH); /* some did stop */
    tx_decoder_destroy(d);
}

typedef struct patience {
    int n_asked, n_steps;
} patience;

static bool is_over(void *user)
{
    patience *p = user;
    return ++p->n_asked > p->n_steps;
}

/* It ends where it is asked to, whatever has ended before, and leaves a decoder that searches as before. */
static void cancelled(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(2 * WIDTH, 128);
    tx_beam_opts o = { .width = WIDTH, .max_new = STEPS, .stop = 198, .length_penalty = 0.5 };
    tx_hypothesis whole[WIDTH], out[WIDTH], zero = { 0 };
    ASSERT_OK(tx_beam_search(d, text[0].prompt, text[0].n_prompt, &o, whole));
    for (int n = 0; n < 4; n++) {
        patience p = { .n_steps = n };
        o.cancelled = is_over;
        o.user = &p;
        ASSERT_OK(tx_beam_search(d, text[0].prompt, text[0].n_prompt, &o, out));
        assert_int_equal(p.n_asked, n + 1);
        for (int i = 0; i < WIDTH; i++) assert_memory_equal(&out[i], &zero, sizeof zero);
        for (int i = 0; i < 2 * WIDTH; i++) assert_int_equal(tx_decoder_length(d, i), 0);
    }
    o.user = &(patience){ .n_steps = STEPS };
    ASSERT_OK(tx_beam_search(d, text[0].prompt, text[0].n_prompt, &o, out));
    for (int i = 0; i < WIDTH; i++) {
        assert_int_equal(out[i].n, whole[i].n);
        assert_memory_equal(out[i].token, whole[i].token, (size_t)out[i].n * sizeof(int32_t));
    }
    tx_hypotheses_free(whole, WIDTH);
    tx_hypotheses_free(out, WIDTH);
    tx_decoder_destroy(d);
}

static void refused(void **state)
{
    (void)state;
    const int32_t prompt[2] = { 1, 2 };
    tx_hypothesis out[8];
    tx_decoder *d = trained_decoder(4, 10);
    ASSERT_FAILS(tx_beam_search(d, prompt, 2, &(tx_beam_opts){ .width = 3, .max_new = 2 }, out), TX_ERR_ARG, "beam");
    ASSERT_FAILS(tx_beam_search(d, prompt, 2, &(tx_beam_opts){ .width = 0, .max_new = 2 }, out), TX_ERR_ARG, "beam");
    ASSERT_FAILS(tx_beam_search(d, prompt, 2, &(tx_beam_opts){ .width = 2 }, out), TX_ERR_ARG, "new tokens");
    ASSERT_FAILS(tx_beam_search(d, prompt, 2, &(tx_beam_opts){ .width = 2, .max_new = 9 }, out), TX_ERR_ARG, "room");
    tx_decoder_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_pair), cmocka_unit_test(by_the_rule),
                                        cmocka_unit_test(cancelled), cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, trained_model_setup, trained_model_teardown);
}
