/* labels: unit resume */
/* A blend of keyed datasets that changes in mid-run: over the whole run every dataset's samples come one after the
 * other, none twice and none left out. */
#include "data/blend_phase.h"
#include "data/gpt_dataset.h"
#include "support.h"

enum { N_SETS = 4 };

typedef struct sets {
    tx_gpt_data *file[N_SETS];
    tx_sample_set ds[N_SETS];
} sets;

/* Datasets of 100 + 10 d samples of 4 tokens; the ids tell which it is. */
static void open_sets(sets *s, int64_t seq_length)
{
    for (int d = 0; d < N_SETS; d++) {
        tx_indexed_builder *b;
        int32_t ids[600];
        const char *path = in_scratch("set%d", d);
        for (int i = 0; i < 600; i++) ids[i] = d * 1000 + i;
        ASSERT_OK(tx_indexed_create(&b, path, 5000));
        for (int i = 0; i < 10 + d; i++) {
            ASSERT_OK(tx_indexed_add_item(b, ids + i * 40, 40));
            ASSERT_OK(tx_indexed_end_document(b));
        }
        ASSERT_OK(tx_indexed_commit(b));
        tx_indexed_destroy(b);
        tx_gpt_data_opts o = {
            .path = path, .split = "1,0,0", .seq_length = seq_length, .seed = 1, .keyed = true, .vocab_size = 5000
        };
        ASSERT_OK(tx_gpt_data_open(&s->file[d], &o));
        s->ds[d] = (tx_sample_set){ &tx_gpt_samples, tx_gpt_data_split(s->file[d], TX_SPLIT_TRAIN) };
    }
}

static void close_sets(sets *s)
{
    for (int d = 0; d < N_SETS; d++) tx_gpt_data_close(s->file[d]);
}

/* One start of the run: `which` datasets ("02": the first and the third) at those weights, from the saved phase on. */
static json_t *start(tx_blend *b, const sets *s, const char *which, const double *weight, const json_t *saved,
                     int64_t consumed)
{
    tx_sample_set ds[N_SETS];
    json_t *phase;
    int n = (int)strlen(which);
    for (int k = 0; k < n; k++) ds[k] = s->ds[which[k] - '0'];
    if (n == 1)
        ASSERT_OK(tx_blend_of_one(b, ds[0], true));
    else
        ASSERT_OK(tx_blend_build(b, ds, weight, n, 1000, true));
    ASSERT_OK(tx_blend_phase(b, saved, consumed, &phase));
    char *text = json_dumps(phase, 0); /* as a checkpoint does it */
    json_decref(phase);
    phase = json_loads(text, 0, NULL);
    free(text);
    return phase;
}

static void no_sample_comes_twice_and_none_is_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *which;
        double weight[N_SETS];
        int64_t until; /* samples of the run */
    } part[] = {
        { "01", { 3, 7 }, 5000 },
        { "01", { 3, 7 }, 5003 }, /* stopped and gone on */
        { "01", { 5, 5 }, 6000 },
        { "102", { 1, 1, 0.01 }, 9000 },
        { "3", { 1 }, 9500 },
        { "0123", { 1, 2, 3, 4 }, 20000 },
        { "0123", { 1, 2, 3, 4 }, 20001 },
        { "30", { 1, 9 }, TX_BLEND_PERIOD + 30000 },
        { "2", { 1 }, TX_BLEND_PERIOD + 30050 },
    };
    sets s;
    json_t *phase = NULL, *next;
    int64_t seen[N_SETS] = { 0 }, i = 0;
    open_sets(&s, 4);
    for (size_t p = 0; p < sizeof part / sizeof *part; p++) {
        tx_blend b;
        next = start(&b, &s, part[p].which, part[p].weight, phase, i);
        json_decref(phase);
        phase = next;
        int64_t from = i, before = seen[part[p].which[0] - '0'];
        double sum = 0;
        for (int k = 0; k < N_SETS; k++) sum += part[p].weight[k];
        for (; i < part[p].until; i++) {
            int64_t sample;
            int d = part[p].which[tx_blend_find(&b, i, &sample)] - '0';
            if (sample != seen[d]) fail_msg("sample %d: dataset %d gives %d", (int)i, d, (int)sample);
            seen[d]++;
        }
        int64_t got = seen[part[p].which[0] - '0'] - before; /* its share, to a sample or so */
        ASSERT_NEAR((double)got, part[p].weight[0] / sum * (double)(i - from), 5.0, part[p].which);
        tx_blend_free(&b);
    }
    json_decref(phase);
    close_sets(&s);
}

static void going_on_changes_nothing(void **state)
{
    (void)state;
    const double weight[3] = { 0.2, 0.5, 0.3 };
    sets s;
    tx_blend whole, b;
    open_sets(&s, 4);
    json_t *phase = start(&whole, &s, "012", weight, NULL, 0);
    for (int64_t at = 7; at < 3000; at += 501) {
        json_t *again = start(&b, &s, "012", weight, phase, at);
        assert_true(json_equal(again, phase));
        for (int64_t i = at; i < at + 50; i++) {
            int64_t x, y;
            assert_int_equal(tx_blend_find(&whole, i, &x), tx_blend_find(&b, i, &y));
            assert_int_equal(x, y);
        }
        json_decref(again);
        tx_blend_free(&b);
    }
    tx_blend_free(&whole);
    json_decref(phase);
    close_sets(&s);
}

static void another_length_is_another_dataset(void **state)
{
    (void)state;
    const double weight[2] = { 1, 1 };
    sets s, longer;
    tx_blend b;
    open_sets(&s, 4);
    open_sets(&longer, 5);
    json_t *phase = start(&b, &s, "01", weight, NULL, 0);
    tx_blend_free(&b);
    log_begin();
    json_t *next = start(&b, &longer, "01", weight, phase, 100);
    ASSERT_CONTAINS(logged, "dataset 0 of the blend is not known to the checkpoint");
    log_end();
    assert_int_equal(b.from, 100);
    assert_int_equal(b.sample[0], 0);
    assert_int_equal(json_array_size(json_object_get(next, "datasets")), 4); /* the old ones are remembered */
    tx_blend_free(&b);
    json_decref(phase);
    json_decref(next);
    close_sets(&s);
    close_sets(&longer);
}

static void a_damaged_phase_is_refused(void **state)
{
    (void)state;
#define ID "\"id\": \"0123456789abcdef\""
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"from\": 0}",
        "{\"from\": 0, \"datasets\": []}",
        "{\"from\": -1, \"datasets\": [{" ID ", \"weight\": 1.0, \"sample\": 0}]}",
        "{\"from\": 101, \"datasets\": [{" ID ", \"weight\": 1.0, \"sample\": 0}]}",
        "{\"from\": 0, \"datasets\": [{" ID ", \"weight\": 0.5, \"sample\": 0}]}",
        "{\"from\": 0, \"datasets\": [{" ID ", \"weight\": \"1\", \"sample\": 0}]}",
        "{\"from\": 0, \"datasets\": [{" ID ", \"weight\": 1.0, \"sample\": -1}]}",
        "{\"from\": 0, \"datasets\": [{" ID ", \"weight\": 1.0, \"sample\": 9223372036854775807}]}",
        "{\"from\": 0, \"datasets\": [{" ID ", \"sample\": 0}]}",
        "{\"from\": 0, \"datasets\": [{" ID ", \"sample\": 0}, {" ID ", \"weight\": 1.0, \"sample\": 0}]}",
        "{\"from\": 0, \"datasets\": [{\"id\": \"12\", \"weight\": 1.0, \"sample\": 0}]}",
        "{\"from\": 0, \"datasets\": [7]}",
    };
    sets s;
    tx_blend b;
    json_t *out = NULL;
    open_sets(&s, 4);
    ASSERT_OK(tx_blend_of_one(&b, s.ds[0], true));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *j = json_loads(bad[i], 0, NULL);
        assert_non_null(j);
        ASSERT_FAILS(tx_blend_phase(&b, j, 100, &out), TX_ERR_FORMAT, "blend_phase");
        json_decref(j);
    }
    assert_null(out);
    allocation_fails_at(0);
    tx_status st = tx_blend_phase(&b, NULL, 0, &out);
    allocations_succeed();
    assert_int_equal(st, TX_ERR_NOMEM);
    tx_blend_free(&b);
    close_sets(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(no_sample_comes_twice_and_none_is_left_out),
        SCRATCH_TEST(going_on_changes_nothing),
        SCRATCH_TEST(another_length_is_another_dataset),
        SCRATCH_TEST(a_damaged_phase_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
