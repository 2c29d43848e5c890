/* labels: unit golden */
/* Ids and bytes equal to the real tokenizers', any bytes survive a round trip, and long words stay fast. */
#include "token_test.h"

#include <pthread.h>
#include <time.h>

#include "base/rng.h"

/* ---- golden ---- */

typedef struct golden {
    tx_tokenizer *t;
    json_t *text; /* id -> text */
    int n_ids;
} golden;

static void keep_text(json_t *line, void *user)
{
    golden *g = user;
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(line, "id")));
    assert_int_equal(json_object_set(g->text, key, json_object_get(line, "text")), 0);
}

static void same_ids(const tx_ids *got, const json_t *want, const char *what)
{
    size_t n = json_array_size(want);
    for (size_t i = 0; i < n && i < got->n; i++)
        if (got->id[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s: id %zu is %d", what, i, got->id[i]);
    if (n != got->n) fail_msg("%s: %zu ids instead of %zu", what, got->n, n);
}

static void check_case(json_t *line, void *user)
{
    golden *g = user;
    char key[32];
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(line, "id")));
    json_t *text = json_object_get(g->text, key);
    assert_non_null(text);
    ASSERT_OK(tx_tokenizer_encode(g->t, json_string_value(text), json_string_length(text), &ids));
    same_ids(&ids, json_object_get(line, "ids"), key);
    ASSERT_OK(tx_tokenizer_decode(g->t, ids.id, ids.n, &back));
    assert_int_equal(back.n, json_string_length(text));
    if (back.n) assert_memory_equal(back.data, json_string_value(text), back.n);
    g->n_ids += (int)ids.n;
    tx_ids_free(&ids);
    tx_bytes_free(&back);
}

static void golden_ids(void **state)
{
    golden g = { open_gpt2(), json_object(), 0 };
    (void)state;
    assert_int_equal(tx_tokenizer_vocab_size(g.t), 50257);
    assert_int_equal(tx_tokenizer_eod(g.t), 50256);
    assert_int_equal(for_each_json_line(data_path("token/gpt2_cases.jsonl"), keep_text, &g), 613);
    assert_int_equal(for_each_json_line(data_path("token/gpt2_ids.jsonl"), check_case, &g), 613);
    assert_true(g.n_ids > 20000);
    json_decref(g.text);
    tx_tokenizer_close(g.t);
}

static void check_decode(json_t *line, void *user)
{
    const tx_tokenizer *t = user;
    json_t *list = json_object_get(line, "ids");
    size_t n = json_array_size(list);
    int32_t ids[4096];
    tx_bytes bytes = { 0 }, shown = { 0 };
    assert_true(n <= 4096);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    ASSERT_OK(tx_tokenizer_decode(t, ids, n, &bytes));
    const char *hex = json_string_value(json_object_get(line, "hex"));
    assert_int_equal(strlen(hex), 2 * bytes.n);
    for (size_t i = 0; i < bytes.n; i++) {
        unsigned b;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &b), 1);
        assert_int_equal((unsigned char)bytes.data[i], b);
    }
    json_t *text = json_object_get(line, "text_replace");
    ASSERT_OK(tx_text_replace_invalid(bytes.data, bytes.n, &shown));
    assert_int_equal(shown.n, json_string_length(text));
    if (shown.n) assert_memory_equal(shown.data, json_string_value(text), shown.n);
    tx_bytes_free(&bytes);
    tx_bytes_free(&shown);
}

static void golden_decode(void **state)
{
    tx_tokenizer *t = open_gpt2();
    (void)state;
    assert_int_equal(for_each_json_line(data_path("token/gpt2_decode.jsonl"), check_decode, t), 67);
    tx_tokenizer_close(t);
}

static void tiny(void **state)
{
    tx_tokenizer *t = open_tiny();
    tx_ids ids = { 0 };
    (void)state;
    assert_int_equal(tx_tokenizer_vocab_size(t), 512);
    assert_int_equal(tx_tokenizer_eod(t), 511);
    ASSERT_OK(tx_tokenizer_encode(t, " their", 6, &ids)); /* merged over several steps; id from the file */
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.id[0], 504);
    ASSERT_OK(tx_tokenizer_encode(t, "<|endoftext|>", 13, &ids)); /* appends; plain text, not the special token */
    assert_true(ids.n > 5);
    for (size_t i = 0; i < ids.n; i++) assert_int_not_equal(ids.id[i], 511);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
}

/* ---- any bytes ---- */

static void round_trip(const tx_tokenizer *t, const char *text, size_t n, tx_ids *ids, tx_bytes *back)
{
    ids->n = back->n = 0;
    ASSERT_OK(tx_tokenizer_encode(t, text, n, ids));
    ASSERT_OK(tx_tokenizer_decode(t, ids->id, ids->n, back));
    assert_int_equal(back->n, n);
    if (n) assert_memory_equal(back->data, text, n);
}

static void random_bytes(void **state)
{
    tx_tokenizer *t[2] = { open_gpt2(), open_tiny() };
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    char text[700];
    (void)state;
    for (uint32_t seed = 0; seed < 4000; seed++) {
        tx_rng r = { seed, 1, 0 };
        size_t n = seed % 7 ? seed % 64 : seed % sizeof text;
        int kind = (int)(seed % 5); /* all bytes, ASCII, few letters, continuation bytes, spaces */
        for (size_t i = 0; i < n; i++) {
            uint32_t x = tx_rng_u16(&r, i);
            text[i] = kind == 0   ? (char)x
                      : kind == 1 ? (char)(x % 128)
                      : kind == 2 ? "ab' "[x % 4]
                      : kind == 3 ? (char)(0x80 + x % 128)
                                  : " \n\ta\xC2\xA0"[x % 6];
        }
        for (int k = 0; k < 2; k++) round_trip(t[k], text, n, &ids, &back);
    }
    tx_ids_free(&ids);
    tx_bytes_free(&back);
    for (int k = 0; k < 2; k++) tx_tokenizer_close(t[k]);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One letter, random letters, one word again and again, dashes. */
static void long_words(void **state)
{
    enum { N = 100000 };
    tx_tokenizer *t = open_gpt2();
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    char *text = malloc(N);
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        tx_rng r = { 3, (uint32_t)kind, 0 };
        for (size_t i = 0; i < N; i++) {
            uint32_t x = tx_rng_u16(&r, i);
            text[i] = kind == 0 ? 'a' : kind == 1 ? (char)('a' + x % 26) : kind == 2 ? "the"[i % 3] : '-';
        }
        double start = seconds();
        round_trip(t, text, N, &ids, &back);
        assert_true(seconds() - start < 5); /* 0.05 s; a quadratic method takes minutes */
        assert_true(ids.n < N);
    }
    back.n = 0; /* GPT-2's longest token of dashes has 64 of them */
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, 1, &back));
    assert_int_equal(back.n, 64);
    assert_int_equal(ids.n, (N - N % 64) / 64 + 1); /* and one for the 32 that are left */
    free(text);
    tx_ids_free(&ids);
    tx_bytes_free(&back);
    tx_tokenizer_close(t);
}

/* ---- many threads, one tokenizer ---- */

typedef struct worker {
    const tx_tokenizer *t;
    const char *text;
    size_t n;
    tx_ids ids;
    tx_status st;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 5 && !w->st; i++) {
        w->ids.n = 0;
        w->st = tx_tokenizer_encode(w->t, w->text, w->n, &w->ids);
    }
    return NULL;
}

static void threads(void **state)
{
    enum { N = 20000, WORKERS = 4 };
    tx_tokenizer *t = open_gpt2();
    char *text = malloc(N);
    worker w[WORKERS];
    pthread_t id[WORKERS];
    tx_rng r = { 5, 5, 0 };
    (void)state;
    for (size_t i = 0; i < N; i++) text[i] = "etaoin  \xC3\xA9"[tx_rng_u16(&r, i) % 10];
    memset(text + 500, 'x', 500); /* one long word */
    for (int k = 0; k < WORKERS; k++) {
        w[k] = (worker){ .t = t, .text = text, .n = N };
        assert_int_equal(pthread_create(&id[k], NULL, work, &w[k]), 0);
    }
    for (int k = 0; k < WORKERS; k++) {
        pthread_join(id[k], NULL);
        ASSERT_OK(w[k].st);
        assert_int_equal(w[k].ids.n, w[0].ids.n);
        assert_memory_equal(w[k].ids.id, w[0].ids.id, w[0].ids.n * sizeof(int32_t));
    }
    for (int k = 0; k < WORKERS; k++) tx_ids_free(&w[k].ids);
    free(text);
    tx_tokenizer_close(t);
}

/* ---- small things ---- */

static void empty_and_appending(void **state)
{
    tx_tokenizer *t = open_gpt2();
    tx_ids ids = { 0 };
    tx_bytes b = { 0 };
    (void)state;
    ASSERT_OK(tx_tokenizer_encode(t, "", 0, &ids));
    ASSERT_OK(tx_tokenizer_decode(t, NULL, 0, &b));
    assert_int_equal(ids.n + b.n, 0);
    ASSERT_OK(tx_tokenizer_encode(t, "hello world", 11, &ids));
    ASSERT_OK(tx_tokenizer_encode(t, " hello", 6, &ids));
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.id[0], 31373);
    assert_int_equal(ids.id[1], 995);
    assert_int_equal(ids.id[2], 23748);
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, 1, &b));
    ASSERT_OK(tx_tokenizer_decode(t, ids.id + 1, 1, &b));
    assert_string_equal(b.data, "hello world");
    const int32_t bad[][2] = { { 0, 50257 }, { 0, -1 }, { 0, INT32_MAX }, { 0, INT32_MIN } };
    for (int i = 0; i < 4; i++)
        ASSERT_FAILS(tx_tokenizer_decode(t, bad[i], 2, &b), TX_ERR_ARG, "is not in the vocabulary: ids are 0 to 50256");
    assert_string_equal(b.data, "hello world"); /* untouched */
    tx_ids_free(&ids);
    tx_bytes_free(&b);
    tx_tokenizer_close(t);
    tx_tokenizer_close(NULL);
}

static void display(void **state)
{
    static const struct {
        const char *bytes, *want;
    } c[] = {
        /* checked with Python 3.11: bytes.decode("utf-8", errors="replace") */
        { "", "" },
        { "ok \xC3\xA9", "ok \xC3\xA9" },
        { "\xC3", "\xEF\xBF\xBD" },
        { "a\xE2\x82z", "a\xEF\xBF\xBDz" },
        { "\xF0\x9F\x98", "\xEF\xBF\xBD" },
        { "\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "\xF4\x90\x80\x80x", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx" },
        { "\xC0\xAFx\xFF", "\xEF\xBF\xBD\xEF\xBF\xBDx\xEF\xBF\xBD" },
        { "\xE2\xE2\x82\xAC\x82", "\xEF\xBF\xBD\xE2\x82\xAC\xEF\xBF\xBD" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tx_bytes b = { 0 };
        ASSERT_OK(tx_text_replace_invalid(c[i].bytes, strlen(c[i].bytes), &b));
        assert_string_equal(b.data, c[i].want);
        tx_bytes_free(&b);
    }
}

static void null_tokenizer(void **state)
{
    tx_tokenizer *t = NULL;
    tx_ids ids = { 0 };
    tx_bytes b = { 0 };
    (void)state;
    ASSERT_OK(tx_tokenizer_open_null(&t, 1000));
    assert_int_equal(tx_tokenizer_vocab_size(t), 1001);
    assert_int_equal(tx_tokenizer_eod(t), 1000);
    ASSERT_OK(tx_tokenizer_encode(t, " 0 17\n999  1000 007", 19, &ids));
    const int32_t want[] = { 0, 17, 999, 1000, 7 };
    assert_int_equal(ids.n, 5);
    assert_memory_equal(ids.id, want, sizeof want);
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, ids.n, &b));
    assert_string_equal(b.data, "0 17 999 1000 7");
    static const char *const bad[] = { "1001", "-1", "1 x", "3.5", "99999999999999999999999", "+1", "1 \xFF" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_FAILS(tx_tokenizer_encode(t, bad[i], strlen(bad[i]), &ids), TX_ERR_ARG, "whole numbers from 0 to 1000");
        assert_int_equal(ids.n, 5); /* nothing of it was kept */
    }
    tx_tokenizer_close(t);
    ASSERT_FAILS(tx_tokenizer_open_null(&t, 0), TX_ERR_ARG, "vocabulary size is 0");
    ASSERT_FAILS(tx_tokenizer_open_null(&t, INT32_MAX), TX_ERR_ARG, "allowed are 1 to");
    tx_ids_free(&ids);
    tx_bytes_free(&b);
}

/* ---- no memory ---- */

static tx_status open_and_encode(const char *text, size_t n)
{
    tx_tokenizer *t = NULL;
    tx_ids ids = { 0 };
    tx_bytes b = { 0 };
    tx_status st = tx_tokenizer_open_gpt2(&t, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt"));
    if (!st) st = tx_tokenizer_encode(t, text, n, &ids);
    if (!st) st = tx_tokenizer_decode(t, ids.id, ids.n, &b);
    tx_bytes_free(&b);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return st;
}

static void every_allocation_fails(void **state)
{
    char text[300];
    int n = 0;
    tx_status st;
    (void)state;
    memset(text, 'e', sizeof text);
    do {
        allocations_fail_from(n++);
        st = open_and_encode(text, sizeof text);
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    } while (st && n < 1000);
    allocations_succeed();
    ASSERT_OK(st);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_ids),     cmocka_unit_test(golden_decode),
        cmocka_unit_test(tiny),           cmocka_unit_test(random_bytes),
        cmocka_unit_test(long_words),     cmocka_unit_test(threads),
        cmocka_unit_test(display),        cmocka_unit_test(empty_and_appending),
        cmocka_unit_test(null_tokenizer), cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
