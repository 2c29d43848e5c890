/* labels: unit golden fault */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "data/indexed.h"
#include "support.h"

/* Three documents of two, one and one items; 6 ids. */
static void build_small(const char *prefix, int64_t vocab_size)
{
    static const int32_t ids[] = { 1, 2, 3, 40000, 5, 65499 };
    tx_indexed_builder *b;
    ASSERT_OK(tx_indexed_create(&b, prefix, vocab_size));
    ASSERT_OK(tx_indexed_add_item(b, ids, 2));
    ASSERT_OK(tx_indexed_add_item(b, ids + 2, 1));
    ASSERT_OK(tx_indexed_end_document(b));
    ASSERT_OK(tx_indexed_add_item(b, ids + 3, 2));
    ASSERT_OK(tx_indexed_end_document(b));
    ASSERT_OK(tx_indexed_add_item(b, ids + 5, 1));
    ASSERT_OK(tx_indexed_end_document(b));
    assert_int_equal(tx_indexed_builder_docs(b), 3);
    assert_int_equal(tx_indexed_builder_tokens(b), 6);
    ASSERT_OK(tx_indexed_commit(b));
    ASSERT_FAILS(tx_indexed_commit(b), TX_ERR_STATE, "already");
    tx_indexed_destroy(b);
}

static void assert_only_files(const char *a, const char *b)
{
    tx_names names;
    ASSERT_OK(tx_dir_list(scratch_dir, &names));
    assert_int_equal(names.n, (a != NULL) + (b != NULL));
    if (a) assert_string_equal(names.name[0], a);
    if (b) assert_string_equal(names.name[1], b);
    tx_names_free(&names);
}

static void assert_small(const char *prefix, int dtype)
{
    static const int32_t want[] = { 40000, 5 };
    tx_indexed ix;
    int32_t ids[2];
    ASSERT_OK(tx_indexed_open(&ix, prefix));
    assert_int_equal(ix.dtype, dtype);
    assert_int_equal(ix.n_items, 4);
    assert_int_equal(ix.n_docs, 3);
    assert_int_equal(ix.n_tokens, 6);
    ASSERT_OK(tx_indexed_get(&ix, ids, 2, 0, 2));
    assert_memory_equal(ids, want, sizeof want);
    ASSERT_OK(tx_indexed_get(&ix, ids, 2, 1, 1));
    assert_int_equal(ids[0], 5);
    ASSERT_OK(tx_indexed_get(&ix, ids, 2, 2, 0));
    static const int64_t doc_of[] = { 0, 0, 1, 2 };
    for (int i = 0; i < 4; i++) assert_int_equal(tx_indexed_doc_of(&ix, i), doc_of[i]);
    ASSERT_FAILS(tx_indexed_get(&ix, ids, 2, 1, 2), TX_ERR_ARG, "item 2");
    ASSERT_FAILS(tx_indexed_get(&ix, ids, 4, 0, 1), TX_ERR_ARG, "item 4");
    ASSERT_FAILS(tx_indexed_get(&ix, ids, -1, 0, 1), TX_ERR_ARG, "item -1");
    ASSERT_FAILS(tx_indexed_get(&ix, ids, 2, INT64_MAX, 1), TX_ERR_ARG, "item 2");
    ASSERT_OK(tx_indexed_get(&ix, ids, 2, 0, 2));
    ASSERT_OK(tx_indexed_check_vocab(&ix, ids, 2, 0, 2, 40001));
    ASSERT_FAILS(tx_indexed_check_vocab(&ix, ids, 2, 0, 2, 40000), TX_ERR_FORMAT, "document 1 holds token id 40000");
    tx_indexed_close(&ix);
}

static void what_is_written_can_be_read(void **state)
{
    (void)state;
    build_small(in_scratch("a"), 65499); /* below 65500: uint16 */
    assert_small(in_scratch("a"), 8);
    build_small(in_scratch("a"), 65500); /* replaces it */
    assert_small(in_scratch("a"), 4);
    assert_only_files("a.bin", "a.idx");
}

/* tiny_text_document was written by Megatron's preprocess_data: reading and writing it again gives the same bytes. */
static void megatrons_files_survive_a_round_trip(void **state)
{
    (void)state;
    tx_indexed ix;
    tx_indexed_builder *b;
    int32_t *ids = malloc(1 << 20);
    ASSERT_OK(tx_indexed_open(&ix, data_path("dataset/tiny_text_document")));
    assert_int_equal(ix.n_docs, 260);
    assert_int_equal(ix.n_items, 260);
    assert_int_equal(ix.n_tokens * 2, (int64_t)ix.bin.size);
    ASSERT_OK(tx_indexed_create(&b, in_scratch("copy"), 512));
    for (int64_t i = 0; i < ix.n_items; i++) {
        int64_t n = tx_indexed_size(&ix, i);
        assert_true(n <= 1 << 18);
        ASSERT_OK(tx_indexed_get(&ix, ids, i, 0, n));
        ASSERT_OK(tx_indexed_check_vocab(&ix, ids, i, 0, n, 512));
        ASSERT_OK(tx_indexed_add_item(b, ids, n));
        ASSERT_OK(tx_indexed_end_document(b));
    }
    ASSERT_OK(tx_indexed_commit(b));
    tx_indexed_destroy(b);
    tx_indexed_close(&ix);
    free(ids);
    assert_same_file(in_scratch("copy.bin"), data_path("dataset/tiny_text_document.bin"));
    assert_same_file(in_scratch("copy.idx"), data_path("dataset/tiny_text_document.idx"));
}

/* An .idx of one document with two ids in the given type, and its .bin. */
static void write_typed(int dtype, const void *bin, size_t n_bin)
{
    unsigned char idx[34 + 4 + 8 + 16] = "MMIDIDX";
    uint64_t one = 1, two = 2;
    int32_t size = 2;
    memcpy(idx + 9, &one, 8);
    idx[17] = (unsigned char)dtype;
    memcpy(idx + 18, &one, 8);
    memcpy(idx + 26, &two, 8);
    memcpy(idx + 34, &size, 4);
    memcpy(idx + 54, &one, 8);
    write_file(in_scratch("t.idx"), idx, sizeof idx);
    write_file(in_scratch("t.bin"), bin, n_bin);
}

static void reads_every_integer_type(void **state)
{
    (void)state;
    static const uint8_t u8[] = { 200, 7 };
    static const int8_t i8[] = { -3, 7 };
    static const int16_t i16[] = { -300, 7 };
    static const int32_t i32[] = { 2000000000, 7 };
    static const int64_t i64[] = { -2000000000, 7 }, too_large[] = { 7, 1LL << 31 };
    static const uint16_t u16[] = { 65535, 7 };
    const struct {
        int dtype;
        const void *bin;
        size_t n;
        int32_t first;
    } cases[] = { { 1, u8, 2, 200 },           { 2, i8, 2, -3 },    { 3, i16, 4, -300 }, { 4, i32, 8, 2000000000 },
                  { 5, i64, 16, -2000000000 }, { 8, u16, 4, 65535 } };
    tx_indexed ix;
    int32_t ids[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_typed(cases[i].dtype, cases[i].bin, cases[i].n);
        ASSERT_OK(tx_indexed_open(&ix, in_scratch("t")));
        ASSERT_OK(tx_indexed_get(&ix, ids, 0, 0, 2));
        assert_int_equal(ids[0], cases[i].first);
        assert_int_equal(ids[1], 7);
        tx_indexed_close(&ix);
    }
    write_typed(5, too_large, 16);
    ASSERT_OK(tx_indexed_open(&ix, in_scratch("t")));
    ASSERT_FAILS(tx_indexed_get(&ix, ids, 0, 0, 2), TX_ERR_FORMAT, "token id 2147483648 at position 1");
    tx_indexed_close(&ix);
    for (int dtype = 0; dtype < 256; dtype++) {
        if ((dtype >= 1 && dtype <= 5) || dtype == 8) continue;
        write_typed(dtype, u8, 2);
        ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("t")), TX_ERR_FORMAT, "type code");
    }
}

/* ---- damaged files: the small dataset (N 4, M 4, 114 bytes of index, 12 of ids) with one thing changed ---- */

static void assert_damage(size_t at, const void *bytes, size_t n, const char *text)
{
    tx_indexed ix;
    tx_str idx = read_file(in_scratch("a.idx"));
    memcpy(idx.data + at, bytes, n);
    write_file(in_scratch("d.idx"), idx.data, idx.len);
    tx_str_free(&idx);
    ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("d")), TX_ERR_FORMAT, text);
    ASSERT_CONTAINS(tx_last_error(), "/d.");
}

static void damaged_indices_are_refused(void **state)
{
    (void)state;
    tx_indexed ix;
    build_small(in_scratch("a"), 65499);
    tx_str idx = read_file(in_scratch("a.idx")), bin = read_file(in_scratch("a.bin"));
    assert_int_equal(idx.len, 34 + 12 * 4 + 8 * 4);
    write_file(in_scratch("d.bin"), bin.data, bin.len);

    for (size_t n = 0; n < idx.len; n++) { /* cut off anywhere */
        write_file(in_scratch("d.idx"), idx.data, n);
        ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("d")), TX_ERR_FORMAT, "d.idx");
    }
    const uint64_t huge = UINT64_MAX, one = 1, two = 2, more_items = 3, zero = 0, big = 1ull << 61, five = 5;
    const int32_t minus = -1, more = 3, wide = INT32_MAX;
    assert_damage(0, "X", 1, "does not begin with \"MMIDIDX\"");
    assert_damage(9, &two, 8, "version 2 at byte 9");
    assert_damage(18, &huge, 8, "cut off");
    assert_damage(18, &big, 8, "cut off");
    assert_damage(26, &huge, 8, "cut off");
    assert_damage(26, &zero, 8, "do not fit");
    assert_damage(18, &two, 8, "do not fit");
    assert_damage(34, &minus, 4, "item 0 has size -1");
    assert_damage(34, &more, 4, "item 1 begins at byte 4, but the sizes before it add up to 6");
    assert_damage(34 + 12, &wide, 4, "d.bin: has 12 bytes and is cut off: item 3 of 4 ends at byte");
    assert_damage(50 + 8, &huge, 8, "item 1 begins at byte 18446744073709551615");
    assert_damage(82, &two, 8, "document 0 begins at item 2");
    assert_damage(90, &five, 8, "document 1 begins at item 5");
    assert_damage(90, &huge, 8, "document 1 begins at item -1");
    assert_damage(98, &one, 8, "document 2 begins at item 1, it must lie within 2..4"); /* runs backwards */
    assert_damage(106, &more_items, 8, "the documents end at item 3, but there are 4 items");
    tx_str_free(&idx);
    tx_str_free(&bin);
}

static void damaged_ids_are_refused(void **state)
{
    (void)state;
    tx_indexed ix;
    build_small(in_scratch("a"), 65499);
    tx_str bin = read_file(in_scratch("a.bin"));
    for (size_t n = 0; n < bin.len; n++) {
        write_file(in_scratch("a.bin"), bin.data, n);
        ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("a")), TX_ERR_FORMAT, "is cut off");
    }
    char longer[14] = { 0 };
    write_file(in_scratch("a.bin"), longer, 14);
    ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("a")), TX_ERR_FORMAT, "do not belong together");
    tx_str_free(&bin);
}

/* Some releases of Megatron-DeepSpeed leave the EODs out of the sizes: one id a document too many in .bin. */
static void uncounted_eods_are_read_and_told(void **state)
{
    (void)state;
    tx_indexed ix;
    build_small(in_scratch("a"), 65499);
    tx_str bin = read_file(in_scratch("a.bin"));
    ASSERT_OK(tx_str_append(&bin, "\0\0\0\0\0\0", 6));
    write_file(in_scratch("a.bin"), bin.data, bin.len);
    log_begin();
    ASSERT_OK(tx_indexed_open(&ix, in_scratch("a")));
    ASSERT_CONTAINS(logged, "does not count the end-of-document tokens");
    log_end();
    tx_indexed_close(&ix);
    tx_str_free(&bin);
}

static void missing_files_are_named(void **state)
{
    (void)state;
    tx_indexed ix;
    build_small(in_scratch("a"), 512 * 1024);
    ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("b")), TX_ERR_NOTFOUND, "Dataset does not exist");
    ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("a.idx")), TX_ERR_NOTFOUND, "/a?");
    unlink(in_scratch("a.bin"));
    ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("a")), TX_ERR_NOTFOUND, "a.bin");
    write_text(in_scratch("old.idx"), "TNTIDX and more");
    write_text(in_scratch("old.bin"), "");
    ASSERT_FAILS(tx_indexed_open(&ix, in_scratch("old")), TX_ERR_UNSUPPORTED, "lazy");
}

/* ---- writing fails ---- */

static void an_abandoned_dataset_leaves_nothing(void **state)
{
    (void)state;
    static const int32_t ids[] = { 1, 70000, -1 };
    tx_indexed_builder *b;
    ASSERT_OK(tx_indexed_create(&b, in_scratch("a"), 512));
    ASSERT_OK(tx_indexed_add_item(b, ids, 1));
    ASSERT_FAILS(tx_indexed_add_item(b, ids + 1, 1), TX_ERR_ARG, "token id 70000");
    ASSERT_FAILS(tx_indexed_add_item(b, ids + 2, 1), TX_ERR_ARG, "token id -1");
    tx_indexed_destroy(b);
    assert_only_files(NULL, NULL);
    ASSERT_OK(tx_indexed_create(&b, in_scratch("a"), 512));
    ASSERT_OK(tx_indexed_seal(b));
    tx_indexed_destroy(b);
    assert_only_files(NULL, NULL);
    ASSERT_FAILS(tx_indexed_create(&b, in_scratch("no/such/folder/a"), 512), TX_ERR_NOTFOUND, "no/such/folder");
}

/* Writes `docs` documents of `tokens` ids with files limited to `limit` bytes, as on a full disk. */
static tx_status build_limited(int docs, int tokens, rlim_t limit)
{
    static int32_t ids[4096];
    struct rlimit old, small;
    tx_indexed_builder *b;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){ limit, old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tx_status st = tx_indexed_create(&b, in_scratch("a"), 512);
    for (int d = 0; d < docs && !st; d++) {
        st = tx_indexed_add_item(b, ids, tokens);
        if (!st) st = tx_indexed_end_document(b);
    }
    if (!st) st = tx_indexed_commit(b);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    tx_indexed_destroy(b);
    return st;
}

static void a_full_disk_leaves_what_was_there(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    ASSERT_FAILS(build_limited(2000, 4096, 1 << 20), TX_ERR_IO, "a.bin"); /* 16 MB of ids */
    assert_only_files(NULL, NULL);
    ASSERT_FAILS(build_limited(1000, 1, 8192), TX_ERR_IO, "a.idx"); /* 2 KB of ids, 20 KB of index */
    assert_only_files(NULL, NULL);

    build_small(in_scratch("a"), 512 * 1024);
    assert_int_equal(build_limited(2000, 4096, 1 << 20), TX_ERR_IO);
    assert_int_equal(build_limited(1000, 1, 8192), TX_ERR_IO);
    assert_only_files("a.bin", "a.idx");
    assert_small(in_scratch("a"), 4); /* the old pair */
    ASSERT_OK(build_limited(1000, 1, 1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_written_can_be_read),       SCRATCH_TEST(megatrons_files_survive_a_round_trip),
        SCRATCH_TEST(reads_every_integer_type),          SCRATCH_TEST(damaged_indices_are_refused),
        SCRATCH_TEST(damaged_ids_are_refused),           SCRATCH_TEST(uncounted_eods_are_read_and_told),
        SCRATCH_TEST(missing_files_are_named),           SCRATCH_TEST(an_abandoned_dataset_leaves_nothing),
        SCRATCH_TEST(a_full_disk_leaves_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
