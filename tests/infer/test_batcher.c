/* labels: golden unit fault */
/* Sequences that join, end and leave; a text is the same alone and in company. */
#include "batch_run.h"
#include "trained_model.h"

enum { MAX_NEW = 64 };

/* A sequence and what became of it. */
typedef struct taker {
    tx_sequence s;
    int32_t got[MAX_NEW], of_prompt[128];
    double logprob[MAX_NEW], prompt_logprob[128];
    int64_t n, n_of_prompt, stop_at; /* 0: never */
    double margin;                   /* least gap between the two largest logits */
    int order;                       /* among those that have finished, from 1 */
} taker;

static int n_finished;

static double gap(const float *x)
{
    float first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < VOCAB; i++) {
        if (x[i] > first) {
            second = first;
            first = x[i];
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return first - second;
}

static bool take(void *user, tx_sequence *s, const tx_token_made *t)
{
    taker *k = user;
    assert_ptr_equal(s, &k->s);
    if (t->of_prompt) {
        assert_int_equal(t->index, k->n_of_prompt);
        k->prompt_logprob[k->n_of_prompt] = t->logprob;
        k->of_prompt[k->n_of_prompt++] = t->id;
        return true;
    }
    assert_int_equal(t->index, k->n);
    k->margin = fmin(k->margin, gap(t->logits));
    k->logprob[k->n] = t->logprob;
    k->got[k->n++] = t->id;
    return !k->stop_at || k->n < k->stop_at;
}

static void taken(void *user, tx_sequence *s)
{
    taker *k = user;
    assert_int_equal(s->n_new, k->n);
    assert_true(s->finish != TX_UNFINISHED);
    assert_int_equal(k->order, 0);
    k->order = ++n_finished;
}

static void prepare(taker *k, const int32_t *prompt, int64_t n_prompt, int64_t max_new)
{
    *k = (taker){ .margin = INFINITY };
    k->s = (tx_sequence){ .prompt = prompt,
                          .n_prompt = n_prompt,
                          .max_new = max_new,
                          .eod = -1,
                          .sampler = { .temperature = 1, .greedy = true },
                          .token = take,
                          .finished = taken,
                          .user = k };
}

static void same_tokens(const taker *a, const int32_t *expected, int64_t n)
{
    assert_int_equal(a->n, n);
    for (int64_t i = 0; i < n; i++)
        if (a->got[i] != expected[i]) fail_msg("token %lld: %d, expected %d", (long long)i, a->got[i], expected[i]);
}

static tx_batcher *batcher_of(tx_decoder *d)
{
    tx_batcher *b;
    ASSERT_OK(tx_batcher_create(&b, d));
    n_finished = 0;
    return b;
}

static void add_stored(tx_batcher *b, taker *k, const stored_text *text)
{
    for (int i = 0; i < N_STORED; i++) {
        prepare(&k[i], text[i].prompt, text[i].n_prompt, text[i].n_new);
        ASSERT_OK(tx_batcher_add(b, &k[i].s));
    }
}

/* All stored prompts, of unequal length, in two slots: each goes on as the stored model did, and slots are used
 * again. */
static void stored_continuations(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    taker k[N_STORED];
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(2, 128);
    tx_batcher *b = batcher_of(d);
    add_stored(b, k, text);
    assert_int_equal(tx_batcher_waiting(b), N_STORED);
    int most = 0;
    while (tx_batcher_waiting(b) + tx_batcher_running(b)) {
        ASSERT_OK(tx_batcher_step(b));
        most = (int)tx_batcher_running(b) > most ? (int)tx_batcher_running(b) : most;
    }
    assert_int_equal(most, 2);
    for (int i = 0; i < N_STORED; i++) {
        assert_true(text[i].min_gap > 1e-4);
        same_tokens(&k[i], text[i].new, text[i].n_new);
        assert_int_equal(k[i].s.finish, TX_FINISH_LENGTH);
        assert_int_equal(k[i].order, i + 1); /* as many tokens each: they end as they came */
    }
    ASSERT_OK(tx_batcher_step(b)); /* nothing to do */
    for (int i = 0; i < 2; i++) assert_int_equal(tx_decoder_length(d, i), 0);
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

/* Sampled texts with a seed: alone; in a crowd with others of the same prompt, that is copied from slot to slot; and
 * the same again. */
static void alone_or_in_company(void **state)
{
    (void)state;
    enum { N = 6, LEN = 40 };
    stored_text text[N_STORED];
    static taker alone[N], crowd[N], again[N];
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(5, 128);
    tx_batcher *b = batcher_of(d);
    for (int round = 0; round < 3; round++) {
        taker *k = round == 0 ? alone : round == 1 ? crowd : again;
        for (int i = 0; i < N; i++) {
            prepare(&k[i], text[i % 3 == 2].prompt, text[i % 3 == 2].n_prompt, LEN - i);
            k[i].s.sampler = (tx_sampler){ .temperature = 0.9, .top_k = 50, .top_p = 0.95 };
            k[i].s.seed = 7;
            k[i].s.sample = (uint64_t)i;
            ASSERT_OK(tx_batcher_add(b, &k[i].s));
            if (round == 0) ASSERT_OK(run_batch(b));
        }
        ASSERT_OK(run_batch(b));
    }
    for (int i = 0; i < N; i++) {
        same_tokens(&crowd[i], alone[i].got, alone[i].n);
        same_tokens(&again[i], alone[i].got, alone[i].n);
        assert_int_equal(alone[i].n, LEN - i);
    }
    assert_true(memcmp(alone[0].got, alone[1].got, 20 * sizeof(int32_t)) != 0); /* sample numbers count */
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

/* eod, stop ids, the taker's own end, min_new, forbidden tokens, pairs that must not be. Of a greedy text whose tokens
 * are known: 198 363 263 78 11 317 ... */
static void ends_of_a_text(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    taker k;
    load_stored_texts(text);
    const int32_t *new = text[0].new, stop[2] = { new[5], 500 };
    tx_decoder *d = trained_decoder(1, 128);
    tx_batcher *b = batcher_of(d);

    prepare(&k, text[0].prompt, text[0].n_prompt, 40);
    k.s.eod = new[3];
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    same_tokens(&k, new, 3);
    assert_int_equal(k.s.finish, TX_FINISH_EOD);

    k.s.min_new = 4; /* then it cannot come as the fourth */
    k.n = k.order = 0;
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    assert_true(k.n >= 4);
    assert_memory_equal(k.got, new, 3 * sizeof *new);
    assert_int_not_equal(k.got[3], new[3]);

    prepare(&k, text[0].prompt, text[0].n_prompt, 40);
    k.s.stop_id = stop;
    k.s.n_stop_ids = 2;
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    same_tokens(&k, new, 5);
    assert_int_equal(k.s.finish, TX_FINISH_STOP);

    prepare(&k, text[0].prompt, text[0].n_prompt, 40);
    k.stop_at = 2;
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    same_tokens(&k, new, 2);
    assert_int_equal(k.s.finish, TX_FINISH_STOP);

    prepare(&k, text[0].prompt, text[0].n_prompt, 40);
    k.s.forbidden = stop;
    k.s.n_forbidden = 1;
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    assert_memory_equal(k.got, new, 5 * sizeof *new);
    for (int64_t i = 0; i < k.n; i++) assert_int_not_equal(k.got[i], stop[0]);

    prepare(&k, text[0].prompt, text[0].n_prompt, 8); /* "Citizen:" and then a line end */
    k.s.prevent = true;
    k.s.after = text[0].prompt[text[0].n_prompt - 1];
    k.s.then = new[0];
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    assert_int_not_equal(k.got[0], new[0]);

    prepare(&k, text[0].prompt, text[0].n_prompt, 0);
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    same_tokens(&k, new, 0);
    assert_int_equal(k.s.finish, TX_FINISH_LENGTH);
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

/* A slot that is full ends its text; prompts that cannot be are refused and leave nothing behind. */
static void limits(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    taker k;
    load_stored_texts(text);
    const int32_t wrong[1] = { VOCAB };
    int64_t n = text[0].n_prompt;
    tx_decoder *d = trained_decoder(1, n + 3);
    tx_batcher *b = batcher_of(d);
    prepare(&k, text[0].prompt, n, INT64_MAX);
    ASSERT_OK(tx_batcher_add(b, &k.s));
    ASSERT_OK(run_batch(b));
    same_tokens(&k, text[0].new, 3);
    assert_int_equal(k.s.finish, TX_FINISH_LENGTH);

    prepare(&k, text[0].prompt, 0, 1);
    ASSERT_FAILS(tx_batcher_add(b, &k.s), TX_ERR_ARG, "at least one token");
    prepare(&k, wrong, 1, 1);
    ASSERT_FAILS(tx_batcher_add(b, &k.s), TX_ERR_ARG, "512");
    prepare(&k, text[1].prompt, n + 4, 1);
    ASSERT_FAILS(tx_batcher_add(b, &k.s), TX_ERR_ARG, "there is room for");
    prepare(&k, text[0].prompt, n, 1);
    k.s.stop_id = wrong;
    k.s.n_stop_ids = 1;
    ASSERT_FAILS(tx_batcher_add(b, &k.s), TX_ERR_ARG, "stop id 512");
    assert_int_equal(tx_batcher_waiting(b), 0);
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

/* Cancelled: one that waits, one that runs, one in another's callback; the others are not disturbed. */
static void cancelled(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    taker k[N_STORED];
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(2, 128);
    tx_batcher *b = batcher_of(d);
    add_stored(b, k, text);
    for (int i = 0; i < 5; i++) ASSERT_OK(tx_batcher_step(b));
    tx_batcher_cancel(b, &k[1].s);
    tx_batcher_cancel(b, &k[4].s);
    tx_batcher_cancel(b, &k[2].s);
    ASSERT_OK(run_batch(b));
    assert_int_equal(k[1].s.finish, TX_FINISH_CANCELLED);
    assert_int_equal(k[1].n, 5);
    for (int i = 2; i < 5; i += 2) {
        assert_int_equal(k[i].s.finish, TX_FINISH_CANCELLED);
        assert_int_equal(k[i].n, 0);
    }
    same_tokens(&k[0], text[0].new, text[0].n_new);
    same_tokens(&k[3], text[3].new, text[3].n_new);
    tx_batcher_cancel(b, &k[0].s); /* is done: nothing happens */
    ASSERT_OK(run_batch(b));
    assert_int_equal(k[0].s.finish, TX_FINISH_LENGTH);
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

typedef struct chain {
    taker first, second;
    tx_batcher *b;
} chain;

static void add_the_second(void *user, tx_sequence *s)
{
    chain *c = user;
    (void)s;
    ASSERT_OK(tx_batcher_add(c->b, &c->second.s));
}

/* `finished` adds another, while its own slot is the only one. What is left in a batcher is freed with it. */
static void added_by_finished(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    chain c;
    taker left[2];
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(1, 128);
    c.b = batcher_of(d);
    prepare(&c.first, text[0].prompt, text[0].n_prompt, 2);
    prepare(&c.second, text[1].prompt, text[1].n_prompt, 7);
    c.first.s.token = NULL;
    c.first.s.finished = add_the_second;
    c.first.s.user = &c;
    ASSERT_OK(tx_batcher_add(c.b, &c.first.s));
    ASSERT_OK(run_batch(c.b));
    same_tokens(&c.second, text[1].new, 7);
    for (int i = 0; i < 2; i++) {
        prepare(&left[i], text[i].prompt, text[i].n_prompt, 7);
        ASSERT_OK(tx_batcher_add(c.b, &left[i].s));
    }
    ASSERT_OK(tx_batcher_step(c.b));
    tx_batcher_destroy(c.b);
    tx_decoder_destroy(d);
}

/* Log-probabilities of a prompt are those that its tokens have when they are made. */
static void log_probabilities(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    taker made, scored;
    load_stored_texts(text);
    int64_t n = text[0].n_prompt, n_new = text[0].n_new;
    int32_t all[128];
    memcpy(all, text[0].prompt, (size_t)n * sizeof *all);
    memcpy(all + n, text[0].new, (size_t)n_new * sizeof *all);
    tx_decoder *d = trained_decoder(2, 128);
    tx_batcher *b = batcher_of(d);
    prepare(&made, text[0].prompt, n, n_new);
    prepare(&scored, all, n + n_new, 0);
    made.s.logprobs = true;
    scored.s.prompt_logprobs = true;
    ASSERT_OK(tx_batcher_add(b, &made.s));
    ASSERT_OK(run_batch(b));
    ASSERT_OK(tx_batcher_add(b, &scored.s));
    ASSERT_OK(run_batch(b));
    assert_int_equal(scored.n_of_prompt, n + n_new);
    assert_memory_equal(scored.of_prompt, all, (size_t)(n + n_new) * sizeof *all);
    assert_true(isnan(scored.prompt_logprob[0]));
    for (int64_t i = 0; i < n_new; i++) {
        assert_true(made.logprob[i] < 0);
        ASSERT_NEAR(scored.prompt_logprob[n + i], made.logprob[i], 1e-5, "log-probability");
    }
    tx_batcher_destroy(b);
    tx_decoder_destroy(d);
}

/* Every allocation that fails is told, and everything else is given back. */
static void not_enough_memory(void **state)
{
    (void)state;
    stored_text text[N_STORED];
    taker k;
    load_stored_texts(text);
    tx_decoder *d = trained_decoder(1, 128);
    int n_failed = 0;
    for (int64_t n = 0;; n++) {
        tx_batcher *b = NULL;
        prepare(&k, text[0].prompt, text[0].n_prompt, 3);
        allocation_fails_at(n);
        tx_status st = tx_batcher_create(&b, d);
        if (!st) st = tx_batcher_add(b, &k.s);
        if (!st) st = run_batch(b);
        allocations_succeed();
        tx_batcher_destroy(b);
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        n_failed++;
    }
    same_tokens(&k, text[0].new, 3);
    assert_true(n_failed >= 6);
    tx_decoder_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_continuations),
        cmocka_unit_test(alone_or_in_company),
        cmocka_unit_test(ends_of_a_text),
        cmocka_unit_test(limits),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(added_by_finished),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(not_enough_memory),
    };
    return cmocka_run_group_tests(tests, trained_model_setup, trained_model_teardown);
}
