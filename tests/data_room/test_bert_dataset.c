/* labels: unit golden */
/* The mapping and the first samples of Megatron's own BertDataset; how they were stored: tests/data/dataset/README.md.
 */
#include "bert_sample.h"
#include "data/bert_dataset.h"
#include "support.h"

enum { S = 64 };

static tx_tokenizer *tok;

static int open_tokenizer(void **state)
{
    (void)state;
    return tx_tokenizer_open_wordpiece(&tok, data_path("tiny/tiny-bert-vocab.txt"), true) ? -1 : 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tx_tokenizer_close(tok);
    return 0;
}

static tx_bert_data_opts tiny_opts(void)
{
    return (tx_bert_data_opts){ .path = data_path("dataset/tinybert_text_document"),
                                .split = "949,50,1",
                                .n_samples = { 64, 48, 16 },
                                .seq_length = S,
                                .seed = 1234,
                                .tok = tok,
                                .mask_prob = 0.15,
                                .short_seq_prob = 0.1,
                                .max_ngrams = 3,
                                .binary_head = true };
}

/* The next stored array: its length, then so many numbers. */
static const int32_t *next_array(const int32_t **at, int64_t *n)
{
    const int32_t *a = *at + 1;
    *n = **at;
    *at = a + *n;
    return a;
}

static void assert_split(const tx_bert_data *d, tx_split k, const int32_t **at, int64_t n_stored)
{
    const tx_bert_dataset *ds = tx_bert_data_split(d, k);
    tx_bert_sample s;
    int64_t n_map, n;
    const int32_t *map = next_array(at, &n_map), *text = next_array(at, &n), *types = next_array(at, &n);
    const int32_t *labels = next_array(at, &n), *is_random = next_array(at, &n), *loss_mask = next_array(at, &n);
    const int32_t *padding_mask = next_array(at, &n), *truncated = next_array(at, &n);
    assert_int_equal(n, n_stored);
    assert_non_null(ds);
    assert_int_equal(3 * tx_bert_dataset_len(ds), n_map);
    for (int64_t i = 0; i < n_map / 3; i++) {
        tx_bert_row row = tx_bert_dataset_row(ds, i);
        assert_int_equal(row.first, map[3 * i]);
        assert_int_equal(row.first + row.n_sentences, map[3 * i + 1]);
        assert_int_equal(row.target, map[3 * i + 2]);
    }
    s = sample_in((int32_t[6 *S]){ 0 }, S);
    for (int64_t i = 0; i < n_stored; i++) {
        ASSERT_OK(tx_bert_dataset_get(ds, &s, i));
        assert_memory_equal(s.tokens, text + i * S, S * sizeof *text);
        assert_memory_equal(s.types, types + i * S, S * sizeof *types);
        assert_memory_equal(s.labels, labels + i * S, S * sizeof *labels);
        assert_int_equal(s.is_random, is_random[i]);
        assert_int_equal(s.truncated, truncated[i]);
        for (int32_t p = 0; p < S; p++) {
            assert_int_equal(s.labels[p] >= 0, loss_mask[i * S + p]);
            assert_int_equal(p < s.n_tokens, padding_mask[i * S + p]);
        }
    }
}

static void samples_are_megatrons(void **state)
{
    (void)state;
    tx_str stored = read_file(data_path("dataset/bert_s64.i32"));
    const int32_t *at = (const int32_t *)(const void *)stored.data;
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *d;
    ASSERT_OK(tx_bert_data_open(&d, &o));
    assert_split(d, TX_SPLIT_TRAIN, &at, 64);
    assert_split(d, TX_SPLIT_VALID, &at, 8);
    assert_ptr_equal(at, stored.data + stored.len);
    assert_null(tx_bert_data_split(d, TX_SPLIT_TEST));
    tx_bert_data_close(d);
    tx_str_free(&stored);
}

/* Each way of masking that Megatron knows beside the usual one, by its own function. */
static void masks_are_megatrons(void **state)
{
    (void)state;
    static const struct {
        bool always_masked;
        int max_ngrams;
        double mask_prob;
    } way[] = { { true, 3, 0.15 }, { false, 1, 0.15 }, { true, 10, 0.5 } };
    enum { N = 24 };
    tx_str stored = read_file(data_path("dataset/bert_mask_types.i32"));
    const int32_t *at = (const int32_t *)(const void *)stored.data;
    tx_bert_sample s;
    assert_int_equal(stored.len, 3 * N * 2 * S * sizeof *at);
    s = sample_in((int32_t[6 *S]){ 0 }, S);
    for (size_t w = 0; w < sizeof way / sizeof *way; w++) {
        tx_bert_data_opts o = tiny_opts();
        tx_bert_data *d;
        o.always_masked = way[w].always_masked;
        o.max_ngrams = way[w].max_ngrams;
        o.mask_prob = way[w].mask_prob;
        ASSERT_OK(tx_bert_data_open(&d, &o));
        for (int64_t i = 0; i < N; i++, at += 2 * S) {
            ASSERT_OK(tx_bert_dataset_get(tx_bert_data_split(d, TX_SPLIT_TRAIN), &s, i));
            assert_memory_equal(s.tokens, at, S * sizeof *at);
            assert_memory_equal(s.labels, at + S, S * sizeof *at);
        }
        tx_bert_data_close(d);
    }
    tx_str_free(&stored);
}

/* A dataset in the scratch folder: sizes of sentences, 0 ends a document, -1 is an empty sentence; ids are 10 and on.
 */
static const char *make_dataset(const char *name, const int *size)
{
    const char *path = in_scratch("%s", name);
    tx_indexed_builder *b;
    int32_t ids[1000];
    for (int i = 0; i < 1000; i++) ids[i] = 10 + i % 900;
    ASSERT_OK(tx_indexed_create(&b, path, 1002));
    for (; *size; size++) {
        for (; *size; size++) ASSERT_OK(tx_indexed_add_item(b, ids, *size < 0 ? 0 : *size));
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    return path;
}

/* Rows as Megatron saves them: columns of 4 or 8 bytes. */
static const char *save_rows(const int32_t *v, int64_t n_rows, int bytes)
{
    tx_str f = { 0 };
    char header[256];
    int n = snprintf(header, sizeof header, "{'descr': '<u%d', 'fortran_order': False, 'shape': (%lld, 3), }\n", bytes,
                     (long long)n_rows);
    ASSERT_OK(tx_str_append(&f, "\x93NUMPY\1\0", 8));
    ASSERT_OK(tx_str_append(&f, (const char[]){ (char)n, 0 }, 2));
    ASSERT_OK(tx_str_append(&f, header, (size_t)n));
    for (int64_t i = 0; i < 3 * n_rows; i++) ASSERT_OK(tx_str_append(&f, &(int64_t){ v[i] }, (size_t)bytes));
    const char *path = write_file(in_scratch("rows.npy"), f.data, f.len);
    tx_str_free(&f);
    return path;
}

/* Megatron's rows of training, from a file: the same samples, and nothing that does not fit the dataset. */
static void rows_of_a_file(void **state)
{
    (void)state;
    tx_str stored = read_file(data_path("dataset/bert_s64.i32"));
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *d;
    const int32_t *at = (const int32_t *)(const void *)stored.data;
    int64_t n;
    int32_t *row = (int32_t *)(uintptr_t)next_array(&at, &n); /* in memory of our own */
    n /= 3;
    for (int bytes = 4; bytes <= 8; bytes += 4) {
        o.index_path = save_rows(row, n, bytes);
        o.seed = 5; /* would be another order */
        ASSERT_OK(tx_bert_data_open(&d, &o));
        const tx_bert_dataset *ds = tx_bert_data_split(d, TX_SPLIT_TRAIN);
        assert_int_equal(tx_bert_dataset_len(ds), n);
        for (int64_t i = 0; i < n; i++) {
            tx_bert_row r = tx_bert_dataset_row(ds, i);
            assert_int_equal(r.first, row[3 * i]);
            assert_int_equal(r.first + r.n_sentences, row[3 * i + 1]);
            assert_int_equal(r.target, row[3 * i + 2]);
        }
        tx_bert_data_close(d);
    }
    o.n_samples[0] = n + 1;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "samples, the run needs");
    o.n_samples[0] = 64;
    static const struct {
        int column;
        int32_t value;
        const char *say;
    } bad[] = { { 0, -1, "has sentences" }, { 0, 1 << 30, "has sentences" }, { 1, 1 << 30, "has sentences" },
                { 1, 0, "has sentences" },  { 2, 62, "has 62 tokens" },      { 2, 1, "has 1 tokens" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int32_t good = row[3 + bad[i].column];
        row[3 + bad[i].column] = bad[i].value;
        o.index_path = save_rows(row, n, 4);
        row[3 + bad[i].column] = good;
        ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_FORMAT, bad[i].say);
        ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_FORMAT, "rows.npy: row 1 ");
    }
    row[0] = 0, row[1] = 400; /* sentences of many documents */
    o.index_path = save_rows(row, n, 4);
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_FORMAT, "row 0 goes over the end of document 0");
    tx_str_free(&stored);
}

static void documents_without_pairs_are_left_out(void **state)
{
    (void)state;
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *d;
    o.path = make_dataset("d", (const int[]){ 20, 0, 30, 513, 9, 0, 5, 6, 0, 10, 20, 30, 8, 40, 7, 0, 0 });
    o.split = "1,0,0";
    o.short_seq_prob = 0;
    log_begin();
    ASSERT_OK(tx_bert_data_open(&d, &o));
    ASSERT_CONTAINS(logged, "\n   number of empty documents: 0\n   number of documents with one sentence: 1\n"
                            "   number of documents with long sentences: 1\n   will create mapping for 66 samples\n");
    ASSERT_CONTAINS(logged, "\n    number of documents: 4\n    number of sentences: 12\n");
    ASSERT_CONTAINS(logged, "\n     sentence indices in [0, 12) total of 12 sentences\n");
    log_end();
    const tx_bert_dataset *ds = tx_bert_data_split(d, TX_SPLIT_TRAIN);
    int seen[3] = { 0 }; /* the pair; 10+20+30 and 8+40+7 at a target of 61: 68 by the fourth, and the rest */
    assert_int_equal(tx_bert_dataset_len(ds), 66);
    for (int64_t i = 0; i < 66; i++) {
        tx_bert_row row = tx_bert_dataset_row(ds, i);
        assert_int_equal(row.target, 61);
        seen[0] += row.first == 4 && row.n_sentences == 2;
        seen[1] += row.first == 6 && row.n_sentences == 4;
        seen[2] += row.first == 10 && row.n_sentences == 2;
    }
    for (int k = 0; k < 3; k++) assert_int_equal(seen[k], 22);
    tx_bert_data_close(d);

    o.binary_head = false; /* then the lone sentence counts as well */
    ASSERT_OK(tx_bert_data_open(&d, &o));
    assert_int_equal(tx_bert_dataset_len(tx_bert_data_split(d, TX_SPLIT_TRAIN)), 64);
    tx_bert_data_close(d);
}

static void without_a_head_there_is_one_segment(void **state)
{
    (void)state;
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *d;
    tx_bert_sample s;
    int masked = 0, tokens = 0;
    o.binary_head = false;
    ASSERT_OK(tx_bert_data_open(&d, &o));
    s = sample_in((int32_t[6 *S]){ 0 }, S);
    const tx_bert_dataset *ds = tx_bert_data_split(d, TX_SPLIT_TRAIN);
    for (int64_t i = 0; i < tx_bert_dataset_len(ds); i++) {
        int n_masked = 0;
        ASSERT_OK(tx_bert_dataset_get(ds, &s, i));
        assert_false(s.is_random);
        assert_in_range(s.n_tokens, 3, S - 1);
        assert_int_equal(s.tokens[s.n_tokens - 1], tx_tokenizer_special(tok, "[SEP]"));
        for (int32_t p = 0; p < S; p++) {
            assert_int_equal(s.types[p], 0);
            if (p >= s.n_tokens) assert_int_equal(s.tokens[p], 0);
            n_masked += s.labels[p] >= 0;
        }
        assert_true(n_masked <= 0.15 * tx_bert_dataset_row(ds, i).target);
        masked += n_masked;
        tokens += s.n_tokens;
    }
    assert_true(masked > tokens * 0.12);
    tx_bert_data_close(d);

    o.mask_prob = 0;
    ASSERT_OK(tx_bert_data_open(&d, &o));
    ASSERT_OK(tx_bert_dataset_get(tx_bert_data_split(d, TX_SPLIT_TRAIN), &s, 5));
    for (int32_t p = 0; p < S; p++) assert_int_equal(s.labels[p], -1);
    tx_bert_data_close(d);
}

/* The first id of a document may be a piece "##..." without a word, [CLS] may stand in the text. */
static void masks_whatever_lies_in_the_file(void **state)
{
    (void)state;
    tx_bert_data_opts o = tiny_opts();
    const char *path = in_scratch("odd");
    tx_indexed_builder *b;
    tx_bert_data *d;
    tx_bert_sample s;
    tx_ids ids = { 0 };
    int32_t odd[8] = { 0, 2, 3, 4, 1001, 2, 3, 3 };
    ASSERT_OK(tx_tokenizer_encode(tok, "qqxzj", 5, &ids));
    assert_true(ids.n > 2);
    ASSERT_OK(tx_indexed_create(&b, path, 1002));
    ASSERT_OK(tx_indexed_add_item(b, ids.id + 1, (int64_t)ids.n - 1));
    ASSERT_OK(tx_indexed_add_item(b, ids.id + 1, (int64_t)ids.n - 1));
    ASSERT_OK(tx_indexed_end_document(b));
    ASSERT_OK(tx_indexed_add_item(b, odd + 1, 2)); /* nothing to mask */
    ASSERT_OK(tx_indexed_add_item(b, odd + 5, 2));
    ASSERT_OK(tx_indexed_end_document(b));
    ASSERT_OK(tx_indexed_add_item(b, odd, 8));
    ASSERT_OK(tx_indexed_add_item(b, odd, 8));
    ASSERT_OK(tx_indexed_end_document(b));
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    o.path = path;
    o.split = "1,0,0";
    o.mask_prob = 1;
    o.short_seq_prob = 1;
    ASSERT_OK(tx_bert_data_open(&d, &o));
    s = sample_in((int32_t[6 *S]){ 0 }, S);
    for (int64_t i = 0; i < tx_bert_dataset_len(tx_bert_data_split(d, TX_SPLIT_TRAIN)); i++)
        ASSERT_OK(tx_bert_dataset_get(tx_bert_data_split(d, TX_SPLIT_TRAIN), &s, i));
    tx_bert_data_close(d);
    tx_ids_free(&ids);
}

static void refuses_what_gives_no_samples(void **state)
{
    (void)state;
    tx_bert_data_opts good = tiny_opts(), o = good;
    tx_bert_data *d = NULL;
    tx_tokenizer *numbers;
    o.path = data_path("dataset/tiny_text_document"); /* a document is one item */
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "247 of one sentence");
    ASSERT_CONTAINS(tx_last_error(), "--split-sentences");
    memset(o.n_samples, 0, sizeof o.n_samples);
    ASSERT_OK(tx_bert_data_open(&d, &o)); /* nothing wanted, nothing missing */
    assert_null(tx_bert_data_split(d, TX_SPLIT_TRAIN));
    tx_bert_data_close(d);
    o = good;
    o.split = "0,1,0";
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "to training");
    o = good;
    o.seq_length = 4;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "--seq-length 4: must be 5 to");
    o = good;
    o.seed = (int64_t)1 << 31;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "--seed 2147483648");
    o = good;
    o.mask_prob = NAN;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "--mask-prob");
    o = good;
    o.short_seq_prob = 2;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "--short-seq-prob 2");
    o = good;
    o.max_ngrams = 11;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "--bert-max-ngrams 11: must be 1 to 10");
    o = good;
    o.n_samples[0] = (int64_t)1 << 40;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_UNSUPPORTED, "at most");
    o = good;
    ASSERT_OK(tx_tokenizer_open_null(&numbers, 1000));
    o.tok = numbers;
    ASSERT_FAILS(tx_bert_data_open(&d, &o), TX_ERR_ARG, "BERT needs --tokenizer-type");
    tx_tokenizer_close(numbers);
}

/* Documents by range instead of --split: those of one split only. */
static void a_range_is_one_splits(void **state)
{
    (void)state;
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *split, *range;
    ASSERT_OK(tx_bert_data_open(&split, &o));
    o.split = NULL;
    o.range = "0:0.949";
    o.range_for = TX_SPLIT_VALID;
    o.n_samples[TX_SPLIT_VALID] = 64;
    ASSERT_OK(tx_bert_data_open(&range, &o));
    assert_null(tx_bert_data_split(range, TX_SPLIT_TRAIN));
    assert_null(tx_bert_data_split(range, TX_SPLIT_TEST));
    const tx_bert_dataset *a = tx_bert_data_split(split, TX_SPLIT_TRAIN),
                          *b = tx_bert_data_split(range, TX_SPLIT_VALID);
    assert_int_equal(tx_bert_dataset_len(a), tx_bert_dataset_len(b));
    for (int64_t i = 0; i < tx_bert_dataset_len(a); i++)
        assert_int_equal(tx_bert_dataset_row(a, i).first, tx_bert_dataset_row(b, i).first);
    tx_bert_data_close(split);
    tx_bert_data_close(range);
    o.range = "0.999:1";
    ASSERT_FAILS(tx_bert_data_open(&range, &o), TX_ERR_ARG, "0.999:1 gives none of its");
    o.range = "1:0";
    ASSERT_FAILS(tx_bert_data_open(&range, &o), TX_ERR_ARG, "is no range");
}

static void damaged_samples_are_named(void **state)
{
    (void)state;
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *d;
    tx_bert_sample s;
    tx_indexed_builder *b;
    s = sample_in((int32_t[6 *S]){ 0 }, S);
    o.path = make_dataset("d", (const int[]){ -1, -1, -1, 0, 5, 0, 0 });
    o.split = "1,0,0";
    ASSERT_OK(tx_bert_data_open(&d, &o));
    ASSERT_FAILS(tx_bert_dataset_get(tx_bert_data_split(d, TX_SPLIT_TRAIN), &s, 0), TX_ERR_FORMAT, "are empty");
    tx_bert_data_close(d);
    o.path = in_scratch("beyond");
    ASSERT_OK(tx_indexed_create(&b, o.path, 2000));
    for (int i = 0; i < 2; i++) ASSERT_OK(tx_indexed_add_item(b, (const int32_t[]){ 1001, 1002 }, 2));
    ASSERT_OK(tx_indexed_end_document(b));
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    o.short_seq_prob = 0;
    ASSERT_OK(tx_bert_data_open(&d, &o));
    ASSERT_FAILS(tx_bert_dataset_get(tx_bert_data_split(d, TX_SPLIT_TRAIN), &s, 0), TX_ERR_FORMAT, "token id 1002");
    tx_bert_data_close(d);
}

static void survives_every_failing_allocation(void **state)
{
    (void)state;
    tx_bert_data_opts o = tiny_opts();
    tx_bert_data *d = NULL;
    tx_status st = TX_ERR_NOMEM;
    int64_t failed = 0;
    for (; st; failed++) {
        allocation_fails_at(failed);
        st = tx_bert_data_open(&d, &o);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(!st == (d != NULL));
    }
    assert_true(failed > 5);
    tx_bert_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_megatrons),
        cmocka_unit_test(masks_are_megatrons),
        SCRATCH_TEST(rows_of_a_file),
        SCRATCH_TEST(documents_without_pairs_are_left_out),
        cmocka_unit_test(without_a_head_there_is_one_segment),
        cmocka_unit_test(a_range_is_one_splits),
        SCRATCH_TEST(masks_whatever_lies_in_the_file),
        cmocka_unit_test(refuses_what_gives_no_samples),
        SCRATCH_TEST(damaged_samples_are_named),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
