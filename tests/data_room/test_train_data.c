/* labels: unit golden */
/* Blends: Megatron's own blending indices, and the data options from end to end over small datasets. */
#include "bert_sample.h"
#include "data/bert_dataset.h"
#include "data/gpt_dataset.h"
#include "data/sample_documents.h"
#include "data/train_data.h"
#include "support.h"

static void indices_are_megatrons(void **state)
{
    (void)state;
    json_t *all = json_load_file(data_path("dataset/blend_sampler.json"), 0, NULL), *one;
    const char *key;
    int n_cases = 0;
    json_object_foreach(json_object_get(all, "blending"), key, one)
    {
        double weight[TX_BLEND_MAX];
        tx_blend_order order;
        int64_t sample;
        json_error_t err;
        json_t *weights = json_loadb(key, (size_t)(strchr(key, '|') - key), 0, &err);
        json_t *want_set = json_object_get(one, "dataset_index"), *want = json_object_get(one, "dataset_sample_index");
        int n = (int)json_array_size(weights);
        size_t size = json_array_size(want);
        assert_in_range(size, 700, 1000);
        for (int d = 0; d < n; d++) weight[d] = json_number_value(json_array_get(weights, (size_t)d));
        ASSERT_OK(tx_blend_order_build(&order, (int64_t)size, weight, n));
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(tx_blend_order_at(&order, (int64_t)i, &sample),
                             json_integer_value(json_array_get(want_set, i)));
            assert_int_equal(sample, json_integer_value(json_array_get(want, i)));
        }
        tx_blend_order_free(&order);
        json_decref(weights);
        n_cases++;
    }
    assert_int_equal(n_cases, 2);
    json_decref(all);
}

/* Across blocks: a dataset's samples come one by one, and the counts agree. */
static void samples_are_counted_across_blocks(void **state)
{
    (void)state;
    const double weight[3] = { 0.001, 0.333, 0.666 };
    const int64_t n[] = { 1, TX_BLEND_BLOCK - 1, TX_BLEND_BLOCK, TX_BLEND_BLOCK + 1, 3 * TX_BLEND_BLOCK + 5 };
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        tx_blend_order o;
        int64_t seen[3] = { 0 }, sample;
        ASSERT_OK(tx_blend_order_build(&o, n[k], weight, 3));
        for (int64_t i = 0; i < n[k]; i++) {
            assert_int_equal(tx_blend_order_before(&o, i, (int)(i % 3)), seen[i % 3]);
            int set = tx_blend_order_at(&o, i, &sample);
            assert_int_equal(sample, seen[set]++);
        }
        for (int d = 0; d < 3; d++) assert_int_equal(tx_blend_order_before(&o, n[k], d), seen[d]);
        tx_blend_order_free(&o);
    }
}

static void weights_and_requests(void **state)
{
    (void)state;
    double w[3] = { 3, 0, 7 };
    int64_t n;
    ASSERT_OK(tx_blend_normalize(w, 3));
    assert_true(w[0] == 0.3 && w[1] == 0 && w[2] == 0.7);
    ASSERT_OK(tx_blend_request(&n, 1000, 0.3));
    assert_int_equal(n, 302); /* ceil(301.5) */
    ASSERT_OK(tx_blend_request(&n, 0, 0.3));
    assert_int_equal(n, 0);
    ASSERT_FAILS(tx_blend_request(&n, INT64_MAX, 1), TX_ERR_ARG, "cannot be counted");
    ASSERT_FAILS(tx_blend_normalize((double[]){ 1, -1 }, 2), TX_ERR_ARG, "weight -1");
    ASSERT_FAILS(tx_blend_normalize((double[]){ 0, 0 }, 2), TX_ERR_ARG, "above 0");
    ASSERT_FAILS(tx_blend_normalize((double[]){ 1, NAN }, 2), TX_ERR_ARG, "weight nan");
}

/* ---- the options, over two datasets that differ in their ids: 0..99 and 100..199 ---- */

static void make_dataset(const char *name, int first_id, int n_docs)
{
    tx_indexed_builder *b;
    int32_t ids[40];
    ASSERT_OK(tx_indexed_create(&b, in_scratch("%s", name), 512));
    for (int d = 0; d < n_docs; d++) {
        for (int i = 0; i < 40; i++) ids[i] = first_id + (d * 40 + i) % 100;
        ASSERT_OK(tx_indexed_add_item(b, ids, 40));
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
}

static tx_config *config(const char *flags)
{
    tx_config *c;
    char all[4096];
    snprintf(all, sizeof all,
             "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --max-position-embeddings 8 --micro-batch-size 2 "
             "--seq-length 8 --lr 1 --train-iters 10 --tokenizer-type NullTokenizer --vocab-size 511 %s",
             flags);
    ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", all));
    return c;
}

static tx_status open_flags(tx_train_data **data, tx_config **c, const int64_t *n, const char *fmt)
{
    char flags[2048], a[512], b[512];
    make_dataset("a", 0, 20);
    make_dataset("b", 100, 30);
    snprintf(a, sizeof a, "%s", in_scratch("a"));
    snprintf(b, sizeof b, "%s", in_scratch("b"));
    char *at = flags;
    for (const char *f = fmt; *f; f++) {
        if (*f == 'A' || *f == 'B')
            at += sprintf(at, "%s", *f == 'A' ? a : b);
        else
            *at++ = *f;
    }
    *at = 0;
    *c = config(flags);
    return tx_train_data_open(data, *c, n, 512, -1, NULL);
}

static void a_blend_reads_its_datasets(void **state)
{
    (void)state;
    static const uint8_t from[10] = { 1, 0, 1, 1, 0, 1, 1, 0, 1, 1 };
    tx_train_data *d;
    tx_config *c;
    int64_t n[TX_N_SPLITS] = { 1000, 40, 0 };
    int32_t tokens[9], own[9];
    log_begin();
    ASSERT_OK(open_flags(&d, &c, n, "--data-path 3 A 7 B --split 8,2,0"));
    ASSERT_CONTAINS(logged, "\n> building train, validation, and test datasets for GPT ...\n");
    ASSERT_CONTAINS(logged, "\n> building indices for blendable datasets ...\n > sample ratios:\n"
                            "   dataset 0, input: 0.3, achieved: 0.30");
    ASSERT_CONTAINS(logged, "\n> elapsed time for building blendable dataset indices: ");
    ASSERT_CONTAINS(logged, "\n> size of blendable dataset: 1006 samples\n");
    ASSERT_CONTAINS(logged, "\n> finished creating GPT datasets ...\n");
    log_end();
    const tx_blend *train = tx_train_data_split(d, TX_SPLIT_TRAIN), *valid = tx_train_data_split(d, TX_SPLIT_VALID);
    assert_int_equal(train->n_samples, 302 + 704); /* the requests together */
    assert_int_equal(valid->n_samples, 13 + 29);
    assert_null(tx_train_data_split(d, TX_SPLIT_TEST));
    for (int64_t i = 0, seen[2] = { 0 }; i < 10; i++) {
        ASSERT_OK(tx_blend_get(train, NULL, tokens, i));
        assert_int_equal(tokens[0] / 100, from[i]);
        ASSERT_OK(tx_gpt_dataset_get(train->dataset[from[i]].set, own, seen[from[i]]++));
        assert_memory_equal(tokens, own, sizeof own);
    }
    tx_train_data_close(d);
    tx_config_free(c);

    ASSERT_OK(open_flags(&d, &c, n, "--data-path 1.0 A --split 8,2,0")); /* a blend of one */
    assert_int_equal(tx_train_data_split(d, TX_SPLIT_TRAIN)->n_samples, 1005);
    tx_train_data_close(d);
    tx_config_free(c);
}

static void splits_can_be_named_apart(void **state)
{
    (void)state;
    tx_train_data *d;
    tx_config *c;
    int64_t n[TX_N_SPLITS] = { 50, 40, 20 };
    int32_t tokens[9];
    ASSERT_OK(open_flags(&d, &c, n, "--train-data-path B --valid-data-path 0.5 A 0.5 B"));
    const tx_blend *train = tx_train_data_split(d, TX_SPLIT_TRAIN), *valid = tx_train_data_split(d, TX_SPLIT_VALID);
    assert_int_equal(train->n_samples, (30 * 40 - 1) / 8); /* every document, one epoch */
    assert_int_equal(valid->n_samples, 40);                /* as many as were asked for */
    assert_null(tx_train_data_split(d, TX_SPLIT_TEST));
    for (int64_t i = 0; i < 40; i++) {
        ASSERT_OK(tx_blend_get(train, NULL, tokens, i));
        assert_int_equal(tokens[0] / 100, 1);
        ASSERT_OK(tx_blend_get(valid, NULL, tokens, i));
        assert_int_equal(tokens[0] / 100, i % 2);
    }
    tx_train_data_close(d);
    tx_config_free(c);
}

static void the_order_is_chosen(void **state)
{
    (void)state;
    tx_train_data *ms, *bs;
    tx_config *c, *c2;
    int64_t n[TX_N_SPLITS] = { 99 + 85, 0, 0 }; /* 85 % of the second epoch: apart in one family only */
    int32_t x[9], y[9];
    int differ = 0;
    ASSERT_OK(open_flags(&ms, &c, n, "--data-path A --split 1,0,0"));
    ASSERT_OK(open_flags(&bs, &c2, n, "--data-path A --split 1,0,0 --data-order bigscience"));
    for (int64_t i = 0; i < 150; i++) {
        ASSERT_OK(tx_blend_get(tx_train_data_split(ms, TX_SPLIT_TRAIN), NULL, x, i));
        ASSERT_OK(tx_blend_get(tx_train_data_split(bs, TX_SPLIT_TRAIN), NULL, y, i));
        differ += memcmp(x, y, sizeof x) != 0;
    }
    assert_true(differ > 50);
    tx_train_data_close(ms);
    tx_train_data_close(bs);
    tx_config_free(c);
    tx_config_free(c2);
}

static void refuses_what_it_cannot_blend(void **state)
{
    (void)state;
    tx_train_data *d;
    tx_config *c;
    int64_t n[TX_N_SPLITS] = { 50, 40, 0 };
    ASSERT_FAILS(open_flags(&d, &c, n, "--data-path 1 A 1 nothere"), TX_ERR_NOTFOUND, "nothere");
    ASSERT_FAILS(tx_train_data_exists(c), TX_ERR_NOTFOUND, "Dataset does not exist: nothere");
    tx_config_free(c);
    /* 2.4 % of 20 documents are none, of 30 one */
    ASSERT_FAILS(open_flags(&d, &c, n, "--data-path 1 A 1 B --split 976,24,0"), TX_ERR_ARG,
                 "has no document for the valid split");
    tx_config_free(c);
}

static void survives_every_failing_allocation(const char *flags)
{
    tx_train_data *d;
    tx_config *c;
    int64_t n[TX_N_SPLITS] = { 50, 40, 10 };
    ASSERT_OK(open_flags(&d, &c, n, flags));
    tx_train_data_close(d);
    tx_status st = TX_ERR_NOMEM;
    int64_t failed = 0;
    for (; st; failed++) {
        d = NULL;
        allocation_fails_at(failed);
        st = tx_train_data_open(&d, c, n, 512, -1, NULL);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(!st == (d != NULL));
    }
    assert_true(failed > 20);
    tx_train_data_close(d);
    tx_config_free(c);
}

static void out_of_memory(void **state)
{
    (void)state;
    survives_every_failing_allocation("--data-path 1 A 1 B --split 8,1,1");
}

static void out_of_memory_keyed(void **state)
{
    (void)state;
    survives_every_failing_allocation(
        "--train-data-path 1 A 1 B --valid-data-path A --test-data-path B --data-order keyed");
}

/* The same groups of datasets, of BERT: a blend to train on and two groups to validate on. */
/* A row of a batch is the sample that its dataset gives, and comes of the document that its sentences lie in. */
static void assert_bert_rows(const tx_blend *b)
{
    enum { S = 64, ROW = 3 * S + 2 };
    tx_bert_sample used, own;
    used = sample_in((int32_t[6 *S]){ 0 }, S);
    own = sample_in((int32_t[6 *S]){ 0 }, S);
    for (int64_t i = 0, at; i < 20; i++) {
        int32_t row[ROW + 1] = { [ROW] = -7 };
        const tx_bert_dataset *ds = b->dataset[tx_blend_find(b, i, &at)].set;
        char say[1024];
        tx_str said = { 0 };
        ASSERT_OK(tx_blend_get(b, used.scratch, row, i));
        ASSERT_OK(tx_bert_dataset_get(ds, &own, at));
        assert_memory_equal(row, own.tokens, S * sizeof *row);
        assert_memory_equal(row + S, own.types, S * sizeof *row);
        assert_memory_equal(row + 2 * S, own.labels, S * sizeof *row);
        assert_int_equal(row[3 * S], own.n_tokens);
        assert_int_equal(row[3 * S + 1], own.is_random);
        assert_int_equal(row[ROW], -7);
        const tx_indexed *file = tx_bert_dataset_file(ds);
        snprintf(say, sizeof say, "document %lld of %s",
                 (long long)tx_indexed_doc_of(file, tx_bert_dataset_row(ds, at).first), file->prefix);
        ASSERT_OK(tx_sample_documents(&said, b, &i, 1));
        assert_string_equal(said.data, say);
        tx_str_free(&said);
    }
}

static void a_blend_of_bert(void **state)
{
    (void)state;
    char flags[4096];
    const char *d = data_path("dataset/tinybert_text_document"), *vocab = data_path("tiny/tiny-bert-vocab.txt");
    int64_t n[TX_N_SPLITS] = { 50, 20, 0 }, sample, failed = 0;
    tx_config *c;
    tx_tokenizer *tok;
    tx_train_data *data = NULL;
    tx_status st = TX_ERR_NOMEM;
    snprintf(flags, sizeof flags, "\"T: 1 0:0.5 %s, 3 0.5:0.9 %s\"\n", d, d);
    write_text(in_scratch("train"), flags);
    snprintf(flags, sizeof flags, "\"V: 1 0.9:0.95 %s\" \"W: 1 0.95:1 %s\"\n", d, d);
    write_text(in_scratch("valid"), flags);
    snprintf(
        flags, sizeof flags,
        "--model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file %s --seq-length 64 --train-iters 5 "
        "--micro-batch-size 10 --train-weighted-split-paths-path %s --valid-weighted-split-paths-path %s",
        vocab, in_scratch("train"), in_scratch("valid"));
    ASSERT_OK(tx_config_parse_string(&c, "inspect-samples", flags));
    ASSERT_OK(tx_tokenizer_open_wordpiece(&tok, vocab, true));
    for (; st; failed++) {
        allocation_fails_at(failed);
        st = tx_train_data_open(&data, c, n, 0, -1, tok);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(!st == (data != NULL));
    }
    assert_true(failed > 20);
    const tx_blend *train = tx_train_data_split(data, TX_SPLIT_TRAIN);
    assert_int_equal(train->n_datasets, 2);
    for (int64_t i = 0; i < 20; i++) {
        int k = tx_blend_find(train, i, &sample);
        const tx_bert_dataset *ds = train->dataset[k].set;
        int64_t doc = tx_indexed_doc_of(tx_bert_dataset_file(ds), tx_bert_dataset_row(ds, sample).first);
        assert_int_equal(k, 2 * doc >= tx_bert_dataset_file(ds)->n_docs);
    }
    assert_bert_rows(train);
    assert_int_equal(tx_train_data_groups(data, TX_SPLIT_VALID), 2);
    assert_int_equal(tx_train_data_groups(data, TX_SPLIT_TEST), 0);
    tx_train_data_close(data);
    tx_tokenizer_close(tok);
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_are_megatrons),    cmocka_unit_test(samples_are_counted_across_blocks),
        cmocka_unit_test(weights_and_requests),     SCRATCH_TEST(a_blend_reads_its_datasets),
        SCRATCH_TEST(splits_can_be_named_apart),    SCRATCH_TEST(the_order_is_chosen),
        SCRATCH_TEST(refuses_what_it_cannot_blend), SCRATCH_TEST(out_of_memory),
        SCRATCH_TEST(out_of_memory_keyed),          SCRATCH_TEST(a_blend_of_bert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
