/* labels: golden unit */
/* Batches that are drawn by difficulty: DeepSpeed's own, of 10000 steps and 20 configurations; again after a jump back;
 * what is refused. The files of the metrics are written here, as test_metric_index proves that they are DeepSpeed's. */
#include "support.h"

#include "data/draws.h"
#include "data/metric_index.h"
#include "metric_files.h"

enum { STEPS = 10000, FLAGS_MAX = 16384 };

/* The options of DeepSpeed's own section.   @folder of clusters, or NULL */
static tx_config *config_of(const char *metrics, int64_t batch, int64_t seed, const char *folder)
{
    static char text[FLAGS_MAX];
    tx_config *cfg;
    snprintf(text, sizeof text,
             "{\"data_efficiency\": {\"enabled\": true, \"seed\": %lld, \"data_sampling\": {\"enabled\": true, "
             "\"curriculum_learning\": {\"enabled\": true, %s%s%s \"curriculum_metrics\": %s}}}}",
             (long long)seed, folder ? "\"data_cluster_path\": \"" : "", folder ? folder : "", folder ? "\"," : "",
             metrics);
    write_text(in_scratch("ds.json"), text);
    snprintf(text, sizeof text,
             "--num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 2048 --max-position-embeddings 2048 "
             "--micro-batch-size 1 --global-batch-size %lld --train-iters 1 --lr 1e-3 --data-path none "
             "--tokenizer-type NullTokenizer --vocab-size 10 --deepspeed_config %s",
             (long long)batch, in_scratch("ds.json"));
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", text));
    return cfg;
}

/* The case's metrics, with the paths of files that are written for those by which samples are drawn. */
static char *metrics_of(const json_t *c)
{
    json_t *all = json_object(), *m;
    const char *name;
    int64_t n = json_integer_value(json_object_get(c, "samples"));
    json_object_foreach(json_object_get(c, "metrics"), name, m)
    {
        const json_t *values = json_object_get(m, "values");
        char path[512], file[600];
        formula f = { 0 };
        json_t *with = json_deep_copy(m);
        json_object_set_new(all, name, with);
        json_object_del(with, "values");
        json_object_del(with, "merged");
        if (!json_array_size(values)) continue;
        for (size_t i = 0; i < 4; i++) f.is[i] = json_integer_value(json_array_get(values, i));
        snprintf(path, sizeof path, "%s", in_scratch("%s", name));
        write_metric(path, n, value_by_formula, &f);
        bool merged = json_is_true(json_object_get(m, "merged"));
        snprintf(file, sizeof file, "%s_index_to_sample%s", path, merged ? "_percentile_merged" : "");
        json_object_set_new(with, "index_to_sample_path", json_string(file));
        snprintf(file, sizeof file, "%s_index_to_metric", path);
        json_object_set_new(with, "index_to_metric_path", json_string(file));
    }
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static const char *clusters_here(void)
{
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", in_scratch("clusters/here"));
    return folder;
}

static void check_case(const json_t *c, size_t at)
{
    char *metrics = metrics_of(c);
    int64_t n = json_integer_value(json_object_get(c, "samples")),
            size = json_integer_value(json_object_get(c, "batch"));
    tx_config *cfg =
        config_of(metrics, size, json_integer_value(json_object_get(c, "seed")), at % 2 ? NULL : clusters_here());
    const json_t *clusters = json_object_get(c, "clusters");
    tx_draws *d;
    uint64_t sum = 0;
    size_t made = 0;
    ASSERT_OK(tx_draws_open(&d, cfg, n, "data"));
    for (int64_t step = 1; step <= STEPS; step++) {
        const uint32_t *batch;
        ASSERT_OK(tx_draws_batch(d, &batch, step));
        for (; made < (size_t)tx_draws_clusters(d); made++) {
            const json_t *want = json_array_get(clusters, made);
            if (step != json_integer_value(json_array_get(want, 0)))
                fail_msg("case %zu: cluster %zu is made in step %lld", at, made, (long long)step);
            assert_int_equal(tx_draws_cluster_size(d, (int)made), json_integer_value(json_array_get(want, 1)));
        }
        for (int64_t j = 0; j < size; j++) {
            const json_t *first = json_array_get(json_object_get(c, "first"), (size_t)step - 1);
            if (first) assert_int_equal(batch[j], json_integer_value(json_array_get(first, (size_t)j)));
            sum = sum * 1099511628211u + batch[j] + 1;
        }
        if (step % 1000) continue;
        char text[32];
        snprintf(text, sizeof text, "%016llx", (unsigned long long)sum);
        const char *want = json_string_value(json_array_get(json_object_get(c, "sums"), (size_t)step / 1000 - 1));
        if (strcmp(text, want) != 0) fail_msg("case %zu, step %lld: %s, not %s", at, (long long)step, text, want);
    }
    assert_int_equal(made, json_array_size(clusters));
    tx_draws_close(d);
    tx_config_free(cfg);
    free(metrics);
}

static void batches_are_deepspeeds(void **state)
{
    (void)state;
    json_t *cases = load_json(data_path("golden/sampling/result.json")), *c;
    size_t i;
    json_array_foreach(cases, i, c) check_case(c, i);
    assert_int_equal(i, 20);
    json_decref(cases);
}

#define ONE                                                                                                       \
    "{\"m\":{\"difficulty_type\":\"value\",\"clustering_type\":\"schedule_based\",\"index_to_sample_path\":\"%s_" \
    "index_to_sample\",\"index_to_metric_path\":\"%s_index_to_metric\",\"min_difficulty\":%d,"                    \
    "\"max_difficulty\":%d,\"schedule_type\":\"fixed_linear\",\"schedule_config\":{"                              \
    "\"total_curriculum_step\":40,\"difficulty_step\":1}}}"

static tx_draws *open_one(tx_config **cfg, int64_t n, int min, int max)
{
    char text[FLAGS_MAX / 2], path[512];
    formula f = { { 0, 7, 3, 50 } };
    tx_draws *d;
    snprintf(path, sizeof path, "%s", in_scratch("m"));
    write_metric(path, n, value_by_formula, &f);
    snprintf(text, sizeof text, ONE, path, path, min, max);
    *cfg = config_of(text, 6, 1, NULL);
    ASSERT_OK(tx_draws_open(&d, *cfg, n, "data"));
    return d;
}

/* A batch is a function of its iteration, whichever was asked for before. */
static void a_batch_follows_from_its_iteration(void **state)
{
    (void)state;
    enum { N = 60, B = 6 };
    static const int64_t jumps[] = { 60, 3, 3, 41, 40, 1, 59, 60 };
    static uint32_t all[N + 1][B];
    tx_config *cfg;
    tx_draws *d = open_one(&cfg, 100, 10, 49);
    const uint32_t *batch;
    for (int64_t i = 1; i <= N; i++) {
        ASSERT_OK(tx_draws_batch(d, &batch, i));
        memcpy(all[i], batch, sizeof all[i]);
    }
    for (size_t k = 0; k < sizeof jumps / sizeof *jumps; k++) {
        ASSERT_OK(tx_draws_batch(d, &batch, jumps[k]));
        assert_memory_equal(batch, all[jumps[k]], sizeof all[0]);
    }
    tx_draws_close(d);
    tx_config_free(cfg);
}

/* Two samples in a cluster, and six in a batch: it comes again as often as it must. */
static void small_clusters_fill_a_batch(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_draws *d = open_one(&cfg, 50, 1, 1);
    const uint32_t *batch;
    int64_t came[50] = { 0 };
    for (int64_t i = 1; i <= 10; i++) {
        ASSERT_OK(tx_draws_batch(d, &batch, i));
        for (int j = 0; j < 6; j++) came[batch[j]]++;
    }
    assert_int_equal(tx_draws_cluster_size(d, 0), 2); /* of values 0 and 1 */
    int n = 0;
    for (int i = 0; i < 50; i++) n += came[i] == 30;
    assert_int_equal(n, 2);
    tx_draws_close(d);
    tx_config_free(cfg);
}

static void opening_may_run_out_of_memory(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_draws *d = open_one(&cfg, 50, 1, 1);
    tx_draws_close(d);
    for (int64_t n = 0;; n++) {
        allocation_fails_at(n);
        tx_status st = tx_draws_open(&d, cfg, 50, "data");
        allocations_succeed();
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(n < 100);
    }
    tx_draws_close(d);
    tx_config_free(cfg);
}

static void what_cannot_be_drawn_from_is_refused(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_draws *d = open_one(&cfg, 50, 1, 1);
    char text[FLAGS_MAX / 2], path[512];
    const uint32_t *batch;
    tx_draws_close(d);
    ASSERT_FAILS(
        tx_draws_open(&d, cfg, 49, "my_data"), TX_ERR_ARG,
        "m_index_to_sample: is of 50 samples, and my_data has 49: repeat triax analyze-data with this run's data");
    cfg->data_sampling_num_epochs = 2;
    cfg->train_iters = 17;
    ASSERT_FAILS(tx_draws_open(&d, cfg, 50, "my_data"), TX_ERR_ARG,
                 "--data-sampling-num-epochs 2 of 50 samples end before 17 iterations of 6: raise it");
    tx_config_free(cfg);
    formula f = { { 5, 7, 3, 50 } };
    snprintf(path, sizeof path, "%s", in_scratch("m"));
    write_metric(path, 50, value_by_formula, &f);
    snprintf(text, sizeof text, ONE, path, path, 4, 9);
    cfg = config_of(text, 6, 1, NULL);
    ASSERT_OK(tx_draws_open(&d, cfg, 50, "my_data"));
    ASSERT_FAILS(
        tx_draws_batch(d, &batch, 1), TX_ERR_ARG,
        "--curriculum-metrics: no sample is easy enough for iteration 1: of m the difficulty is 4; begin with a "
        "higher min_difficulty");
    tx_draws_close(d);
    tx_config_free(cfg);
    snprintf(text, sizeof text, ONE, path, "/no/such/file", 4, 9);
    cfg = config_of(text, 6, 1, NULL);
    ASSERT_FAILS(
        tx_draws_open(&d, cfg, 50, "my_data"), TX_ERR_NOTFOUND,
        "/no/such/file_index_to_metric.idx: no such file; give what triax analyze-data has written, without .bin "
        "and .idx");
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(batches_are_deepspeeds),
        SCRATCH_TEST(a_batch_follows_from_its_iteration),
        SCRATCH_TEST(small_clusters_fill_a_batch),
        SCRATCH_TEST(opening_may_run_out_of_memory),
        SCRATCH_TEST(what_cannot_be_drawn_from_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
