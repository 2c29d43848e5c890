/* labels: unit golden */
/* The index arrays and the first samples of Megatron's own GPTDataset; how they were stored:
 * tests/data/dataset/README.md. */
#include "data/gpt_dataset.h"
#include "support.h"

static tx_gpt_data_opts tiny_opts(const char *path)
{
    return (tx_gpt_data_opts){ .path = path,
                               .split = "949,50,1",
                               .n_samples = { 64, 48, 16 },
                               .seq_length = 64,
                               .seed = 1234,
                               .vocab_size = 512 };
}

/* The next stored array: its length, then so many numbers. */
static const int32_t *next_array(const int32_t **at, int64_t *n)
{
    const int32_t *a = *at + 1;
    *n = **at;
    *at = a + *n;
    return a;
}

/* The arrays behind a dataset are not public: rebuilt here from the same sizes, and the samples read through it. */
static void assert_split(const tx_gpt_data_opts *o, const tx_gpt_data *d, tx_split k, const int32_t **at)
{
    const tx_gpt_dataset *ds = tx_gpt_data_split(d, k);
    int64_t bound[4], n_doc, n_cut, n_shuffle, n_first;
    tx_indexed ix;
    int32_t sizes[512], tokens[65];
    assert_non_null(ds);
    ASSERT_OK(tx_indexed_open(&ix, o->path));
    ASSERT_OK(tx_split_bounds(bound, o->split, ix.n_items));
    for (int64_t i = bound[k]; i < bound[k + 1]; i++) sizes[i - bound[k]] = tx_indexed_size(&ix, i);
    tx_indexed_close(&ix);
    tx_sample_index x;
    ASSERT_OK(
        tx_sample_index_build(&x, &(tx_sample_index_opts){ .sizes = { sizes, bound[k + 1] - bound[k], TX_INT_I32 },
                                                           .first_doc = bound[k],
                                                           .n_samples = o->n_samples[k],
                                                           .seq_length = o->seq_length,
                                                           .seed = (uint32_t)o->seed,
                                                           .rule = o->rule }));
    const int32_t *doc = next_array(at, &n_doc), *cut = next_array(at, &n_cut), *shuffle = next_array(at, &n_shuffle);
    const int32_t *first = next_array(at, &n_first);
    assert_int_equal(x.doc_idx.n, n_doc);
    assert_int_equal(2 * (x.n_samples + 1), n_cut);
    assert_int_equal(x.n_samples, n_shuffle);
    assert_int_equal(tx_gpt_dataset_len(ds), n_shuffle);
    assert_memory_equal(x.doc_idx.data, doc, (size_t)n_doc * 4);
    for (int64_t i = 0; i <= x.n_samples; i++) {
        assert_int_equal(tx_ints_at(&x.sample_idx, 2 * i), cut[2 * i]);
        assert_int_equal(tx_ints_at(&x.sample_idx, 2 * i + 1), cut[2 * i + 1]);
        if (i < x.n_samples) assert_int_equal(tx_ints_at(&x.shuffle_idx, i), shuffle[i]);
    }
    tx_sample_index_free(&x);
    assert_true(n_first >= 4 * 65);
    for (int64_t i = 0; i < n_first / 65; i++) {
        ASSERT_OK(tx_gpt_dataset_get(ds, tokens, i));
        assert_memory_equal(tokens, first + i * 65, sizeof tokens);
    }
    for (int64_t i = 0; i < n_shuffle; i++) ASSERT_OK(tx_gpt_dataset_get(ds, tokens, i));
}

static void assert_stored(const tx_gpt_data_opts *o, const char *file)
{
    tx_str stored = read_file(data_path(file));
    const int32_t *at = (const int32_t *)(const void *)stored.data;
    tx_gpt_data *d;
    ASSERT_OK(tx_gpt_data_open(&d, o));
    assert_split(o, d, TX_SPLIT_TRAIN, &at);
    assert_split(o, d, TX_SPLIT_VALID, &at);
    assert_ptr_equal(at, stored.data + stored.len);
    assert_null(tx_gpt_data_split(d, TX_SPLIT_TEST));
    tx_gpt_data_close(d);
    tx_str_free(&stored);
}

static void samples_are_megatrons(void **state)
{
    (void)state;
    const char *path = data_path("dataset/tiny_text_document");
    tx_gpt_data_opts o = tiny_opts(path);
    assert_stored(&o, "dataset/one_epoch.i32");
    o.rule = TX_EPOCH_BIGSCIENCE;
    assert_stored(&o, "dataset/one_epoch.i32");

    o.split = "90,10,0"; /* 85 % of the third epoch: apart for one family, among the others for the other */
    o.seed = 7;
    memcpy(o.n_samples, (int64_t[3]){ 14959, 600, 0 }, sizeof o.n_samples);
    assert_stored(&o, "dataset/bigscience_last_epoch.i32");
    o.rule = TX_EPOCH_MICROSOFT;
    assert_stored(&o, "dataset/microsoft_last_epoch.i32");
}

static void a_sample_can_be_traced_to_its_documents(void **state)
{
    (void)state;
    const char *path = data_path("dataset/tiny_text_document");
    tx_gpt_data_opts o = tiny_opts(path);
    tx_gpt_data *d;
    tx_indexed ix;
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    ASSERT_OK(tx_indexed_open(&ix, path));
    const tx_gpt_dataset *train = tx_gpt_data_split(d, TX_SPLIT_TRAIN);
    int several = 0;
    for (int64_t i = 0; i < tx_gpt_dataset_len(train); i++) {
        tx_sample_piece piece[8];
        int32_t tokens[65], same[65];
        int64_t n = tx_gpt_dataset_pieces(train, piece, 8, i), at = 0;
        assert_in_range(n, 1, 8);
        several += n > 1;
        for (int64_t k = 0; k < n; at += piece[k++].n_tokens)
            ASSERT_OK(tx_indexed_get(&ix, same + at, piece[k].item, piece[k].offset, piece[k].n_tokens));
        assert_int_equal(at, 65);
        ASSERT_OK(tx_gpt_dataset_get(train, tokens, i));
        assert_memory_equal(tokens, same, sizeof tokens);
    }
    assert_true(several > 100);
    tx_indexed_close(&ix);
    tx_gpt_data_close(d);
}

/* ---- keyed order ---- */

static void keyed_order_reads_every_sample_once_an_epoch(void **state)
{
    (void)state;
    const char *path = in_scratch("keyed");
    tx_indexed_builder *b;
    tx_gpt_data *d;
    int32_t ids[700], tokens[9];
    int64_t at = 0, epoch, first[2] = { 0 };
    ASSERT_OK(tx_indexed_create(&b, path, 1000));
    for (int i = 0; i < 700; i++) ids[i] = i;
    for (int n = 1; at + n % 23 < 700; at += n++ % 23) { /* an empty one now and then */
        ASSERT_OK(tx_indexed_add_item(b, ids + at, n % 23));
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    tx_gpt_data_opts o = {
        .path = path, .split = "8,2,0", .seq_length = 8, .seed = 5, .keyed = true, .vocab_size = 700
    };
    o.n_samples[TX_SPLIT_TRAIN] = 100;
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    const tx_gpt_dataset *train = tx_gpt_data_split(d, TX_SPLIT_TRAIN), *valid = tx_gpt_data_split(d, TX_SPLIT_VALID);
    int64_t n = tx_gpt_dataset_len(train) / 2, of_valid = at;
    assert_in_range(n, 50, 75);
    assert_int_equal(tx_gpt_dataset_len(train), 2 * n);
    for (epoch = 0; epoch < 4; epoch++) { /* also beyond what was wanted */
        int seen[700] = { 0 };
        int64_t in_order = 0;
        for (int64_t i = 0; i < n; i++) {
            tx_sample_piece piece[9];
            ASSERT_OK(tx_gpt_dataset_get(train, tokens, epoch * n + i));
            assert_int_equal(tokens[0] % 8, 0);
            assert_false(seen[tokens[0]]++);
            in_order += tokens[0] == i * 8;
            for (int k = 0; k < 9; k++) assert_int_equal(tokens[k], tokens[0] + k);
            int64_t n_pieces = tx_gpt_dataset_pieces(train, piece, 9, epoch * n + i), sum = 0;
            for (int64_t k = 0; k < n_pieces; k++) sum += piece[k].n_tokens;
            assert_int_equal(sum, 9);
        }
        assert_in_range(in_order, 0, 10);
        if (epoch < 2) {
            ASSERT_OK(tx_gpt_dataset_get(train, tokens, epoch * n));
            first[epoch] = tokens[0];
        }
    }
    assert_int_not_equal(first[0], first[1]);                 /* each epoch has its own order */
    for (int64_t i = 0; i < tx_gpt_dataset_len(valid); i++) { /* the other documents */
        ASSERT_OK(tx_gpt_dataset_get(valid, tokens, i));
        assert_in_range(tokens[0], n * 8, 699);
        if (tokens[0] < of_valid) of_valid = tokens[0];
    }
    assert_int_equal(n, (of_valid - 1) / 8);
    assert_int_equal(tx_gpt_dataset_len(valid), (at - of_valid - 1) / 8); /* none wanted: one pass */
    uint64_t id = tx_gpt_dataset_id(train);
    assert_true(id != tx_gpt_dataset_id(valid));
    tx_gpt_data_close(d);

    o.n_samples[TX_SPLIT_TRAIN] = 10; /* neither the length of the run nor anything else changes what a sample is */
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    ASSERT_OK(tx_gpt_dataset_get(tx_gpt_data_split(d, TX_SPLIT_TRAIN), tokens, n));
    assert_int_equal(tokens[0], first[1]);
    assert_true(id == tx_gpt_dataset_id(tx_gpt_data_split(d, TX_SPLIT_TRAIN)));
    tx_gpt_data_close(d);
    o.seed = 6;
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    assert_true(id != tx_gpt_dataset_id(tx_gpt_data_split(d, TX_SPLIT_TRAIN)));
    tx_gpt_data_close(d);
    o.seq_length = 690;
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "--data-order microsoft would repeat them");
}

static void a_range_of_documents(void **state)
{
    (void)state;
    tx_gpt_data_opts o = tiny_opts(data_path("dataset/tiny_text_document"));
    tx_gpt_data *d, *whole;
    int32_t a[65], b[65];
    o.split = NULL;
    o.range = "0:0.95"; /* what --split 95,5,0 gives to training */
    o.range_for = TX_SPLIT_VALID;
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    assert_null(tx_gpt_data_split(d, TX_SPLIT_TRAIN));
    tx_gpt_data_opts other = tiny_opts(o.path);
    other.split = "95,5,0";
    ASSERT_OK(tx_gpt_data_open(&whole, &other));
    for (int64_t i = 0; i < 100; i++) {
        ASSERT_OK(tx_gpt_dataset_get(tx_gpt_data_split(d, TX_SPLIT_VALID), a, i));
        ASSERT_OK(tx_gpt_dataset_get(tx_gpt_data_split(whole, TX_SPLIT_TRAIN), b, i));
        assert_memory_equal(a, b, sizeof a);
    }
    tx_gpt_data_close(d);
    tx_gpt_data_close(whole);
    o.range = "0.5:0.501";
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "0.5:0.501 gives none of its 260 documents to valid");
    o.range = "0.5:0.4";
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "is no range");
}

static void logs_megatrons_lines(void **state)
{
    (void)state;
    const char *path = data_path("dataset/tiny_text_document");
    tx_gpt_data_opts o = tiny_opts(path);
    tx_gpt_data *d;
    log_begin();
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    ASSERT_CONTAINS(logged, "\n > building dataset index ...\n > finished creating indexed dataset in ");
    ASSERT_CONTAINS(logged, "\n    number of documents: 260\n > dataset split:\n    train:\n"
                            "     document indices in [0, 247) total of 247 documents\n    validation:\n"
                            "     document indices in [247, 260) total of 13 documents\n    test:\n"
                            "     document indices in [260, 260) total of 0 documents\n");
    ASSERT_CONTAINS(logged, "\n > only one epoch required, setting separate_last_epoch to False\n");
    ASSERT_CONTAINS(logged, "\n     total number of samples:   5544\n");
    ASSERT_CONTAINS(logged, "\n    total number of samples: 5545\n    total number of epochs: 1\n");
    ASSERT_CONTAINS(logged, "\n    total number of samples: 279\n");
    log_end();
    tx_gpt_data_close(d);
}

static void refuses_what_gives_no_samples(void **state)
{
    (void)state;
    tx_gpt_data_opts good = tiny_opts(data_path("dataset/tiny_text_document")), o = good;
    tx_gpt_data *d = NULL;
    o.seq_length = 30000; /* enough for training only: the valid split's tokens come again and again */
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    const tx_gpt_dataset *valid = tx_gpt_data_split(d, TX_SPLIT_VALID);
    assert_true(tx_gpt_dataset_len(valid) >= o.n_samples[TX_SPLIT_VALID]);
    int32_t *tokens = calloc(30001, sizeof *tokens);
    ASSERT_OK(tx_gpt_dataset_get(valid, tokens, 0));
    free(tokens);
    tx_gpt_data_close(d);
    o.n_samples[TX_SPLIT_VALID] = 0; /* nothing wanted, nothing missing */
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    assert_null(tx_gpt_data_split(d, TX_SPLIT_VALID));
    tx_gpt_data_close(d);
    o = good;
    o.split = "0,1,0";
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "none of its 260 documents to training");
    o.split = "rubbish";
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "--split");
    o = good;
    o.seed = -1;
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "--seed");
    o = good;
    o.seq_length = 0;
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_ARG, "--seq-length");
    o = good;
    o.path = "other";
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_NOTFOUND, "Dataset does not exist: other");
}

static void ids_outside_the_vocabulary_are_named(void **state)
{
    (void)state;
    const char *path = data_path("dataset/tiny_text_document");
    tx_gpt_data_opts o = tiny_opts(path);
    tx_gpt_data *d;
    int32_t tokens[65];
    tx_status st = TX_OK;
    o.vocab_size = 511; /* one too few: the EODs */
    ASSERT_OK(tx_gpt_data_open(&d, &o));
    const tx_gpt_dataset *train = tx_gpt_data_split(d, TX_SPLIT_TRAIN);
    for (int64_t i = 0; !st && i < tx_gpt_dataset_len(train); i++) st = tx_gpt_dataset_get(train, tokens, i);
    ASSERT_FAILS(st, TX_ERR_FORMAT, "holds token id 511");
    ASSERT_CONTAINS(tx_last_error(), "document ");
    tx_gpt_data_close(d);
}

static void an_empty_dataset_is_refused(void **state)
{
    (void)state;
    const char *path = in_scratch("empty");
    tx_gpt_data_opts o = tiny_opts(path);
    tx_gpt_data *d;
    tx_indexed_builder *b;
    ASSERT_OK(tx_indexed_create(&b, path, 512));
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    ASSERT_FAILS(tx_gpt_data_open(&d, &o), TX_ERR_FORMAT, "has no token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_megatrons),
        cmocka_unit_test(a_sample_can_be_traced_to_its_documents),
        SCRATCH_TEST(keyed_order_reads_every_sample_once_an_epoch),
        cmocka_unit_test(a_range_of_documents),
        cmocka_unit_test(logs_megatrons_lines),
        cmocka_unit_test(refuses_what_gives_no_samples),
        cmocka_unit_test(ids_outside_the_vocabulary_are_named),
        SCRATCH_TEST(an_empty_dataset_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
