/* labels: unit */
/* The documents of samples in words. */
#include "support.h"

#include "data/gpt_dataset.h"
#include "data/sample_documents.h"

enum { N_DOCS = 300 };

/* Documents of 2 to 4 tokens, or of `size`, in the file's own order. */
static tx_gpt_data *open_data(const char *name, int size)
{
    tx_indexed_builder *b;
    int32_t ids[64] = { 0 };
    tx_gpt_data *data;
    ASSERT_OK(tx_indexed_create(&b, in_scratch("%s", name), 100));
    for (int d = 0; d < N_DOCS; d++) {
        ASSERT_OK(tx_indexed_add_item(b, ids, size ? size : 2 + d % 3));
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    tx_gpt_data_opts o = { .path = in_scratch("%s", name),
                           .split = "1,0,0",
                           .n_samples = { 10, 0, 0 },
                           .seq_length = 5,
                           .seed = 1,
                           .keyed = true };
    ASSERT_OK(tx_gpt_data_open(&data, &o));
    return data;
}

static tx_blend blend_of_one(const tx_gpt_data *data)
{
    tx_blend b;
    ASSERT_OK(tx_blend_of_one(&b, (tx_sample_set){ &tx_gpt_samples, tx_gpt_data_split(data, TX_SPLIT_TRAIN) }, true));
    return b;
}

static void assert_says(const tx_blend *b, const int64_t *sample, int64_t n, const char *say)
{
    tx_str out = { 0 };
    ASSERT_OK(tx_sample_documents(&out, b, sample, n));
    assert_string_equal(out.data, say);
    tx_str_free(&out);
}

/* What the pieces say, document by document. */
static void they_are_the_samples_pieces(void **state)
{
    (void)state;
    tx_gpt_data *data = open_data("small", 0);
    tx_blend b = blend_of_one(data);
    tx_sample_pieces p = { 0 };
    for (int64_t i = 0; i < 20; i++) {
        char say[512];
        ASSERT_OK(tx_sample_pieces_read(&p, &b, i));
        int64_t first = p.piece[0].item, last = p.piece[p.n - 1].item;
        assert_true(p.dataset == 0 && p.n == last - first + 1);
        if (p.n == 1)
            snprintf(say, sizeof say, "document %d of %s", (int)first, in_scratch("small"));
        else
            snprintf(say, sizeof say, "documents %d%s%d of %s", (int)first, p.n > 2 ? "-" : ", ", (int)last,
                     in_scratch("small"));
        assert_says(&b, &i, 1, say);
        assert_says(&b, (int64_t[]){ i, i, i }, 3, say);
    }
    tx_sample_pieces_free(&p);
    tx_blend_free(&b);
    tx_gpt_data_close(data);
}

static void long_lists_are_cut(void **state)
{
    (void)state;
    tx_gpt_data *data = open_data("one", 6); /* a sample is a document and the beginning of the next */
    tx_blend b = blend_of_one(data);
    int64_t all[360]; /* an epoch */
    int64_t n = (6 * N_DOCS - 1) / 5;
    for (int64_t i = 0; i < n; i++) all[i] = i;
    char say[512];
    snprintf(say, sizeof say, "documents 0-%d of %s", N_DOCS - 1, in_scratch("one"));
    assert_says(&b, all, n, say);
    tx_str out = { 0 };
    ASSERT_OK(tx_sample_documents(&out, &b, all, 40));
    ASSERT_CONTAINS(out.data, " more of ");
    int commas = 0;
    for (const char *c = out.data; *c; c++) commas += *c == ',';
    assert_true(commas >= TX_DOCUMENTS_SHOWN - 1 && commas < 2 * TX_DOCUMENTS_SHOWN);
    tx_str_free(&out);
    tx_blend_free(&b);
    tx_gpt_data_close(data);
}

static void a_blend_names_each_dataset(void **state)
{
    (void)state;
    tx_gpt_data *data[5];
    tx_sample_set part[5];
    char name[8];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "d%d", i);
        data[i] = open_data(name, 64);
        part[i] = (tx_sample_set){ &tx_gpt_samples, tx_gpt_data_split(data[i], TX_SPLIT_TRAIN) };
    }
    tx_blend b;
    tx_str out = { 0 };
    ASSERT_OK(tx_blend_build(&b, part, (double[]){ 1, 1, 1, 1, 1 }, 5, 10, true));
    ASSERT_OK(tx_sample_documents(&out, &b, (int64_t[]){ 0, 1 }, 2));
    ASSERT_CONTAINS(out.data, in_scratch("d0; document"));
    ASSERT_CONTAINS(out.data, in_scratch("d1"));
    out.len = 0;
    ASSERT_OK(tx_sample_documents(&out, &b, (int64_t[]){ 0, 1, 2, 3, 4 }, 5));
    ASSERT_CONTAINS(out.data, in_scratch("d2; and of more datasets"));
    tx_str_free(&out);
    tx_blend_free(&b);
    for (int i = 0; i < 5; i++) tx_gpt_data_close(data[i]);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    tx_gpt_data *data = open_data("small", 0);
    tx_blend b = blend_of_one(data);
    tx_status st = TX_ERR_NOMEM;
    for (int64_t n = 0; st; n++) {
        tx_str out = { 0 };
        allocation_fails_at(n);
        st = tx_sample_documents(&out, &b, (int64_t[]){ 3, 9 }, 2);
        tx_str_free(&out);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(n < 100);
    }
    tx_blend_free(&b);
    tx_gpt_data_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(they_are_the_samples_pieces),
        SCRATCH_TEST(long_lists_are_cut),
        SCRATCH_TEST(a_blend_names_each_dataset),
        SCRATCH_TEST(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
