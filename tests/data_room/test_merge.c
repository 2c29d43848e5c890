/* labels: unit golden fault */
#include "data/indexed.h"
#include "support.h"
#include "triax/data.h"

static tx_status merge(const char *fmt, ...)
{
    char flags[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(flags, sizeof flags, fmt, ap);
    va_end(ap);
    tx_config *cfg;
    ASSERT_OK(tx_config_parse_string(&cfg, "merge-datasets", flags));
    tx_status st = tx_merge_datasets(cfg);
    tx_config_free(cfg);
    return st;
}

/* A dataset of n_docs documents; document d has d % 3 items (so some have none) of ids from `first` on. */
static void build(const char *prefix, int n_docs, int32_t first, int64_t vocab_size)
{
    tx_indexed_builder *b;
    ASSERT_OK(tx_indexed_create(&b, prefix, vocab_size));
    for (int d = 0; d < n_docs; d++) {
        for (int i = 0; i < d % 3; i++) {
            int32_t ids[3] = { first + d, first + i, first };
            ASSERT_OK(tx_indexed_add_item(b, ids, 1 + i));
        }
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
}

/* Documents [from, to) of Megatron's own file. */
static void cut(const char *prefix, int64_t from, int64_t to)
{
    tx_indexed ix;
    tx_indexed_builder *b;
    int32_t *ids = malloc(1 << 20);
    ASSERT_OK(tx_indexed_open(&ix, data_path("dataset/tiny_text_document")));
    ASSERT_OK(tx_indexed_create(&b, prefix, 512));
    for (int64_t i = from; i < to; i++) {
        ASSERT_OK(tx_indexed_get(&ix, ids, i, 0, tx_indexed_size(&ix, i)));
        ASSERT_OK(tx_indexed_add_item(b, ids, tx_indexed_size(&ix, i)));
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    tx_indexed_close(&ix);
    free(ids);
}

static void parts_of_megatrons_file_merge_into_it(void **state)
{
    (void)state;
    cut(in_scratch("c"), 0, 130);
    cut(in_scratch("a"), 130, 130); /* no document at all */
    cut(in_scratch("b"), 130, 260);
    ASSERT_OK(merge("--datasets %s %s %s --output-prefix %s", in_scratch("c"), in_scratch("a"), in_scratch("b"),
                    in_scratch("all")));
    assert_same_file(in_scratch("all.bin"), data_path("dataset/tiny_text_document.bin"));
    assert_same_file(in_scratch("all.idx"), data_path("dataset/tiny_text_document.idx"));
    assert_n_files(scratch_dir, 8);
}

/* "a" before "a-b" and both before "b", as Python sorts them; the names with their endings sort otherwise. */
static void a_folder_is_merged_sorted_by_prefix(void **state)
{
    (void)state;
    ASSERT_OK(tx_make_dirs(in_scratch("in/old")));
    build(in_scratch("in/b"), 4, 30, 512);
    build(in_scratch("in/a-b"), 5, 20, 512);
    build(in_scratch("in/a"), 6, 10, 512);
    ASSERT_OK(merge("--input %s --output-prefix %s", in_scratch("in"), in_scratch("sorted")));
    ASSERT_OK(merge("--datasets %s %s %s --output-prefix %s", in_scratch("in/a"), in_scratch("in/a-b"),
                    in_scratch("in/b"), in_scratch("listed")));
    assert_same_file(in_scratch("sorted.bin"), in_scratch("listed.bin"));
    assert_same_file(in_scratch("sorted.idx"), in_scratch("listed.idx"));
    tx_indexed ix;
    ASSERT_OK(tx_indexed_open(&ix, in_scratch("sorted")));
    assert_int_equal(ix.n_docs, 15);
    assert_int_equal(ix.n_items, 6 + 4 + 3);
    int32_t id;
    for (int64_t i = 0; i < ix.n_items; i++) {
        ASSERT_OK(tx_indexed_get(&ix, &id, i, 0, 1));
        assert_int_equal(id / 10, i < 6 ? 1 : i < 10 ? 2 : 3);
    }
    tx_indexed_close(&ix);
}

static void what_cannot_be_merged_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    const char *in = in_scratch("in"), *out = in_scratch("out");
    ASSERT_OK(tx_make_dirs(in));
    ASSERT_FAILS(merge("--input %s --output-prefix %s", in, out), TX_ERR_NOTFOUND, "holds no .bin and .idx");
    build(in_scratch("in/a"), 4, 1, 512);
    build(in_scratch("in/b"), 4, 1, 70000);
    ASSERT_FAILS(merge("--input %s --output-prefix %s", in, out), TX_ERR_ARG, "in/a.idx holds uint16 and ");
    ASSERT_CONTAINS(tx_last_error(), "in/b.idx int32");
    ASSERT_FAILS(merge("--input %s --output-prefix %s", in_scratch("nowhere"), out), TX_ERR_NOTFOUND, "nowhere");
    ASSERT_FAILS(merge("--input %s --output-prefix %s/no/out", in, in), TX_ERR_NOTFOUND, "no/ is not a directory");
    ASSERT_FAILS(merge("--input %s --output-prefix %s/", in, in), TX_ERR_ARG, "name of the dataset");
    ASSERT_FAILS(merge("--datasets %s %s --output-prefix %s", in_scratch("in/a"), in_scratch("in/c"), out),
                 TX_ERR_NOTFOUND, "in/c");
    ASSERT_FAILS(merge("--datasets %s --output-prefix %s", in_scratch("in/a"), in_scratch("in/../in/a")), TX_ERR_ARG,
                 "one of the datasets to merge");
    write_text(in_scratch("in/notes.txt"), "x");
    ASSERT_FAILS(merge("--input %s --output-prefix %s", in, out), TX_ERR_ARG, "notes.txt");
    ASSERT_OK(tx_remove_tree(in_scratch("in/notes.txt")));
    ASSERT_OK(tx_remove_tree(in_scratch("in/b.bin")));
    ASSERT_FAILS(merge("--input %s --output-prefix %s", in, out), TX_ERR_NOTFOUND, "b.bin is missing");
    assert_n_files(scratch_dir, 1);
}

/* Files that can be read alone, but whose merge would not hold what they hold. */
static void parts_that_would_be_lost_are_refused(void **state)
{
    (void)state;
    build(in_scratch("a"), 4, 1, 512);
    tx_str bin = read_file(in_scratch("a.bin")), idx = read_file(in_scratch("a.idx"));
    ASSERT_OK(tx_str_append(&bin, "\1\0\1\0\1\0\1\0", 8)); /* an id that the index does not count, of each document */
    write_file(in_scratch("eod.bin"), bin.data, bin.len);
    write_file(in_scratch("eod.idx"), idx.data, idx.len);
    ASSERT_FAILS(merge("--datasets %s --output-prefix %s", in_scratch("eod"), in_scratch("out")), TX_ERR_FORMAT,
                 "does not count");
    write_file(in_scratch("modes.bin"), bin.data, bin.len - 8);
    ASSERT_OK(tx_str_append(&idx, "\0\0\0", 3)); /* a mode for each of the three items */
    write_file(in_scratch("modes.idx"), idx.data, idx.len);
    ASSERT_FAILS(merge("--datasets %s --output-prefix %s", in_scratch("modes"), in_scratch("out")), TX_ERR_UNSUPPORTED,
                 "multimodal");
    tx_str_free(&bin);
    tx_str_free(&idx);
    assert_n_files(scratch_dir, 6);
}

/* The N-th allocation fails, for every N: an older pair stays as it was, and nothing is left beside it. */
static void a_failed_merge_harms_nothing(void **state)
{
    (void)state;
    ASSERT_OK(tx_make_dirs(in_scratch("in")));
    build(in_scratch("in/a"), 4, 1, 512);
    build(in_scratch("in/b"), 5, 9, 512);
    build(in_scratch("out"), 3, 7, 512);
    tx_str old = read_file(in_scratch("out.idx"));
    tx_config *cfg;
    char flags[4096];
    snprintf(flags, sizeof flags, "--input %s --output-prefix %s", in_scratch("in"), in_scratch("out"));
    ASSERT_OK(tx_config_parse_string(&cfg, "merge-datasets", flags));
    tx_status st = TX_ERR_NOMEM;
    int n = 0;
    for (; st; n++) {
        allocation_fails_at(n);
        st = tx_merge_datasets(cfg);
        allocations_succeed();
        assert_n_files(scratch_dir, 3);
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        tx_str now = read_file(in_scratch("out.idx"));
        assert_int_equal(now.len, old.len);
        assert_memory_equal(now.data, old.data, old.len);
        tx_str_free(&now);
    }
    assert_true(n > 10);
    tx_indexed ix;
    ASSERT_OK(tx_indexed_open(&ix, in_scratch("out")));
    assert_int_equal(ix.n_docs, 9);
    tx_indexed_close(&ix);
    tx_config_free(cfg);
    tx_str_free(&old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(parts_of_megatrons_file_merge_into_it),
        SCRATCH_TEST(a_folder_is_merged_sorted_by_prefix),
        SCRATCH_TEST(what_cannot_be_merged_is_told_and_leaves_nothing),
        SCRATCH_TEST(parts_that_would_be_lost_are_refused),
        SCRATCH_TEST(a_failed_merge_harms_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
